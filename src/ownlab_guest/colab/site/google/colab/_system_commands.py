"""System commands in a notebook: `!command`, `%shell`, `%%shell`.

Each runs in its own terminal, as on Colab: programs show progress bars and colours, and may ask questions.
"""

import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional, cast

from IPython.core.error import UsageError
from zmq import NOBLOCK

from ownlab_guest.shell.command_hints import hints_for_command
from ownlab_guest.shell.pip_options import without_user_option
from ownlab_guest.shell.terminal import Command, InputPrompt
from ownlab_guest.text import shown

from . import _message, _pip

__all__ = ["ShellResult", "capture", "register", "run"]


class ShellResult:
    """The result of `%shell`. Its output was shown already, so it displays nothing."""

    def __init__(self, args: str, returncode: int, output: str) -> None:
        self.args, self.returncode, self.output = args, returncode, output

    def check_returncode(self) -> None:
        """Raise CalledProcessError where the command failed."""
        if self.returncode:
            raise subprocess.CalledProcessError(self.returncode, self.args, self.output)

    def __repr__(self) -> str:
        return f"ShellResult(args={self.args!r}, returncode={self.returncode})"

    def _ipython_display_(self) -> None:
        return


def run(shell: Any, command: str) -> int:
    """Run a command and show its output while it runs. Return its exit status."""
    command = without_user_option(command)
    _pip.watch(shell, command)
    status = Command(command, _show, _prompt(shell, sees_output=True)).run()
    _show_hints(command, status)
    return status


def capture(shell: Any, command: str, show: bool = False) -> ShellResult:
    """Run a command and keep its output."""
    parts: List[str] = []

    def keep(text: str) -> None:
        parts.append(text)
        if show:
            _show(text)

    command = without_user_option(command)
    _pip.watch(shell, command)
    returncode = Command(command, keep, _prompt(shell, sees_output=show)).run()
    if show:
        _show_hints(command, returncode)
    return ShellResult(command, returncode, "".join(parts))


def register(shell: Any) -> None:
    """Register `%shell` and `%%shell`, which run bash and raise if a command fails."""

    def run_line(line: str) -> ShellResult:
        """%shell COMMAND"""
        return _checked(shell, line, ignores=False)

    def run_cell(line: str, cell: str) -> ShellResult:
        """%%shell [--ignore-errors]"""
        unknown = set(line.split()) - {"--ignore-errors"}
        if unknown:
            raise UsageError(f"%%shell accepts --ignore-errors, not {' '.join(sorted(unknown))}")
        return _checked(shell, cell, ignores=bool(line.strip()))

    shell.register_magic_function(run_line, "line", "shell")
    shell.register_magic_function(run_cell, "cell", "shell")


def _checked(shell: Any, command: str, ignores: bool) -> ShellResult:
    result = capture(shell, command, show=True)
    shell.user_ns["_exit_code"] = result.returncode
    if not ignores:
        result.check_returncode()
    return result


def _show(text: str) -> None:
    sys.stdout.write(text)  # looked up each time: %%capture replaces it


def _show_hints(command: str, status: int) -> None:
    for hint in hints_for_command(command, status):
        _show(shown(hint) + "\n")


class _PagePrompt(InputPrompt):
    """Asks the user on the page of the running cell, as input() does."""

    def __init__(self, kernel: Any, request: Dict[str, Any], sees_output: bool) -> None:
        self._kernel, self._request, self._sees_output = kernel, request, sees_output

    def ask(self, question: str, password: bool) -> None:
        """Ask; without a prompt where the question is in the output already."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        while self._receive() is not None:
            pass  # late answers to earlier requests
        self._kernel.session.send(
            self._kernel.stdin_socket,
            "input_request",
            {"prompt": "" if self._sees_output else question, "password": password},
            self._request,
            ident=self._kernel._parent_ident["shell"],  # the name in ipykernel 6 and 7
        )

    def answer(self) -> Optional[str]:
        message = self._receive()
        value = message["content"].get("value") if message else None
        return value if isinstance(value, str) else None

    def _receive(self) -> Optional[Dict[str, Any]]:
        with _message._lock:
            try:
                _, message = self._kernel.session.recv(self._kernel.stdin_socket, mode=NOBLOCK)
            except ValueError:  # not signed with this kernel's key, or sent twice
                return None
        return cast("Optional[Dict[str, Any]]", message)


def _prompt(shell: Any, sees_output: bool) -> Optional[InputPrompt]:
    # Only the main thread may use the kernel's sockets; and only a cell can show a question, not a callback of a widget.
    request = _message.running_request()
    is_cell = request.get("header", {}).get("msg_type") == "execute_request"
    if threading.current_thread() is not threading.main_thread() or not is_cell or not _message.can_ask():
        return None
    return _PagePrompt(shell.kernel, request, sees_output)
