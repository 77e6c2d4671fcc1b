"""Run a command in a pseudo-terminal: its output is shown as it comes, and its questions are passed to a person."""

import codecs
import fcntl
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from typing import Callable, List, Mapping, Optional, Tuple

from ownlab_guest.shell import stdin_wait

__all__ = ["Command", "InputPrompt"]

ROWS, COLUMNS = 24, 80
MAX_COLUMNS = 1000  # accepted from the variable COLUMNS

# The child has its own session. It opens the terminal to make it its controlling one, so that sudo, ssh and getpass find
# /dev/tty. Background processes must survive the SIGHUP that they get when the shell ends.
OPEN = 'trap "" HUP; true <"$1"; shift; exec "$@"'

END_SIGNALS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 0.0))  # seconds until the next one
HANG_UP_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)
READS_PER_WRITE = 64  # reads before output is shown; Linux returns at most 4 kB per read
END_OF_FILE = "\x04"

# Seconds without output before each check whether it waits for input; the last one repeats.
QUIET_SECONDS = (0.1, 0.25, 0.5, 1.0)
PROMPT_SECONDS = 0.5  # after this an unfinished line counts as a question
ANSWER_SECONDS = 0.025  # between two checks for an answer
NO_PIDFD_SECONDS = 0.05
REST_SECONDS = 0.5  # to read the rest of the output; a background process may print for ever

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[^\[])")


class InputPrompt:
    """Asks a person for the input of a command."""

    def ask(self, question: str, password: bool) -> None:
        """Begin to ask. The question is the last output; a password is not echoed."""
        raise NotImplementedError

    def answer(self) -> Optional[str]:
        """Return the answer, or None if there is none yet."""
        raise NotImplementedError


