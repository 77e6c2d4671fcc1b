"""Which interpreter runs a script."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ownlab.config.machine_options import OWN_PYTHON, resolve_machine_options
from ownlab.errors import InterpreterError
from ownlab.lab.environments.registry import DEFAULT, Environment
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import text

__all__ = ["choose_environment"]


def choose_environment(base: RuntimeType, python: str | None, *, given: bool, env: Mapping[str, str]) -> Environment:
    """The interpreter: --python, else that of the named type, else the active environment, else the default one."""
    options = resolve_machine_options(python=python, environ=env)
    is_active = options.python_origin != OWN_PYTHON and not _is_own(options.python)
    if python is None and (given or not is_active):
        return Environment(base.environment, base.python)
    if not os.access(options.python, os.X_OK):
        message = text("{python} is missing or not executable.", python=options.python)
        raise InterpreterError(
            message, hint=text("--python takes an interpreter, or the folder or name of an environment.")
        )
    return Environment(_name(options.python), os.path.abspath(options.python))


def _is_own(python: str) -> bool:
    return os.path.dirname(os.path.abspath(python)) == os.path.dirname(sys.executable)


def _name(python: str) -> str:
    """How an interpreter is shown: by the folder of its environment."""
    folder = os.path.dirname(os.path.abspath(python))
    name = os.path.basename(os.path.dirname(folder)) if os.path.basename(folder) in ("bin", "Scripts") else ""
    return (name if name not in ("", "usr", "local", DEFAULT) else os.path.basename(python)).lstrip(".")
