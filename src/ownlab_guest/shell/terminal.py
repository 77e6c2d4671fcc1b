"""A command in a terminal of its own: what it prints is shown as it comes, and what it asks for is asked of a person."""

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
from typing import Callable, List, Optional, Tuple

from ownlab_guest.shell import stdin_wait

__all__ = ["Command", "Person"]

ROWS, COLUMNS = 24, 80
WIDEST = 1000  # of what COLUMNS may say

# The child is a session of its own. It takes the terminal as its controlling one by opening it, so that sudo, ssh and
# getpass find /dev/tty. When the shell ends, what it left in the background is told to hang up: it is not to.
OPEN = 'trap "" HUP; true <"$1"; shift; exec "$@"'

ENDINGS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 0.0))  # seconds until the next one
HANG_UP = (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)
AT_ONCE = 64  # times that it is read before it is shown; Linux gives at most 4 kB each time
END_OF_FILE = "\x04"

# Without output until it is looked whether it waits for input; after the last one, each time that long.
QUIET_SECONDS = (0.1, 0.25, 0.5, 1.0)
PROMPT_SECONDS = 0.5  # after which an unfinished line is taken for a question
ANSWER_SECONDS = 0.025  # between two looks for an answer
NO_PIDFD_SECONDS = 0.05
REST_SECONDS = 0.5  # to read what a command left; something in the background may print for ever

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[^\[])")


class Person:
    """Who is asked what a command wants to know."""

    def ask(self, question: str, password: bool) -> None:
        """Begin to ask. The question is what was printed last; what is typed is not shown where it is a password."""
        raise NotImplementedError

    def answer(self) -> Optional[str]:
        """What was answered, if it was by now."""
        raise NotImplementedError


class Command:
    """One run of a command, in a shell: bash, unless told. Without a person it reads end-of-file, from wherever it tries."""

    def __init__(
        self, command: str, write: Callable[[str], object], person: Optional[Person] = None, shell: str = ""
    ) -> None:
        self._write, self._person = write, person
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._echo = _Echo("")
        self._line = ""  # what stands in the last line
        self._asked = False
        self._hung_up = 0  # how many of HANG_UP it was sent
        self._ended_by = 0  # how many of ENDINGS it was sent
        self._next_ending = float("inf")
        self._master, slave, name = _open_terminal()
        if not name:
            self._person = None
        try:
            self._terminal = os.fstat(slave).st_rdev if name else -1
            argv = [shell or shutil.which("bash") or "/bin/sh", "-c", command]
            self._process = _start(argv, slave, name, self._person is not None)
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        os.set_blocking(self._master, False)
        self._open = True
        self._quiet_since, self._looks = time.monotonic(), 0

    def run(self) -> int:
        """Until it has ended; its exit status. KeyboardInterrupt ends it first."""
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
        """One turn: wait until something happens, and see to it."""
        try:
            if self._process.poll() is not None:
                return True
            poller = select.poll()
            for each in (self._master if self._open else None, pidfd):
                if each is not None:
                    poller.register(each, select.POLLIN)
            poller.poll(self._patience(pidfd) * 1000)
            if self._open and not self._read():
                self._open = False
            self._look_after()
        except KeyboardInterrupt:
            self._end()
        return False

    # What it prints

    def _read(self) -> bool:
        """Show what there is to read. False when nothing can come any more."""
        parts: List[bytes] = []
        part = self._take()
        while part:
            parts.append(part)
            part = self._take() if len(parts) < AT_ONCE else b""
        if parts:
            self._show(self._decoder.decode(b"".join(parts)))
        return part is not None

    def _take(self) -> Optional[bytes]:
        try:
            return os.read(self._master, 65536) or None
        except BlockingIOError:
            return b""
        except OSError:  # EIO: no process has the terminal any more
            return None

    def _show(self, text: str) -> None:
        self._note_life()
        text = self._echo.taken_from(text)
        self._line = (self._line + text).rpartition("\n")[2][-1000:]
        self._write(text)

    def _finish(self) -> None:
        """Show the rest; what is left in the background keeps its terminal, and its output is shown when it comes."""
        if self._ended_by:
            self._signal(signal.SIGTERM)  # shells start what is in the background deaf to interrupts
        rest_until = time.monotonic() + REST_SECONDS
        while self._open and self._read():
            if time.monotonic() > rest_until or not select.select([self._master], [], [], 0)[0]:
                os.set_blocking(self._master, True)
                threading.Thread(target=self._attend, name="background command", daemon=True).start()
                return
        self._close()

    def _attend(self) -> None:
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

    # What it asks

    def _note_life(self) -> None:
        self._quiet_since, self._looks = time.monotonic(), 0

    def _patience(self, pidfd: Optional[int]) -> float:
        """Seconds until something is due, if nothing happens."""
        now = time.monotonic()
        waits = [3600.0, self._next_ending - now]
        if pidfd is None:
            waits.append(NO_PIDFD_SECONDS)
        if self._asked:
            waits.append(ANSWER_SECONDS)
        else:
            waits.append(self._quiet_since + self._quiet() - now)
        return max(0.0, min(waits))

    def _quiet(self) -> float:
        """How long it has to be quiet until it is looked at again."""
        last = len(QUIET_SECONDS) - 1
        return QUIET_SECONDS[min(self._looks, last)] + max(0, self._looks - last) * QUIET_SECONDS[last]

    def _look_after(self) -> None:
        now = time.monotonic()
        if now >= self._next_ending:
            self._end()
        if self._asked and self._person is not None:
            answer = self._person.answer()
            if answer is not None:
                self._asked = False
                self._type(answer)
        elif now - self._quiet_since >= self._quiet():
            self._looks += 1
            if not self._waits(now - self._quiet_since):
                return
            if self._person is None:
                self._hang_up()
            else:
                self._asked = True
                self._person.ask(_ESCAPES.sub("", self._line), _is_secret(self._master))

    def _waits(self, quiet: float) -> bool:
        seen = stdin_wait.look(self._process.pid, self._terminal)
        if self._person is None or seen in (stdin_wait.READS, stdin_wait.BUSY):
            return seen == stdin_wait.READS
        # It listens to other things as well, or nobody can say: a question is a line that goes on.
        return quiet >= PROMPT_SECONDS and _ESCAPES.sub("", self._line).strip("\r") != ""

    def _type(self, answer: str) -> None:
        """As a keyboard does, whose Enter is a carriage return."""
        mode = termios.tcgetattr(self._master)
        is_line, is_mapped, echoes = mode[3] & termios.ICANON, mode[0] & termios.ICRNL, mode[3] & termios.ECHO
        ends = answer == END_OF_FILE
        typed = answer if ends else answer + ("\n" if is_line and not is_mapped else "\r")
        # A program that takes single keys switches the terminal's echo off, and repeats them itself.
        self._echo = _Echo("" if ends or (is_line and not echoes) else answer + "\n")
        self._note_life()
        data = typed.encode()
        while data and self._process.poll() is None:
            data = data[self._put(data) :]

    def _put(self, data: bytes) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:  # it reads slowly
            time.sleep(ANSWER_SECONDS)
            return 0

    # Its end

    def _hang_up(self) -> None:
        """There is no keyboard, and it found the terminal's name to read from it: `less` does."""
        self._signal(HANG_UP[min(self._hung_up, len(HANG_UP) - 1)])
        if not self._hung_up:
            self._write("\n[ended: it waits for keys, and nobody can be asked]\n")
        self._hung_up += 1

    def _end(self) -> None:
        """Each time more firmly: interrupt it, ask it to end, kill it; and all that belongs to it."""
        signum, patience = ENDINGS[min(self._ended_by, len(ENDINGS) - 1)]
        self._ended_by += 1
        self._next_ending = time.monotonic() + patience if patience else float("inf")
        self._signal(signum)
        if self._ended_by == 1:
            self._write("^C")

    def _signal(self, signum: int) -> None:
        try:
            os.killpg(self._process.pid, signum)
        except ProcessLookupError:
            return
        except PermissionError:  # it is another user's by now, such as sudo
            os.write(self._master, b"\x03")


