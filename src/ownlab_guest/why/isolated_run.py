"""Runs a command where nothing of it stays: `python launch.py why.isolated_run FOLDER MODE COMMAND…`.

MODE is `isolated`, or `direct` where the user allows writes. FOLDER stays real, for the evidence; its subfolder `root` is used for the
mounts. How the command has ended is in FOLDER/ending.json. Whatever the command leaves behind, also what has detached itself, is killed
when it ends, on SIGTERM, or when the host is gone: this process adopts all orphans.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ownlab_guest.atomic_files import replace_file

__all__ = ["answer"]

# linux/prctl.h
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_FAILED = 70
# How long the rest is killed again and again: processes that cannot be killed hang in a driver.
_KILL_SECONDS = 20.0


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Run the command to its end; return how it has ended, which is in the file as well."""
    folder, mode, command = arguments[0], arguments[1], arguments[2:]
    host = os.getppid()
    code: Optional[int] = None
    problem = ""
    asked: List[int] = []

    def end(number: int, frame: object) -> None:
        # Once: each thread of a host that is killed sends the signal, and the second must not interrupt the killing below.
        if not asked:
            asked.append(number)
            sys.exit(_FAILED)

    try:
        try:
            # From here on the host's end, too, is an exception.
            signal.signal(signal.SIGTERM, end)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host ends this process
            _adopt_orphans()
            if os.getppid() != host:
                sys.exit(_FAILED)  # it had ended before its death was a signal
            child, reader = _start(folder, mode, command)
            with os.fdopen(reader) as pipe:
                problem = pipe.read()  # closed by exec
            code = _wait(child)
        finally:
            asked.append(0)
    finally:
        _kill_rest()
        if _is_gone(host):
            shutil.rmtree(folder, ignore_errors=True)  # nobody else removes it now
    ending = {"code": code, "problem": problem}
    replace_file(os.path.join(folder, "ending.json"), json.dumps(ending))
    return ending


def _start(folder: str, mode: str, command: List[str]) -> Tuple[int, int]:
    """Fork the command; return its pid, and a pipe that says what has failed."""
    reader, writer = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # the handler is this process's alone
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Python's own, which exec makes the default
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.close(reader)
        _become(folder, mode, command, writer)
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    return child, reader


def _adopt_orphans() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _become(folder: str, mode: str, command: List[str], writer: int) -> None:
    """In the child: enter the root and become the command. What fails is written to the pipe."""
    try:
        os.setsid()  # no terminal: Ctrl-C reaches the host alone
        if mode == "isolated":
            from ownlab_guest.why import throw_away_root

            throw_away_root.enter(os.path.join(folder, "root"), [folder])
        os.execvp(command[0], command)  # noqa: S606  # the user's own command
    except BaseException as exc:
        reason = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
        os.write(writer, ("%s: %s" % (getattr(exc, "filename", None) or command[0], reason)).encode()[:4000])
    finally:
        os._exit(_FAILED)


def _wait(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _kill_rest() -> None:
    """Kill what is below this process until nothing is left; orphans of each round become our children."""
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        for pid in _below(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _is_gone(host: int) -> bool:
    """Whether the host has ended: it is no parent any more, or its first thread is dead, and the others are about to be."""
    if os.getppid() != host:
        return True
    try:
        with open("/proc/%d/stat" % host, "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X", b"x")
    except (OSError, IndexError):
        return True


def _below(root: int) -> List[int]:
    children: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/%s/stat" % name, "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found
