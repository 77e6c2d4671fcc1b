"""Packages that were imported before a cell changed them: the kernel still runs the old code, until it is restarted.

Reported as Colab does it, so that pages of both know what the output means.
"""

import os
import sys
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterable, List, Set

from ownlab_guest.text import listing, shown, text

__all__ = ["COLAB_MIME", "loaded_modules", "show_stale", "stale_packages"]

# {"pip_warning": {"packages": [...]}, "id": ...}; here the id is that of the kernel's process, to which it applies.
COLAB_MIME = "application/vnd.colab-display-data+json"


def loaded_modules() -> FrozenSet[str]:
    """Return the names of the modules that are loaded now. Called before a cell that installs packages."""
    return frozenset(sys.modules)


def stale_packages(changed: Iterable[str], loaded_before: FrozenSet[str]) -> List[str]:
    """Return the packages that are in use in another version than is installed now.

    `changed`: the .dist-info folders of what was installed meanwhile.
    """
    folders = list(changed)
    if not folders:
        return []
    from importlib.metadata import PathDistribution  # slower than the rest of a kernel's setup

    modules = _modules_by_file()
    names: Set[str] = set()
    for folder in folders:
        place = os.path.dirname(folder)
        for file in PathDistribution(Path(folder)).files or ():
            module = modules.get(os.path.normpath(os.path.join(place, str(file))), "")
            if module and (module in loaded_before or _has_other_version(module, folder)):
                names.add(_short(module))
    return sorted(names)


def show_stale(shell: Any, names: List[str]) -> None:
    """Show in the running cell that the runtime must be restarted. The page offers to do it."""
    message = text(
        "This runtime still uses the old version of: {packages}. Restart it to use the installed version.",
        packages=listing(names, "{items}, {last}"),
    )
    warning = {"pip_warning": {"packages": names}, "id": shell.kernel.session.session}
    shell.display_pub.publish({"text/plain": shown(message), COLAB_MIME: warning}, {})


def _modules_by_file() -> Dict[str, str]:
    found: Dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            found[os.path.normpath(file)] = name
    return found


def _has_other_version(module: str, folder: str) -> bool:
    """Whether a module that the same cell imported was imported before the change, as far as its version says so."""
    version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", None)
    installed = os.path.basename(folder).rpartition(".")[0].partition("-")[2]
    return isinstance(version, str) and version.partition("+")[0] != installed.partition("+")[0]


def _short(module: str) -> str:
    """Return the well-known name: google.protobuf, not google."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "google" else parts[0]
