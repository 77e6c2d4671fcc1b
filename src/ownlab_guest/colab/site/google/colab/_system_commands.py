"""Commands of the system in a notebook: `!command`, `%shell`, `%%shell`.

Each runs in a terminal of its own, as on Colab: programs show progress bars and colours, and may ask questions.
"""

import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional, cast

from IPython.core.error import UsageError
from zmq import NOBLOCK

from ownlab_guest.shell.terminal import Command, Person

from . import _message, _pip

__all__ = ["ShellResult", "capture", "register", "run"]


class ShellResult:
    """What `%shell` gives back; it was shown already, so nothing of it is shown again."""

    def __init__(self, args: str, returncode: int, output: str) -> None:
        self.args, self.returncode, self.output = args, returncode, output

    def check_returncode(self) -> None:
        """CalledProcessError where the command failed."""
        if self.returncode:
            raise subprocess.CalledProcessError(self.returncode, self.args, self.output)

    def __repr__(self) -> str:
        return f"ShellResult(args={self.args!r}, returncode={self.returncode})"

    def _ipython_display_(self) -> None:
        return


def run(shell: Any, command: str) -> int:
    """A command whose output is shown while it runs; its exit status."""
    with _pip.watch(command, _show):
        return Command(command, _show, _person(shell, sees_output=True)).run()


def capture(shell: Any, command: str, show: bool = False) -> ShellResult:
    """A command whose output is kept."""
    parts: List[str] = []

    def keep(text: str) -> None:
        parts.append(text)
        if show:
            _show(text)

    with _pip.watch(command, _show):
        returncode = Command(command, keep, _person(shell, sees_output=show)).run()
    return ShellResult(command, returncode, "".join(parts))


def register(shell: Any) -> None:
    """`%shell` and `%%shell`: bash, and a command that fails is an error."""

    def run_line(line: str) -> ShellResult:
        """%shell COMMAND"""
        return _checked(shell, line, ignores=False)

    def run_cell(line: str, cell: str) -> ShellResult:
        """%%shell [--ignore-errors]"""
        unknown = set(line.split()) - {"--ignore-errors"}
        if unknown:
            raise UsageError(f"%%shell takes --ignore-errors, and not {' '.join(sorted(unknown))}")
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
    sys.stdout.write(text)  # looked up each time: %%capture puts another one there


class _Page(Person):
    """Whoever looks at the cell that runs: asked as input() asks."""

    def __init__(self, kernel: Any, request: Dict[str, Any], sees_output: bool) -> None:
        self._kernel, self._request, self._sees_output = kernel, request, sees_output

    def ask(self, question: str, password: bool) -> None:
        """Without a prompt, where the question stands in the output already."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        while self._receive() is not None:
            pass  # late answers to what was asked before
        self._kernel.session.send(
            self._kernel.stdin_socket,
            "input_request",
            {"prompt": "" if self._sees_output else question, "password": password},
            self._request,
            ident=self._kernel._parent_ident["shell"],  # so in ipykernel 6 and 7
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


def _person(shell: Any, sees_output: bool) -> Optional[Person]:
    # A kernel's sockets are its main thread's; and what a widget or a page calls is no cell that could show a question.
    request = _message.running_request()
    is_cell = request.get("header", {}).get("msg_type") == "execute_request"
    if threading.current_thread() is not threading.main_thread() or not is_cell or not _message.can_ask():
        return None
    return _Page(shell.kernel, request, sees_output)
