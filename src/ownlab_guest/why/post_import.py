"""Runs a function after the script has imported a certain module. Nothing is imported earlier than without us."""

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence

__all__ = ["PostImport"]

Hook = Callable[[ModuleType], None]


class PostImport(importlib.abc.MetaPathFinder):
    """A finder that finds nothing itself: it lets the others find a watched module, and adds the hook to its loader."""

    def __init__(self, hooks: Dict[str, Hook]) -> None:
        self._hooks = hooks

    def install(self) -> None:
        """Watch for the modules. Those that are loaded already get their hook at once."""
        for name in [name for name in self._hooks if name in sys.modules]:
            self._hooks.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the true spec of a watched module, with a loader that also runs the hook."""
        hook = self._hooks.pop(fullname, None)
        if hook is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(fullname, path, target)
            if spec is not None:
                _run_after(spec.loader, hook)
                return spec  # type: ignore[no-any-return]
        self._hooks[fullname] = hook  # not found now; a later import may succeed
        return None


def _run_after(loader: Any, hook: Hook) -> None:
    """Replace `exec_module` of this one loader object, which stays what it is for everybody who looks at it."""
    original = getattr(loader, "exec_module", None)
    if original is None:
        return

    def exec_module(module: ModuleType) -> None:
        original(module)
        hook(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:  # the loader of a frozen or built-in module: none of those that we watch
        return