class Command:
    """One run of a command in a shell, by default bash. Without a prompt it reads end-of-file everywhere."""

    def __init__(
        self,
        command: str,
        write: Callable[[str], object],
        prompt: Optional[InputPrompt] = None,
        shell: str = "",
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        """`environment`: variables for the command, in addition to those of this process."""
        self._write, self._prompt = write, prompt
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._echo = _Echo("")
        self._line = ""  # the last line of the output
        self._asked = False
        self._hung_up = 0  # how many of HANG_UP_SIGNALS were sent
        self._ended_by = 0  # how many of END_SIGNALS were sent
        self._next_ending = float("inf")
        self._master, slave, name = _open_terminal()
        if not name:
            self._prompt = None
        try:
            self._terminal = os.fstat(slave).st_rdev if name else -1
            argv = [shell or shutil.which("bash") or "/bin/sh", "-c", command]
            variables = {**os.environ, **(environment or {})}
            self._process = _start(argv, slave, name, self._prompt is not None, variables)
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        os.set_blocking(self._master, False)
        self._open = True
        self._quiet_since, self._checks = time.monotonic(), 0

    def run(self) -> int:
        """Run until it ends and return its exit status. On KeyboardInterrupt, end it first."""
        pidfd = _pidfd(self._process.pid)
        try:
            while not self._has_ended(pidfd):
                pass
        finally:
            if pidfd is not None:
                os.close(pidfd)
            self._finish()
        if self._ended_by:
            raise KeyboardInterrupt
        return self._process.returncode

    def _has_ended(self, pidfd: Optional[int]) -> bool:
        """Wait for one event and handle it. Return whether the command has ended."""
        try:
            if self._process.poll() is not None:
                return True
            poller = select.poll()
            for each in (self._master if self._open else None, pidfd):
                if each is not None:
                    poller.register(each, select.POLLIN)
            poller.poll(self._timeout(pidfd) * 1000)
            if self._open and not self._read():
                self._open = False
            self._check_input()
        except KeyboardInterrupt:
            self._end()
        return False

    # Output

    def _read(self) -> bool:
        """Show the available output. Return False when there will be no more."""
        parts: List[bytes] = []
        part = self._take()
        while part:
            parts.append(part)
            part = self._take() if len(parts) < READS_PER_WRITE else b""
        if parts:
            self._show(self._decoder.decode(b"".join(parts)))
        return part is not None

    def _take(self) -> Optional[bytes]:
        try:
            return os.read(self._master, 65536) or None
        except BlockingIOError:
            return b""
        except OSError:  # EIO: no process has the terminal open
            return None

    def _show(self, text: str) -> None:
        self._restart_quiet_timer()
        text = self._echo.remove_from(text)
        self._line = (self._line + text).rpartition("\n")[2][-1000:]
        self._write(text)

    def _finish(self) -> None:
        """Show the rest. Background processes keep the terminal, and their output is shown later."""
        if self._ended_by:
            self._signal(signal.SIGTERM)  # shells start background processes that ignore interrupts
        rest_until = time.monotonic() + REST_SECONDS
        while self._open and self._read():
            if time.monotonic() > rest_until or not select.select([self._master], [], [], 0)[0]:
                os.set_blocking(self._master, True)
                threading.Thread(target=self._show_background_output, name="background command", daemon=True).start()
                return
        self._close()

    def _show_background_output(self) -> None:
        part = self._take()
        while part:
            self._write(self._decoder.decode(part))
            part = self._take()
        self._close()

    def _close(self) -> None:
        rest = self._decoder.decode(b"", True)
        if rest:
            self._write(rest)
        os.close(self._master)

    # Input

    def _restart_quiet_timer(self) -> None:
        self._quiet_since, self._checks = time.monotonic(), 0

    def _timeout(self, pidfd: Optional[int]) -> float:
        """Return the seconds until the next check is due."""
        now = time.monotonic()
        waits = [3600.0, self._next_ending - now]
        if pidfd is None:
            waits.append(NO_PIDFD_SECONDS)
        if self._asked:
            waits.append(ANSWER_SECONDS)
        else:
            waits.append(self._quiet_since + self._quiet_seconds() - now)
        return max(0.0, min(waits))

    def _quiet_seconds(self) -> float:
        """Return how long it has to be quiet before the next check."""
        last = len(QUIET_SECONDS) - 1
        return QUIET_SECONDS[min(self._checks, last)] + max(0, self._checks - last) * QUIET_SECONDS[last]

    def _check_input(self) -> None:
        now = time.monotonic()
        if now >= self._next_ending:
            self._end()
        if self._asked and self._prompt is not None:
            answer = self._prompt.answer()
            if answer is not None:
                self._asked = False
                self._type(answer)
        elif now - self._quiet_since >= self._quiet_seconds():
            self._checks += 1
            if not self._waits_for_input(now - self._quiet_since):
                return
            if self._prompt is None:
                self._hang_up()
            else:
                self._asked = True
                self._prompt.ask(_ESCAPES.sub("", self._line), _is_secret(self._master))

    def _waits_for_input(self, quiet: float) -> bool:
        state = stdin_wait.wait_state(self._process.pid, self._terminal)
        if self._prompt is None or state in (stdin_wait.READS, stdin_wait.BUSY):
            return state == stdin_wait.READS
        # It also waits for other events, or the state is unknown: an unfinished line counts as a question.
        return quiet >= PROMPT_SECONDS and _ESCAPES.sub("", self._line).strip("\r") != ""

    def _type(self, answer: str) -> None:
        """Type an answer as a keyboard does, whose Enter is a carriage return."""
        mode = termios.tcgetattr(self._master)
        is_line, is_mapped, echoes = mode[3] & termios.ICANON, mode[0] & termios.ICRNL, mode[3] & termios.ECHO
        ends = answer == END_OF_FILE
        typed = answer if ends else answer + ("\n" if is_line and not is_mapped else "\r")
        # A program that reads single keys disables the terminal's echo and echoes them itself.
        self._echo = _Echo("" if ends or (is_line and not echoes) else answer + "\n")
        self._restart_quiet_timer()
        data = typed.encode()
        while data and self._process.poll() is None:
            data = data[self._put(data) :]

    def _put(self, data: bytes) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:  # it reads slowly
            time.sleep(ANSWER_SECONDS)
            return 0

    # Ending

    def _hang_up(self) -> None:
        """End a command that opened the terminal by name to read keys, as `less` does: there is no keyboard."""
        self._signal(HANG_UP_SIGNALS[min(self._hung_up, len(HANG_UP_SIGNALS) - 1)])
        if not self._hung_up:
            self._write("\n[ended: the command waits for keys, and nobody can answer]\n")
        self._hung_up += 1

    def _end(self) -> None:
        """End the command and its process group: first interrupt, then terminate, then kill."""
        signum, seconds = END_SIGNALS[min(self._ended_by, len(END_SIGNALS) - 1)]
        self._ended_by += 1
        self._next_ending = time.monotonic() + seconds if seconds else float("inf")
        self._signal(signum)
        if self._ended_by == 1:
            self._write("^C")

    def _signal(self, signum: int) -> None:
        try:
            os.killpg(self._process.pid, signum)
        except ProcessLookupError:
            return
        except PermissionError:  # it changed its user, as sudo does
            os.write(self._master, b"\x03")


class _Echo:
    """Removes the terminal's echo of what was typed: the page has shown it already."""

    def __init__(self, expected: str) -> None:
        self._expected, self._seen = expected, ""

    def remove_from(self, text: str) -> str:
        """Return the output without the echo. Text that only begins like it is kept."""
        while self._expected and text:
            first, text = text[0], text[1:]
            self._seen += first
            if first == self._expected[0]:
                self._expected = self._expected[1:]
            elif not (first == "\r" and self._expected == "\n"):
                self._expected, text = "", self._seen + text
        return text


def _open_terminal() -> Tuple[int, int, str]:
    """Return the two ends and the name of a new terminal; of a pipe, without a name, where the system has no terminals."""
    master, slave = -1, -1
    try:
        master, slave = os.openpty()
        name = os.ttyname(slave)
    except OSError:  # no /dev/pts in this container, or none is free
        for each in (master, slave):
            if each >= 0:
                os.close(each)
        return (*os.pipe(), "")
    _set_up(slave)
    return master, slave, name


def _set_up(slave: int) -> None:
    """Set plain line feeds, and a size, which programs would guess otherwise."""
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.ONLCR
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdigit() and 0 < int(columns) <= MAX_COLUMNS else COLUMNS
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))


def _start(
    argv: List[str], slave: int, name: str, with_input: bool, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    if with_input:
        opening = ["/bin/sh", "-c", OPEN, "sh", name, *argv]
        return subprocess.Popen(
            opening, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
    # Without input it gets a write-only terminal: `more` would read from its stderr.
    output = os.open(name, os.O_WRONLY | os.O_NOCTTY) if name else os.dup(slave)
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    finally:
        os.close(output)


def _pidfd(pid: int) -> Optional[int]:
    """Return a descriptor that becomes readable when the process ends, where the system supports it."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _is_secret(terminal: int) -> bool:
    mode = termios.tcgetattr(terminal)[3]
    return bool(mode & termios.ICANON and not mode & termios.ECHO)
