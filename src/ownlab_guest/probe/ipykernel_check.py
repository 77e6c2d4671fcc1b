"""Checks whether this Python can run kernels: its version, and whether its ipykernel can be imported."""

import importlib
import platform
import sys
from typing import Any, Dict, List


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Return {"version": "3.11.7", "ipykernel": "7.4.0"}; if ipykernel is null, "error" has Python's message."""
    known: Dict[str, Any] = {
        "version": platform.python_version(),
        "prefix": sys.prefix,
        "ipykernel": None,
        "error": None,
    }
    try:
        known["ipykernel"] = str(importlib.import_module("ipykernel").__version__)
        importlib.import_module("ipykernel.kernelapp")  # imports IPython, zmq and tornado, each of which may be broken
    except BaseException as exc:
        known["ipykernel"] = None
        known["error"] = "%s: %s" % (type(exc).__name__, exc)
        known["missing"] = isinstance(exc, ModuleNotFoundError) and exc.name == "ipykernel"
    return known
