"""Paths: the state folder, the configuration file, the folder of kernelspecs. Standard library only."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from ownlab.errors import LabError
from ownlab.text import text

__all__ = [
    "SYSTEM_CONFIG",
    "cluster_kernels_folder",
    "config_file",
    "config_files",
    "content_folder",
    "drive_folder",
    "environments_folder",
    "kernels_export",
    "kernels_folder",
    "missing_config",
    "state_folder",
]

SYSTEM_CONFIG = Path("/etc/ownlab/config.toml")


def state_folder(environ: Mapping[str, str] = os.environ, *, make: bool = True) -> Path:
    """Return the private folder of a person's labs, runtimes and environments; create it if necessary."""
    if environ.get("OWNLAB_HOME"):
        folder = _path(environ["OWNLAB_HOME"])
    else:
        folder = _xdg(environ, "XDG_STATE_HOME", ".local/state") / "ownlab"
    if make:
        _make_private(folder)
    return folder


def content_folder(runtime: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that a Colab-mode kernel sees as /content. It is kept for a while after its runtime ends."""
    return state_folder(environ, make=False) / "content" / runtime


def drive_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the default folder of drive.mount. It outlives runtimes, and moves with OWNLAB_HOME as everything else does."""
    if environ.get("OWNLAB_HOME"):
        return _path(environ["OWNLAB_HOME"]) / "drive"
    return _xdg(environ, "XDG_DATA_HOME", ".local/share") / "ownlab" / "drive"


def environments_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the default folder of the environments that ownlab creates. They are large, so not in the state folder."""
    if environ.get("OWNLAB_HOME"):
        return _path(environ["OWNLAB_HOME"]) / "environments"
    return _xdg(environ, "XDG_DATA_HOME", ".local/share") / "ownlab" / "environments"


def config_file(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> Path:
    """Return the configuration file that is used, whether or not it exists."""
    candidates = config_files(environ, system)
    return next((path for path in candidates if os.path.exists(path)), candidates[0])


def config_files(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> tuple[Path, ...]:
    """Return the paths that are searched for a configuration; the first that exists is used."""
    if environ.get("OWNLAB_CONFIG"):
        return (_path(environ["OWNLAB_CONFIG"]),)
    return (_xdg(environ, "XDG_CONFIG_HOME", ".config") / "ownlab" / "config.toml", system)


def missing_config(environ: Mapping[str, str] = os.environ) -> str:
    """Return a notice if the file that OWNLAB_CONFIG names does not exist, otherwise ""."""
    if not environ.get("OWNLAB_CONFIG") or os.path.exists(path := config_file(environ)):
        return ""
    return text("OWNLAB_CONFIG names {path}, which does not exist. All settings have their defaults.", path=path)


def kernels_folder(environ: Mapping[str, str] = os.environ, *, prefix: str = sys.prefix) -> Path:
    """Return the folder of our kernelspecs: share/jupyter of this environment.

    If that is not writable, a folder in the state folder, which Jupyter has to be pointed to (`kernels_export`).
    """
    if environ.get("OWNLAB_KERNELS"):
        return _path(environ["OWNLAB_KERNELS"])
    folder = os.path.join(prefix, "share", "jupyter", "kernels")
    nearest = folder
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if os.access(nearest, os.W_OK | os.X_OK):
        return Path(folder)
    return state_folder(environ, make=False) / "share" / "jupyter" / "kernels"


def cluster_kernels_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the kernelspecs of a cluster, which only labs that use it list."""
    return state_folder(environ, make=False) / "cluster" / "kernels"


def kernels_export(environ: Mapping[str, str] = os.environ, *, prefix: str = sys.prefix) -> str:
    """Return the shell command after which Jupyter finds our kernelspecs; "" if it finds them anyway."""
    folder = kernels_folder(environ, prefix=prefix)
    if folder.name != "kernels":  # jupyter_core searches only folders of that name
        return ""
    share, known = str(folder.parent), environ.get("JUPYTER_PATH", "")
    searched = [os.path.join(prefix, "share", "jupyter"), *known.split(os.pathsep)]
    if share in (path.rstrip(os.sep) for path in searched):
        return ""
    return f"export JUPYTER_PATH={shlex.quote(share)}" + (f"{os.pathsep}$JUPYTER_PATH" if known else "")


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    given = environ.get(variable, "")
    if os.path.isabs(given):  # XDG Base Directory Specification: relative paths are ignored
        return Path(given)
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(home) / below_home


def _path(given: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(given)))


def _make_private(folder: Path) -> None:
    hint = text("Set OWNLAB_HOME to a folder that you own.")
    try:
        os.makedirs(folder.parent, exist_ok=True)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        owner = os.stat(folder).st_uid
    except OSError as exc:
        message = text("Cannot create the state folder {folder}: {reason}.", folder=folder, reason=exc.strerror)
        raise LabError(message, hint=hint) from exc
    if owner != os.geteuid() and os.geteuid() != 0:  # in a container, root works in folders of users of the host
        message = text("The state folder {folder} belongs to another user (uid {owner}).", folder=folder, owner=owner)
        raise LabError(message, hint=hint)
