"""cv2.imshow opens a window. In a kernel that ends the process, or blocks it for ever; so it says what to call instead."""

import functools
import os
import sys
from typing import Any, Callable, Optional, Sequence

ENABLE = "ENABLE_CV2_IMSHOW"  # set it, and the window is tried


class DisabledFunctionError(ValueError):
    """The function is there, and would do harm."""

    def __init__(self, message: str, funcname: Optional[str] = None) -> None:
        super().__init__(message)
        self.funcname = funcname


class _Watch:
    """A finder of sys.meta_path that finds cv2 as the others do, and looks at it after it was loaded."""

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Any:
        if name != "cv2":
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _after_loading(spec.loader)
                return spec
        return None


def register() -> None:
    """Watch for cv2; one that was imported already is changed now."""
    if not any(isinstance(each, _Watch) for each in sys.meta_path):
        sys.meta_path.insert(0, _Watch())
    if "cv2" in sys.modules:
        disable(sys.modules["cv2"])


def disable(module: Any) -> None:
    """Make its imshow raise, unless it was done before or there is none."""
    imshow = getattr(module, "imshow", None)
    if imshow is not None and not hasattr(imshow, "_ownlab_disabled"):
        module.imshow = _disabled(imshow)


def _after_loading(loader: Any) -> None:
    """opencv-python loads itself twice, the second time under the same name; each loader is one of its own."""
    load = getattr(loader, "exec_module", None)
    if load is None:
        return

    def exec_module(module: Any) -> None:
        load(module)
        disable(module)

    loader.exec_module = exec_module


def _disabled(imshow: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(imshow)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        if os.environ.get(ENABLE):
            return imshow(*args, **kwargs)
        message = (
            "cv2.imshow() is disabled in Colab, because it opens a window, and a kernel has none.\n"
            "As a substitution, consider using\n"
            "  from google.colab.patches import cv2_imshow\n"
        )
        raise DisabledFunctionError(message, "cv2.imshow")

    refuse._ownlab_disabled = True  # type: ignore[attr-defined]  # so that it is done once
    return refuse