class _Echo:
    """What is typed comes back from the terminal. The page has shown it already: once is enough."""

    def __init__(self, expected: str) -> None:
        self._expected, self._seen = expected, ""

    def taken_from(self, text: str) -> str:
        """A text without what it repeats. What only began like it is given back."""
        while self._expected and text:
            first, text = text[0], text[1:]
            self._seen += first
            if first == self._expected[0]:
                self._expected = self._expected[1:]
            elif not (first == "\r" and self._expected == "\n"):
                self._expected, text = "", self._seen + text
        return text


def _open_terminal() -> Tuple[int, int, str]:
    """Its two ends and its name. Where the system has no terminals to give, a pipe, which has no name."""
    master, slave = -1, -1
    try:
        master, slave = os.openpty()
        name = os.ttyname(slave)
    except OSError:  # no /dev/pts in this container, or all are taken
        for each in (master, slave):
            if each >= 0:
                os.close(each)
        return (*os.pipe(), "")
    _set_up(slave)
    return master, slave, name


def _set_up(slave: int) -> None:
    """Lines end as in text, not as on a typewriter; and a width, without which programs guess."""
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.ONLCR
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdigit() and 0 < int(columns) <= WIDEST else COLUMNS
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))


def _start(argv: List[str], slave: int, name: str, with_input: bool) -> "subprocess.Popen[bytes]":
    if with_input:
        opening = ["/bin/sh", "-c", OPEN, "sh", name, *argv]
        return subprocess.Popen(opening, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    # Nobody can type: it gets a terminal that can be written to, and no other. `more` would read from its stderr.
    output = os.open(name, os.O_WRONLY | os.O_NOCTTY) if name else os.dup(slave)
    try:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    finally:
        os.close(output)


def _pidfd(pid: int) -> Optional[int]:
    """A descriptor that is readable when the process has ended, where the system has such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _is_secret(terminal: int) -> bool:
    mode = termios.tcgetattr(terminal)[3]
    return bool(mode & termios.ICANON and not mode & termios.ECHO)
