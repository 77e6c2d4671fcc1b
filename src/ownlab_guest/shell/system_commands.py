"""`!command` in a plain kernel, where nobody can be asked: a command that wants input reads end-of-file."""

import os
import shutil
import sys
from typing import Any

__all__ = ["never_wait"]


def never_wait() -> None:
    """IPython's own way is a terminal at which nobody sits: what asks there waits for ever.

    It stays so for a cell of a page, where a person sees the question and can interrupt it.
    """
    from ipykernel import zmqshell

    system: Any = zmqshell.system  # type: ignore[attr-defined]

    def run(cmd: str) -> int:
        from IPython import get_ipython

        kernel: Any = getattr(get_ipython(), "kernel", None)
        if kernel is None or kernel._allow_stdin:  # so in ipykernel 6 and 7
            return int(system(cmd))
        return run_alone(cmd)

    zmqshell.system = run  # type: ignore[attr-defined]  # ipykernel has no other door


def run_alone(command: str) -> int:
    """In the person's shell, as IPython does it; a signal that ended it is a negative status."""
    from ownlab_guest.shell.terminal import Command

    def show(text: str) -> None:
        sys.stdout.write(text)  # looked up each time: %%capture puts another one there

    status = Command(command, show, shell=shutil.which(os.environ.get("SHELL", "sh")) or "/bin/sh").run()
    return 128 - status if status > 128 else status
