"""Asks ownlab itself, which lives in an environment of its own, by its command line."""

import json
import os
import subprocess
from typing import Any, Dict, Tuple

PYTHON = "OWNLAB_HOST"

# What belongs to the notebook's Python, and would lead the other one astray.
_NOT_PASSED = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONSAFEPATH", "PYTHONINSPECT", "PYTHONWARNINGS")


def is_there() -> bool:
    """Whether ownlab started this kernel, and can be asked."""
    return bool(os.environ.get(PYTHON))


def ask(*arguments: str, timeout: float) -> Tuple[int, Dict[str, Any]]:
    """Run `ownlab ARGUMENTS…`: its exit code and the object that it printed ({} where it printed none).

    Raises TimeoutError. What it printed is in no error's text: it may be a secret.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
    try:
        ran = subprocess.run(
            [os.environ[PYTHON], "-m", "ownlab", *arguments],
            cwd="/",  # else a file ownlab.py or json.py of the notebook's folder is taken for ours
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
            start_new_session=True,  # an interruption of the cell is not one of this
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"`ownlab {arguments[0]}` did not answer in {timeout:.0f} s") from None
    except OSError as exc:
        raise TimeoutError(f"`ownlab {arguments[0]}` could not be started: {exc}") from None
    return ran.returncode, _object(ran.stdout)


def _object(printed: bytes) -> Dict[str, Any]:
    try:
        found = json.loads(printed)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
