"""Interpreters by the names of environments, for options that take a Python.

`ownlab.lab.environments.registry` keeps the list. It is read here, without that package, because every command may need it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ownlab.config.paths import state_folder

__all__ = ["find_named_python"]


def find_named_python(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the interpreter of an environment that the user created or added; None if there is none of this name."""
    try:
        with open(os.path.join(state_folder(environ, make=False), "environments.json"), "rb") as file:
            listed = json.load(file)["environments"]
        return next((str(each["python"]) for each in listed if each["name"] == name), None)
    except (OSError, ValueError, TypeError, KeyError):  # no list, or one that the registry reports as damaged
        return None
