"""Where ownlab keeps what: the state folder, the configuration, the kernelspecs. Standard library only."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ownlab.errors import LabError

__all__ = ["SYSTEM_CONFIG", "config_file", "config_files", "kernels_folder", "state_folder"]

SYSTEM_CONFIG = Path("/etc/ownlab/config.toml")


def state_folder(environ: Mapping[str, str] = os.environ, *, make: bool = True) -> Path:
    """The folder of a person's labs, runtimes and environments, theirs alone; made where it is not there."""
    if environ.get("OWNLAB_HOME"):
        folder = _path(environ["OWNLAB_HOME"])
    else:
        folder = _xdg(environ, "XDG_STATE_HOME", ".local/state") / "ownlab"
    if make:
        _make_private(folder)
    return folder


def config_file(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> Path:
    """The one configuration file that counts, whether or not it is there."""
    candidates = config_files(environ, system)
    return next((path for path in candidates if os.path.exists(path)), candidates[0])


def config_files(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> tuple[Path, ...]:
    """Where a configuration is looked for: the first that is there is the one that counts."""
    if environ.get("OWNLAB_CONFIG"):
        return (_path(environ["OWNLAB_CONFIG"]),)
    return (_xdg(environ, "XDG_CONFIG_HOME", ".config") / "ownlab" / "config.toml", system)


def kernels_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where our kernelspecs are written: in this environment's own share/jupyter, never in a home."""
    if environ.get("OWNLAB_KERNELS"):
        return _path(environ["OWNLAB_KERNELS"])
    return Path(sys.prefix) / "share" / "jupyter" / "kernels"


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = environ.get(variable, "")
    if os.path.isabs(given):  # XDG Base Directory Specification: one that is not absolute is to be ignored
        return Path(given)
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(home) / below_home


def _path(given: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(given)))


def _make_private(folder: Path) -> None:
    hint = "Set OWNLAB_HOME to a folder of your own."
    try:
        os.makedirs(folder.parent, exist_ok=True)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        owner = os.stat(folder).st_uid
    except OSError as exc:
        raise LabError(f"the state folder {folder} cannot be made: {exc.strerror}", hint=hint) from exc
    if owner != os.geteuid() and os.geteuid() != 0:  # in a container root works in folders of the host's users
        raise LabError(f"the state folder {folder} belongs to another user (uid {owner})", hint=hint)
