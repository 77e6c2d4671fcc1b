"""Run the ownlab command line, which is installed in another environment."""

import json
import os
import subprocess
from typing import Any, Dict, Tuple

PYTHON = "OWNLAB_HOST"

# Variables for the notebook's Python that would break the other one.
_NOT_PASSED = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONSAFEPATH", "PYTHONINSPECT", "PYTHONWARNINGS")


def is_available() -> bool:
    """Return whether ownlab started this kernel and can be called."""
    return bool(os.environ.get(PYTHON))


def call(*arguments: str, timeout: float) -> Tuple[int, Dict[str, Any]]:
    """Run `ownlab ARGUMENTS…`. Return its exit code and the JSON object that it printed ({} where it printed none).

    Raises TimeoutError. The output is never part of an error message: it may be a secret.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
    try:
        ran = subprocess.run(
            [os.environ[PYTHON], "-m", "ownlab", *arguments],
            cwd="/",  # otherwise ownlab.py or json.py in the notebook's folder would be imported
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
            start_new_session=True,  # an interrupt of the cell must not interrupt it
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"`ownlab {arguments[0]}` did not answer in {timeout:.0f} s") from None
    except OSError as exc:
        raise TimeoutError(f"`ownlab {arguments[0]}` could not be started: {exc}") from None
    return ran.returncode, _parse_object(ran.stdout)


def _parse_object(printed: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(printed)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
