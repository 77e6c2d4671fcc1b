"""The watchdog: starts the server of a lab, and starts it again where it dies without being told to.

It runs inside `ownlab up`, or by itself in the background (`ownlab up --detach`):
python -m ownlab.lab.service.watchdog FOLDER --port PORT --lock DESCRIPTOR, with the token in OWNLAB_TOKEN.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ownlab.config.paths import kernels_folder
from ownlab.errors import LabError, OwnlabError
from ownlab.lab.service.crash_report import how_it_ended, known_cause, last_lines
from ownlab.lab.service.labs import LabLock, log_file, read_lab

__all__ = ["END_SECONDS", "Detached", "Start", "Watchdog", "new_log", "server_environment"]

# What the server has to end by itself when it is told to; then it is killed.
END_SECONDS = 10.0
# So many deaths within so many seconds are no accident.
DEATHS, WITHIN = 5, 60.0

# Settings for another server, of which this one must know nothing.
_NOT_OURS = ("JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE", "JUPYTER_PORT", "JUPYTER_PORT_RETRIES")
# Where `up` is called inside a runtime: what is that runtime's alone.
_A_RUNTIMES = ("OWNLAB_RUNTIME", "CUDA_VISIBLE_DEVICES", "JPY_PARENT_PID", "JPY_SESSION_NAME")
# Paths that may be given from the folder in which `up` is called; the server works in another one.
_PATHS = ("OWNLAB_CONFIG", "OWNLAB_HOME", "OWNLAB_KERNELS", "OWNLAB_MACHINE", "OWNLAB_STORE")


class Start(NamedTuple):
    """What a lab's server is started with. The token goes through the environment: others can read arguments."""

    folder: str
    port: int
    token: str
    environ: Mapping[str, str]


class Watchdog:
    """The parent of a lab's server."""

    def __init__(self, start: Start, say: Callable[[str], None]) -> None:
        self._start, self._say = start, say
        self._child: subprocess.Popen[bytes] | None = None
        self._was_ready = False
        self._deaths: list[float] = []

    def start(self) -> None:
        """Start the server; it answers some seconds later."""
        arguments = ("-m", "ownlab.lab.server", "--folder", self._start.folder, "--port", str(self._start.port))
        self._child = _spawn(self._start, arguments)

    def alive(self) -> bool:
        """Whether the server's process is there."""
        return self._child is not None and self._child.poll() is None

    def run(self, announce: Callable[[], None] = lambda: None) -> None:
        """Until we are told to end (Ctrl-C, SIGTERM, SIGHUP), or the server cannot be kept alive.

        `announce` is called first: who reads what it says may tell us to end.
        """
        with _signals() as heard:
            announce()
            while True:
                while self.alive():
                    if heard(None) - {signal.SIGCHLD}:
                        return
                if self._was_told():
                    self._say("The server was shut down from its page; the runtimes were not touched.")
                    return
                wait = self._after_death()
                if heard(wait) - {signal.SIGCHLD}:
                    return
                self.start()

    def end(self) -> None:
        """End the server; its runtimes go on."""
        if self._child is not None:
            _end_process(self._child, END_SECONDS)

    def failure(self) -> LabError:
        """Why the server is gone."""
        return _failure(self._start, self._child.returncode if self._child is not None else None)

    def _was_told(self) -> bool:
        """Whether a page shut it down (File > Shut Down): it ends well then, and says so in the lab's record."""
        assert self._child is not None
        lab = read_lab(self._start.folder, environ=self._start.environ)
        told = lab is not None and lab.pid == self._child.pid and lab.state == "down"
        return told and self._child.returncode == 0

    def _after_death(self) -> float:
        """How long to wait before the next start; an error where there is no sense in one."""
        assert self._child is not None
        now = time.monotonic()
        lab = read_lab(self._start.folder, environ=self._start.environ)
        # The server writes its record when it listens.
        self._was_ready = self._was_ready or (lab is not None and lab.pid == self._child.pid)
        if not self._was_ready:
            raise self.failure()
        self._deaths = [*(death for death in self._deaths if now - death < WITHIN), now]
        if len(self._deaths) >= DEATHS:
            self._say(f"The server died {DEATHS} times within a minute: it is not started again.")
            raise self.failure()
        self._say(
            f"The server {how_it_ended(self._child.returncode)}. It is started again; the runtimes were not touched."
        )
        return 0.0 if len(self._deaths) == 1 else 0.5 * 2 ** (len(self._deaths) - 2)


