"""Disable cv2.imshow: in a kernel its window ends or blocks the process. The error names the replacement."""

import functools
import os
import sys
from typing import Any, Callable, Optional, Sequence

ENABLE = "ENABLE_CV2_IMSHOW"  # set it to allow the window


class DisabledFunctionError(ValueError):
    """The function exists, but is disabled."""

    def __init__(self, message: str, funcname: Optional[str] = None) -> None:
        super().__init__(message)
        self.funcname = funcname


class _Watch:
    """A finder of sys.meta_path that finds cv2 through the others, and changes it after loading."""

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
    """Watch for cv2; change it now if it was imported already."""
    if not any(isinstance(each, _Watch) for each in sys.meta_path):
        sys.meta_path.insert(0, _Watch())
    if "cv2" in sys.modules:
        disable(sys.modules["cv2"])


def disable(module: Any) -> None:
    """Make its imshow raise, unless that was done before or there is none."""
    imshow = getattr(module, "imshow", None)
    if imshow is not None and not hasattr(imshow, "_ownlab_disabled"):
        module.imshow = _disabled(imshow)


def _after_loading(loader: Any) -> None:
    """Hook the loader: opencv-python loads itself twice under the same name, each time with another loader."""
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
            "cv2.imshow() is disabled in Colab, because it opens a window, which a kernel cannot show.\n"
            "As a substitution, consider using\n"
            "  from google.colab.patches import cv2_imshow\n"
        )
        raise DisabledFunctionError(message, "cv2.imshow")

    refuse._ownlab_disabled = True  # type: ignore[attr-defined]  # marks it as done
    return refuse
