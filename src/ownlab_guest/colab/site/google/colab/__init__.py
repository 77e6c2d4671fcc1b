"""The stand-in for Colab's google.colab. Submodules are loaded on first use."""

import importlib
from typing import Any, List

from . import _import_hooks

__all__ = ["auth", "autoviz", "data_table", "drive", "files", "output", "runtime", "snippets", "widgets"]

__version__ = "0.0.1a2"  # Colab's own value for years; some notebooks print it

# On Colab these must be imported by name; here `import google.colab` suffices.
_OTHERS = ["ai", "errors", "html", "patches", "sheets", "sql", "syntax", "userdata"]

_import_hooks.register()


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext google.colab`: on Colab it adds what a kernel in Colab mode already has."""
    _import_hooks.register()


def __getattr__(name: str) -> Any:
    if name in __all__ or name in _OTHERS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*globals(), *__all__, *_OTHERS])
