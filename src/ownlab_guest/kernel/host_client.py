"""Starts the ownlab that started this kernel, in its own environment, where the kernel's environment has none."""

import os
import subprocess

from ownlab_guest.kernel.host_records import OwnlabError
from ownlab_guest.text import text


def start_host(caller: str, *words: str) -> "subprocess.Popen[bytes]":
    """Run a module of that ownlab with arguments, in the language of this kernel. `caller` is the function that needs it, for the error message."""
    python = os.environ.get("OWNLAB_HOST")
    if not python:
        raise OwnlabError(
            text("{function} needs ownlab in this environment, or a kernel that ownlab has started", function=caller)
        )
    # Variables of this Python would mislead the other one; so would a file ownlab.py in this folder.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        [python, "-m", "ownlab.notebook_language", *words],
        cwd="/",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # an interrupt of the cell does not reach the child
    )
