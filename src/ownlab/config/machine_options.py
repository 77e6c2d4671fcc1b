"""Which machine and which Python a command looks at."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

from msgspec import Struct

from ownlab.config.environment_names import find_named_python
from ownlab.errors import InterpreterError
from ownlab.text import text

__all__ = ["OWN_PYTHON", "MachineOptions", "resolve_machine_options"]

OWN_PYTHON = text("the Python that runs ownlab")


class MachineOptions(Struct, frozen=True):
    """Which machine and which Python a command looks at, with the origin of both choices."""

    python: str
    python_origin: str
    machine_file: str | None = None
    machine_origin: str = "this machine"


def resolve_machine_options(
    *, python: str | None = None, machine: str | None = None, environ: Mapping[str, str] = os.environ
) -> MachineOptions:
    """Resolve the command line, then environment variables, then this machine and the active virtual environment."""
    interpreter, origin = _resolve_python(python, environ)
    if machine:
        return MachineOptions(interpreter, origin, machine, "--machine")
    if environ.get("OWNLAB_MACHINE"):
        return MachineOptions(interpreter, origin, environ["OWNLAB_MACHINE"], "OWNLAB_MACHINE")
    return MachineOptions(interpreter, origin)


def _resolve_python(asked: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    if asked:
        return _executable(asked, environ), "--python"
    if environ.get("OWNLAB_PYTHON"):
        return _executable(environ["OWNLAB_PYTHON"], environ), "OWNLAB_PYTHON"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environ.get(variable)
        if folder and (found := _python_in(folder)):
            return found, variable
    return sys.executable, OWN_PYTHON


def _executable(asked: str, environ: Mapping[str, str]) -> str:
    """Resolve a path, the folder of an environment, the name of one, or a name on PATH; a path of nothing is returned unchanged."""
    path = os.path.expanduser(asked)
    if os.path.isdir(path):
        return _python_in(path) or path
    if os.path.exists(path):
        return path
    found = find_named_python(asked, environ) or shutil.which(asked)
    if found is None and os.path.basename(asked) == asked:
        raise InterpreterError(
            text("There is no environment, program or file named {name!r}.", name=asked),
            hint=text("These environments exist: ownlab env list"),
        )
    return found or asked


def _python_in(environment: str) -> str | None:
    # os.path, not pathlib: before Python 3.12 Path.exists() raises PermissionError below an unreadable folder.
    for name in ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe"):
        path = os.path.join(environment, name)
        if os.path.exists(path):
            return path
    return None
