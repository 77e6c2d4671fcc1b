"""The ownlab that started this kernel, where the kernel's own environment has none: asked in a child process."""

import os
import subprocess


def start_host(caller: str, *words: str) -> "subprocess.Popen[bytes]":
    """`python -m …` of that ownlab; `caller` is what needs it, as people know it."""
    python = os.environ.get("OWNLAB_HOST")
    if not python:
        raise RuntimeError(f"{caller} needs ownlab in this environment, or a kernel that ownlab has started.")
    # What belongs to this Python would lead the other one astray; so would a file ownlab.py in this folder.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        [python, "-m", *words],
        cwd="/",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # an interruption of the cell is not one of this
    )
