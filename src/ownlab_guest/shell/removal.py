"""Factory reset: undo what a notebook did to the packages of an environment.

What it brought is uninstalled, except what something else here needs; what it replaced gets its version back.
"""

import importlib.metadata
import json
import re
import shutil
import sys
from typing import Any, Dict, Iterable, List, Optional, Set

from ownlab_guest.shell.origins import forget_origins, read_origins
from ownlab_guest.shell.packages import _REQUIREMENT, _error_line, _normal, _pip, _run, folders
from ownlab_guest.text import lines, listing, text

__all__ = ["answer", "removable", "remove"]

# Kernels, and everything that installs packages, would not work without these.
_NEEDED_HERE = ("ipykernel", "ipywidgets", "pip", "setuptools", "uv", "wheel")
_REQUIRED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r";.*\bextra\s*==")


def removable(pip: Iterable[str] = ()) -> Dict[str, Any]:
    """Return what `remove` would do with these packages, with versions.

    "removable" are uninstalled, since notebooks brought them here; "restorable" get the version back that the environment
    had; "needed" stay, since others need them; "own" stay, since no notebook has changed them here.
    """
    versions, requirements = _installed()
    origins = read_origins(folders())
    named = {_normal(match[1]) for each in pip if (match := _REQUIREMENT.fullmatch(str(each)))} & set(versions)
    own = {name for name in named if origins.get(name, versions[name]) == versions[name]}
    restorable = {name: origin for name in named - own if (origin := origins[name]) is not None}
    wanted = named - own - set(restorable)
    needed: Dict[str, str] = {name: "" for name in wanted if name in _NEEDED_HERE}
    going = wanted - set(needed)
    while True:
        staying = {
            name: user for user in sorted(set(versions) - going) for name in sorted(requirements[user]) if name in going
        }
        if not staying:
            break
        needed.update(staying)
        going -= set(staying)
    return {
        "removable": [f"{name}=={versions[name]}" for name in sorted(going)],
        "restorable": [f"{name}=={version}" for name, version in sorted(restorable.items())],
        "needed": [{"name": name, "by": user or "ownlab"} for name, user in sorted(needed.items())],
        "own": sorted(own),
    }


def remove(pip: Iterable[str] = ()) -> Dict[str, Any]:
    """Uninstall what is removable, and put back what is restorable; the output of pip is printed.

    Returns "removed", "restored", and "failed" with the reason.
    """
    planned = removable(pip)
    names = [each.partition("==")[0] for each in planned["removable"]]
    earlier: List[str] = planned["restorable"]
    uninstaller, installer = _uninstaller(), _pip()
    if (names or earlier) and (uninstaller is None or installer is None):
        failed = text("{python} has no pip. Install it: {python} -m ensurepip", python=sys.executable)
        return {"removed": [], "restored": [], "failed": failed}
    failures: List[str] = []
    for program, packages in ((uninstaller, names), (installer, earlier)):
        if packages and program is not None:
            code, output = _run([*program, *packages])
            failures += [_error_line(output, "pip")] if code else []
    left = _installed()[0]
    removed = [name for name in names if name not in left]
    restored = [each for each in earlier if left.get(each.partition("==")[0]) == each.partition("==")[2]]
    forget_origins(folders(), [*removed, *(each.partition("==")[0] for each in restored)])
    stuck = [name for name in names if name in left]
    if stuck and not failures:
        failures.append(
            text("These packages could not be removed: {packages}", packages=listing(stuck, "{items}, {last}"))
        )
    return {"removed": removed, "restored": restored, "failed": lines(failures)}


def _installed() -> "tuple[Dict[str, str], Dict[str, Set[str]]]":
    """Return the version of each installed package, and the names of the packages that it requires."""
    versions: Dict[str, str] = {}
    requirements: Dict[str, Set[str]] = {}
    for distribution in importlib.metadata.distributions():
        name: Optional[str] = distribution.metadata["Name"]
        if not name or _normal(name) in versions:
            continue  # damaged, or hidden by one that is earlier on the path
        versions[_normal(name)] = distribution.version
        required = [each for each in distribution.requires or [] if not _EXTRA.search(each)]
        found = [_REQUIRED_NAME.match(each) for each in required]
        requirements[_normal(name)] = {_normal(match[0]) for match in found if match}
    return versions, requirements


def _uninstaller() -> Optional[List[str]]:
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "uninstall", "--yes", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    return [uv, "pip", "uninstall", "--python", sys.executable] if uv else None


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Call `removable` or `remove` with arguments as JSON, for a host that starts this file by path."""
    function, packages = arguments
    return dict({"removable": removable, "remove": remove}[function](**json.loads(packages)))
