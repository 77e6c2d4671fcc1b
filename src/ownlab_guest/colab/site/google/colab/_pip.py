"""Warn about packages that were replaced while this kernel has the old version loaded.

The output of pip is not reliable (`pip install -q`, uv, conda), so the package folders are compared.
"""

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Set

from ownlab_guest.shell.packages import installed

__all__ = ["watch"]

_INSTALLS = re.compile(
    r"\b(pip|pip3|uv|conda|mamba|micromamba)\b.*\b(install|uninstall|sync|update|upgrade)\b", re.DOTALL
)


@contextlib.contextmanager
def watch(command: str, write: Callable[[str], object]) -> Iterator[None]:
    """If a command installs packages, warn about those that it replaced and that are in use here."""
    if not _INSTALLS.search(command):
        yield
        return
    before = installed(sys.path)
    yield
    after = installed(sys.path)
    names = _in_use([path for path in after if before.get(path) != after[path]])
    if names:
        write(
            f"\nWARNING: This runtime still uses the old version of: {', '.join(names)}.\n"
            "Restart the runtime to use the newly installed version.\n"
        )


def _in_use(changed: List[str]) -> List[str]:
    """Return the top-level names of loaded modules that belong to these distributions."""
    if not changed:
        return []
    from importlib.metadata import PathDistribution  # slower than the rest of a kernel's setup

    loaded: Dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            loaded[os.path.normpath(file)] = name
    names: Set[str] = set()
    for path in changed:
        folder = os.path.dirname(path)
        for file in PathDistribution(Path(path)).files or ():
            name = loaded.get(os.path.normpath(os.path.join(folder, str(file))), "")
            if name:
                names.add(_short(name))
    return sorted(names)


def _short(module: str) -> str:
    """Return the well-known name: google.protobuf, not google."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "google" else parts[0]