class Detached:
    """A watchdog in the background."""

    def __init__(self, start: Start, lock: LabLock) -> None:
        self._start, self._lock = start, lock
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it holds the lock from now on."""
        descriptor = self._lock.inherit()
        arguments = ("-m", "ownlab.lab.service.watchdog", self._start.folder, "--port", str(self._start.port))
        self._child = _spawn(self._start, (*arguments, "--lock", str(descriptor)), (descriptor,))

    def alive(self) -> bool:
        """Whether it has not given up."""
        return self._child is not None and self._child.poll() is None

    def end(self) -> None:
        """End it, and the server with it."""
        if self._child is not None:
            _end_process(self._child, END_SECONDS + 5)

    def failure(self) -> LabError:
        """Why it is gone."""
        return _failure(self._start, None)


def server_environment(start: Start) -> dict[str, str]:
    """The person's environment, with our token and our kernels in it."""
    foreign = (*_NOT_OURS, *_A_RUNTIMES) if "OWNLAB_RUNTIME" in start.environ else _NOT_OURS
    environ = {name: value for name, value in start.environ.items() if name not in foreign}
    environ.update((name, os.path.abspath(environ[name])) for name in _PATHS if environ.get(name))
    environ["OWNLAB_TOKEN"] = start.token
    path = environ.get("PATH")
    if path and shutil.which("ownlab", path=path) is None:
        # For terminals and `!ownlab` in the lab, where our environment is not the active one.
        environ["PATH"] = os.pathsep.join((path, os.path.dirname(sys.executable)))
    kernels = kernels_folder(start.environ)
    if not kernels.is_relative_to(sys.prefix):
        parent, known = str(kernels.parent), environ.get("JUPYTER_PATH", "")
        if parent not in known.split(os.pathsep):
            environ["JUPYTER_PATH"] = os.pathsep.join(part for part in (parent, known) if part)
    return environ


def new_log(folder: str, environ: Mapping[str, str]) -> Path:
    """An empty log for a new start; the last one is kept beside it."""
    log = log_file(folder, environ)
    with contextlib.suppress(FileNotFoundError):  # there was no last one
        os.replace(log, log.with_suffix(".log.old"))
    return log


def _end_process(child: subprocess.Popen[bytes], seconds: float) -> None:
    """SIGTERM, and SIGKILL where that is not enough."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _failure(start: Start, code: int | None) -> LabError:
    log = log_file(start.folder, start.environ)
    said = last_lines(log)
    words = f"the lab's server {how_it_ended(code)}. {known_cause(said, code)}".rstrip()
    quoted = "\n    ".join(said.splitlines())
    return LabError(words, hint=f"Its last words, in {log}:\n    {quoted}" if said else f"It said nothing in {log}.")


def _spawn(start: Start, arguments: tuple[str, ...], descriptors: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    log = log_file(start.folder, start.environ)
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise LabError(f"the log of the lab cannot be written: {exc}") from exc
    try:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=server_environment(start),
            cwd="/",  # `-m` looks for modules in the working folder first: a json.py in the person's would be taken
            start_new_session=True,  # Ctrl-C in the terminal is for the watchdog alone
            pass_fds=descriptors,
        )
    finally:
        os.close(output)


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[float | None], set[int]]]:
    """A function that waits for signals and tells which came: no signal interrupts us in the middle of something."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD]
    # nohup ignores SIGHUP: so do we.
    heeded = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD]
    before = {number: signal.signal(number, lambda *_: None) for number in heeded}
    wakeup = signal.set_wakeup_fd(writing)

    def heard(seconds: float | None) -> set[int]:
        ready, _, _ = select.select([reading], [], [], seconds)
        return set(os.read(reading, 4096)) if ready else set()

    try:
        os.write(writing, bytes([signal.SIGCHLD]))  # the child may have ended before we listened
        yield heard
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _main() -> int:
    """The watchdog in the background; what it says goes to the lab's log."""
    parser = argparse.ArgumentParser(prog="python -m ownlab.lab.service.watchdog")
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--lock", type=int, required=True)
    given = parser.parse_args()
    lock = LabLock(given.lock)
    os.set_inheritable(given.lock, False)
    lock.sign()
    environ = dict(os.environ)
    dog = Watchdog(Start(given.folder, given.port, environ.pop("OWNLAB_TOKEN", ""), environ), _note)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until `run` heeds it
    try:
        dog.start()
        dog.run()
    except OwnlabError as exc:
        _note(exc.message)
        return exc.exit_code
    finally:
        dog.end()
        lock.release()
    return 0


def _note(words: str) -> None:
    # A full disk may be what the server died of: it is started again all the same.
    with contextlib.suppress(OSError):
        os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} watchdog: {words}\n".encode(errors="replace"))


if __name__ == "__main__":
    sys.exit(_main())
