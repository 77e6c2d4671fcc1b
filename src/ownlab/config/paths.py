"""Where ownlab keeps what: the state folder, the configuration, the kernelspecs. Standard library only."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from ownlab.errors import LabError

__all__ = [
    "SYSTEM_CONFIG",
    "config_file",
    "config_files",
    "content_folder",
    "drive_folder",
    "kernels_export",
    "kernels_folder",
    "missing_config",
    "state_folder",
]

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


def content_folder(runtime: str, environ: Mapping[str, str] = os.environ) -> Path:
    """What a kernel of Colab's kind sees as /content: its runtime's own, and still there for a while after its end."""
    return state_folder(environ, make=False) / "content" / runtime


def drive_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder that drive.mount shows, where no other is set; it stays when runtimes end."""
    return _xdg(environ, "XDG_DATA_HOME", ".local/share") / "ownlab" / "drive"


def config_file(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> Path:
    """The one configuration file that counts, whether or not it is there."""
    candidates = config_files(environ, system)
    return next((path for path in candidates if os.path.exists(path)), candidates[0])


def config_files(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> tuple[Path, ...]:
    """Where a configuration is looked for: the first that is there is the one that counts."""
    if environ.get("OWNLAB_CONFIG"):
        return (_path(environ["OWNLAB_CONFIG"]),)
    return (_xdg(environ, "XDG_CONFIG_HOME", ".config") / "ownlab" / "config.toml", system)


def missing_config(environ: Mapping[str, str] = os.environ) -> str:
    """A word on the file that OWNLAB_CONFIG names and that is not there; "" where all is well."""
    if not environ.get("OWNLAB_CONFIG") or os.path.exists(path := config_file(environ)):
        return ""
    return f"OWNLAB_CONFIG names {path}, which is not there: every setting has its default."


def kernels_folder(environ: Mapping[str, str] = os.environ, *, prefix: str = sys.prefix) -> Path:
    """Where our kernelspecs are written: in this environment's own share/jupyter.

    Where that is an administrator's, in the person's state folder, of which Jupyter must be told: `kernels_export`.
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


def kernels_export(environ: Mapping[str, str] = os.environ, *, prefix: str = sys.prefix) -> str:
    """The line for a shell with which Jupyter finds our kernelspecs; "" where it finds them without."""
    folder = kernels_folder(environ, prefix=prefix)
    if folder.name != "kernels":  # jupyter_core looks for folders of that name alone: no line would help
        return ""
    share, known = str(folder.parent), environ.get("JUPYTER_PATH", "")
    searched = [os.path.join(prefix, "share", "jupyter"), *known.split(os.pathsep)]
    if share in (path.rstrip(os.sep) for path in searched):
        return ""
    return f"export JUPYTER_PATH={shlex.quote(share)}" + (f"{os.pathsep}$JUPYTER_PATH" if known else "")


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
