"""A run in the background (--detach): a process in its own session, which outlives the terminal."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import msgspec

from ownlab import errors
from ownlab.errors import LabError, OwnlabError
from ownlab.json_encoding import to_builtins
from ownlab.lab.journal.storage import journal_folder, make_journal_folder, remove_journal
from ownlab.lab.runs.records import RunReport
from ownlab.text import pack_texts, text, unpack_texts, use_translations

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
        use_translations(None)  # the log is in English, as all files
        code = work(lambda report: _send_packed(pipe, {**to_builtins(report), "reason": report.reason}))
    except OwnlabError as exc:
        _send_packed(pipe, {"error": type(exc).__name__, "message": exc.message, "hint": exc.hint})
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


def _send_packed(pipe: int, message: dict[str, Any]) -> None:
    """Send one message; then the parent stops waiting, and says it in its own language."""
    with suppress(OSError):  # sent before, or the parent has ended
        os.write(pipe, json.dumps(pack_texts(message)).encode())
        os.close(pipe)


def _read(answer: bytes) -> RunReport:
    try:
        found = unpack_texts(msgspec.json.decode(answer, type=dict[str, Any]))
    except msgspec.DecodeError as exc:
        raise LabError(text("The run ended before it began, without an error message.")) from exc
    if "error" not in found:
        return msgspec.convert(found, RunReport)
    kind: type[OwnlabError] = getattr(errors, found["error"], LabError)
    raise kind(found["message"], hint=found["hint"])
