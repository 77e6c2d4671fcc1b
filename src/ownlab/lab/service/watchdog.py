"""The watchdog: starts the server of a lab, and restarts it when it crashes.

It runs inside `ownlab up`, or in the background (`ownlab up --detach`):
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
from ownlab.lab.service.crash_report import describe_exit, known_cause, last_lines
from ownlab.lab.service.labs import LabLock, NetworkHost, log_file, read_lab
from ownlab.text import sentences, text

__all__ = [
    "END_SECONDS",
    "Detached",
    "Start",
    "Watchdog",
    "add_arguments",
    "network_of",
    "new_log",
    "server_environment",
]

# The time the server has to end after SIGTERM; then it is killed.
END_SECONDS = 10.0
# Not restarted after this many crashes within this many seconds.
MAX_CRASHES, WITHIN = 5, 60.0

# Settings of another Jupyter server, which must not apply to this one.
_FOREIGN_SETTINGS = ("JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE", "JUPYTER_PORT", "JUPYTER_PORT_RETRIES")
# Variables of a runtime, for the case that `up` is called inside one.
_RUNTIME_VARIABLES = ("OWNLAB_RUNTIME", "CUDA_VISIBLE_DEVICES", "JPY_PARENT_PID", "JPY_SESSION_NAME")
# Paths that may be relative to the folder in which `up` is called; the server has another working folder.
_PATHS = ("OWNLAB_CONFIG", "OWNLAB_HOME", "OWNLAB_KERNELS", "OWNLAB_MACHINE", "OWNLAB_STORE")


class Start(NamedTuple):
    """The arguments of a lab's server. The token goes through the environment, since others can read arguments."""

    folder: str
    port: int
    token: str
    environ: Mapping[str, str]
    network: NetworkHost | None = None  # for other computers; None: on 127.0.0.1
    language: str = ""  # in which pages begin; "": as JupyterLab chooses

    def arguments(self) -> tuple[str, ...]:
        """Return the options that server and watchdog have in common."""
        given = ("--port", str(self.port), *(("--language", self.language) if self.language else ()))
        if self.network is None:
            return given
        options = (f"--{name}" for name in NetworkHost._fields)
        return (*given, *(word for pair in zip(options, self.network, strict=True) for word in pair))


def network_of(given: argparse.Namespace) -> NetworkHost | None:
    """Return what `Start.arguments` passed on."""
    return NetworkHost(given.name, given.address, given.certificate, given.key) if given.name else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `Start.arguments`."""
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--language", default="")
    for name in NetworkHost._fields:
        parser.add_argument(f"--{name}", default="")


class Watchdog:
    """The parent of a lab's server."""

    def __init__(self, start: Start, say: Callable[[str], None]) -> None:
        self._start, self._say = start, say
        self._child: subprocess.Popen[bytes] | None = None
        self._was_ready = False
        self._crashes: list[float] = []

    def start(self) -> None:
        """Start the server. It answers some seconds later."""
        arguments = ("-m", "ownlab.lab.server", "--folder", self._start.folder)
        self._child = _spawn(self._start, (*arguments, *self._start.arguments()))

    def alive(self) -> bool:
        """Whether the server's process is alive."""
        return self._child is not None and self._child.poll() is None

    def run(self, announce: Callable[[], None] = lambda: None) -> None:
        """Run until a signal (Ctrl-C, SIGTERM, SIGHUP) arrives, or the server cannot be kept alive.

        `announce` is called first, after signals are handled: a reader of its output may send one at once.
        """
        with _signals() as received:
            announce()
            while True:
                while self.alive():
                    if received(None) - {signal.SIGCHLD}:
                        return
                if self._was_shut_down():
                    self._say(text("The server was shut down from its page. The runtimes keep running."))
                    return
                wait = self._restart_delay()
                if received(wait) - {signal.SIGCHLD}:
                    return
                self.start()

    def end(self) -> None:
        """Stop the server. Its runtimes keep running."""
        if self._child is not None:
            _end_process(self._child, END_SECONDS)

    def failure(self) -> LabError:
        """Explain why the server ended."""
        return _failure(self._start, self._child.returncode if self._child is not None else None)

    def _was_shut_down(self) -> bool:
        """Whether a page shut it down (File > Shut Down): then it exits with 0 and records that it is down."""
        assert self._child is not None
        lab = read_lab(self._start.folder, environ=self._start.environ)
        shut_down = lab is not None and lab.pid == self._child.pid and lab.state == "down"
        return shut_down and self._child.returncode == 0

    def _restart_delay(self) -> float:
        """Return the seconds to wait before a restart; raise if it should not be restarted."""
        assert self._child is not None
        now = time.monotonic()
        lab = read_lab(self._start.folder, environ=self._start.environ)
        # The server writes its record once it listens.
        self._was_ready = self._was_ready or (lab is not None and lab.pid == self._child.pid)
        if not self._was_ready:
            raise self.failure()
        self._crashes = [*(crash for crash in self._crashes if now - crash < WITHIN), now]
        if len(self._crashes) >= MAX_CRASHES:
            self._say(text("The server crashed {n} times within a minute. It is not restarted.", n=MAX_CRASHES))
            raise self.failure()
        ended = describe_exit(self._child.returncode)
        self._say(text("The server {ended}. It is restarted. The runtimes keep running.", ended=ended))
        return 0.0 if len(self._crashes) == 1 else 0.5 * 2 ** (len(self._crashes) - 2)


