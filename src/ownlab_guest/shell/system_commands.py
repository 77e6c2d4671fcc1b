"""`!command` in a plain kernel: where nobody can answer, a command that wants input reads end-of-file, and apt does not ask."""

import os
import shutil
import sys
from typing import Any

__all__ = ["never_wait"]


def never_wait() -> None:
    """Replace ipykernel's system(), which runs commands in a terminal without input: a command that asks waits for ever.

    Cells of a page keep it: there a person sees the question and can interrupt the command.
    """
    from ipykernel import zmqshell

    system: Any = zmqshell.system  # type: ignore[attr-defined]

    def run(cmd: str) -> int:
        from IPython import get_ipython

        from ownlab_guest.shell.command_hints import hints_for_command
        from ownlab_guest.shell.pip_options import without_user_option
        from ownlab_guest.text import shown

        cmd = without_user_option(cmd)
        kernel: Any = getattr(get_ipython(), "kernel", None)
        is_asked = kernel is None or kernel._allow_stdin  # the name in ipykernel 6 and 7
        status = int(system(cmd)) if is_asked else run_without_input(cmd)
        for hint in hints_for_command(cmd, status):
            sys.stdout.write(shown(hint) + "\n")
        return status

    zmqshell.system = run  # type: ignore[attr-defined]  # ipykernel has no other hook


def run_without_input(command: str) -> int:
    """Run in the user's shell, as IPython does; a signal that ended it gives a negative status."""
    from ownlab_guest.shell import apt
    from ownlab_guest.shell.terminal import Command

    def show(text: str) -> None:
        sys.stdout.write(text)  # looked up each time: %%capture replaces it

    shell = shutil.which(os.environ.get("SHELL", "sh")) or "/bin/sh"
    status = Command(command, show, shell=shell, environment=apt.variables(os.environ)).run()
    return 128 - status if status > 128 else status
