"""Packages that were replaced while this kernel has the old ones loaded: it is said, and that a restart helps.

What pip printed does not tell (`pip install -q`, uv, conda), so the folders of packages are compared.
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
def watch(command: str, say: Callable[[str], object]) -> Iterator[None]:
    """Say what a command replaced that is in use here, where it is one that installs packages."""
    if not _INSTALLS.search(command):
        yield
        return
    before = installed(sys.path)
    yield
    after = installed(sys.path)
    names = _in_use([path for path in after if before.get(path) != after[path]])
    if names:
        were = "was" if len(names) == 1 else "were"
        say(
            f"\nWARNING: {', '.join(names)} {were} imported in this runtime before, and the old version is still in use.\n"
            "Restart the runtime to use what was just installed.\n"
        )


def _in_use(changed: List[str]) -> List[str]:
    """The modules, by their first name, that are loaded from what these distributions brought."""
    if not changed:
        return []
    from importlib.metadata import PathDistribution  # takes longer than the rest of a kernel's preparation

    loaded: Dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            loaded[os.path.normpath(file)] = name
    found: Set[str] = set()
    for path in changed:
        folder = os.path.dirname(path)
        for file in PathDistribution(Path(path)).files or ():
            name = loaded.get(os.path.normpath(os.path.join(folder, str(file))), "")
            if name:
                found.add(_short(name))
    return sorted(found)


def _short(module: str) -> str:
    """The name that people know: google.protobuf, not google."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "google" else parts[0]