class Detached:
    """A watchdog in the background."""

    def __init__(self, start: Start, lock: LabLock) -> None:
        self._start, self._lock = start, lock
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it. It holds the lock from now on."""
        descriptor = self._lock.inherit()
        arguments = ("-m", "ownlab.lab.service.watchdog", self._start.folder, *self._start.arguments())
        self._child = _spawn(self._start, (*arguments, "--lock", str(descriptor)), (descriptor,))

    def alive(self) -> bool:
        """Whether it is alive."""
        return self._child is not None and self._child.poll() is None

    def end(self) -> None:
        """Stop it, and the server with it."""
        if self._child is not None:
            _end_process(self._child, END_SECONDS + 5)

    def failure(self) -> LabError:
        """Explain why it ended."""
        return _failure(self._start, None)


def server_environment(start: Start) -> dict[str, str]:
    """Return the user's environment with our token and kernels."""
    foreign = (*_FOREIGN_SETTINGS, *_RUNTIME_VARIABLES) if "OWNLAB_RUNTIME" in start.environ else _FOREIGN_SETTINGS
    environ = {name: value for name, value in start.environ.items() if name not in foreign}
    environ.update((name, os.path.abspath(environ[name])) for name in _PATHS if environ.get(name))
    environ["OWNLAB_TOKEN"] = start.token
    path = environ.get("PATH")
    if path and shutil.which("ownlab", path=path) is None:
        # For terminals and `!ownlab` in the lab, if our environment is not the active one.
        environ["PATH"] = os.pathsep.join((path, os.path.dirname(sys.executable)))
    kernels = kernels_folder(start.environ)
    if not kernels.is_relative_to(sys.prefix):
        parent, known = str(kernels.parent), environ.get("JUPYTER_PATH", "")
        if parent not in known.split(os.pathsep):
            environ["JUPYTER_PATH"] = os.pathsep.join(part for part in (parent, known) if part)
    return environ


def new_log(folder: str, environ: Mapping[str, str]) -> Path:
    """Start a new log and keep the last one beside it."""
    log = log_file(folder, environ)
    with contextlib.suppress(FileNotFoundError):  # there is none
        os.replace(log, log.with_suffix(".log.old"))
    return log


def _end_process(child: subprocess.Popen[bytes], seconds: float) -> None:
    """Send SIGTERM, and SIGKILL if it does not end."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _failure(start: Start, code: int | None) -> LabError:
    log = log_file(start.folder, start.environ)
    lines = last_lines(log)
    message = sentences(text("The lab's server {ended}.", ended=describe_exit(code)), known_cause(lines, code))
    if not lines:
        return LabError(message, hint=text("Its log {log} is empty.", log=log))
    quoted = "\n    ".join(lines.splitlines())
    return LabError(message, hint=text("The last lines of {log}:\n    {lines}", log=log, lines=quoted))


def _spawn(start: Start, arguments: tuple[str, ...], descriptors: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    log = log_file(start.folder, start.environ)
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise LabError(text("Cannot write the log of the lab: {reason}.", reason=exc)) from exc
    try:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=server_environment(start),
            cwd="/",  # `-m` searches the working folder first: a json.py in the user's folder would be imported
            start_new_session=True,  # Ctrl-C in the terminal reaches only the watchdog
            pass_fds=descriptors,
        )
    finally:
        os.close(output)


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[float | None], set[int]]]:
    """Yield a function that waits for signals and returns those that arrived; no signal interrupts other code."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD]
    # SIGHUP is ignored under nohup.
    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD]
    before = {number: signal.signal(number, lambda *_: None) for number in handled}
    wakeup = signal.set_wakeup_fd(writing)

    def received(seconds: float | None) -> set[int]:
        ready, _, _ = select.select([reading], [], [], seconds)
        return set(os.read(reading, 4096)) if ready else set()

    try:
        os.write(writing, bytes([signal.SIGCHLD]))  # the child may have ended already
        yield received
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _main() -> int:
    """Run the watchdog in the background; it writes to the lab's log."""
    parser = argparse.ArgumentParser(prog="python -m ownlab.lab.service.watchdog")
    parser.add_argument("folder")
    add_arguments(parser)
    parser.add_argument("--lock", type=int, required=True)
    given = parser.parse_args()
    lock = LabLock(given.lock)
    os.set_inheritable(given.lock, False)
    lock.sign()
    environ = dict(os.environ)
    token = environ.pop("OWNLAB_TOKEN", "")
    start = Start(given.folder, given.port, token, environ, network_of(given), given.language)
    watchdog = Watchdog(start, _log)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until `run` handles it
    try:
        watchdog.start()
        watchdog.run()
    except OwnlabError as exc:
        _log(exc.message)
        return exc.exit_code
    finally:
        watchdog.end()
        lock.release()
    return 0


def _log(line: str) -> None:
    # The server may have crashed because the disk is full: it is restarted nevertheless.
    with contextlib.suppress(OSError):
        os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} watchdog: {line}\n".encode(errors="replace"))


if __name__ == "__main__":
    sys.exit(_main())
