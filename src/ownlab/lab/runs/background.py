"""A run in the background (--detach): a process in its own session, which outlives the terminal."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import msgspec

from ownlab import errors
from ownlab.errors import LabError, OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.journal.storage import journal_folder, make_journal_folder, remove_journal
from ownlab.lab.runs.records import RunReport
from ownlab.text import text

__all__ = ["LOG", "detach"]

LOG = "run.log"

# What the child sends to the waiting parent: its report once it has a runtime or waits for one, or the error.
Send = Callable[[RunReport], None]


def detach(runtime: str, work: Callable[[Send], int]) -> RunReport:
    """Do the work in a new process and return its first report. An error before that is raised here.

    Its output goes to run.log in the runtime's journal. Must be called while this process has only one thread.
    """
    folder = journal_folder(runtime)
    try:
        make_journal_folder(folder)
        log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        message = text("Cannot create the journal {folder}: {reason}.", folder=folder, reason=exc.strerror)
        raise LabError(message) from exc
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _work(log, theirs, work)
    os.close(theirs)
    os.close(log)
    try:
        with open(ours, "rb") as pipe:
            answer = pipe.read()
        return _read(answer)
    except OwnlabError:
        remove_journal(runtime)
        raise
    except BaseException:  # Ctrl-C before it has begun
        os.kill(child, signal.SIGTERM)
        raise


def _work(log: int, pipe: int, work: Callable[[Send], int]) -> NoReturn:
    """Run the child process. It never returns."""
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, target)
        code = work(lambda report: _send(pipe, encode_json({"report": report})))
    except OwnlabError as exc:
        error = {"kind": type(exc).__name__, "message": exc.message, "hint": exc.hint}
        _send(pipe, json.dumps({"error": error}).encode())
        sys.stderr.write(f"ownlab: {exc.message}\n")
        code = exc.exit_code
    except (KeyboardInterrupt, SystemExit):  # it was stopped before its first cell
        code = 128 + signal.SIGTERM
    except BaseException:  # noqa: BLE001  # printed here: the parent's code must not continue in the child
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _send(pipe: int, message: bytes) -> None:
    """Send one message; then the parent stops waiting."""
    with suppress(OSError):  # sent before, or the parent has ended
        os.write(pipe, message)
        os.close(pipe)


def _read(answer: bytes) -> RunReport:
    try:
        found = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as exc:
        raise LabError(text("The run ended before it began, without an error message.")) from exc
    if "report" in found:
        return msgspec.json.decode(found["report"], type=RunReport)
    error = msgspec.json.decode(found["error"])
    kind: type[OwnlabError] = getattr(errors, error["kind"], LabError)
    raise kind(error["message"], hint=error["hint"])
