"""A run in the background: a process in a session of its own, which outlives the terminal."""

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

__all__ = ["LOG", "detach"]

LOG = "run.log"

# What a child says to whoever waits for it: its report, once it has a runtime or waits for one; or why it has none.
Say = Callable[[RunReport], None]


def detach(runtime: str, work: Callable[[Say], int]) -> RunReport:
    """Do the work in a process of its own, and return when it says how it begins. What it raises before is raised here.

    What it prints goes to run.log in the runtime's journal. Called where this process has one thread alone.
    """
    folder = journal_folder(runtime)
    try:
        make_journal_folder(folder)
        log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise LabError(f"the journal {folder} cannot be made: {exc.strerror}") from exc
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
            said = pipe.read()
        return _read(said)
    except OwnlabError:
        remove_journal(runtime)
        raise
    except BaseException:  # Ctrl-C before it had begun
        os.kill(child, signal.SIGTERM)
        raise


def _work(log: int, pipe: int, work: Callable[[Say], int]) -> NoReturn:
    """The child. It never returns to what called us."""
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, target)
        code = work(lambda report: _say(pipe, encode_json({"report": report})))
    except OwnlabError as exc:
        told = {"kind": type(exc).__name__, "message": exc.message, "hint": exc.hint}
        _say(pipe, json.dumps({"error": told}).encode())
        sys.stderr.write(f"ownlab: {exc.message}\n")
        code = exc.exit_code
    except (KeyboardInterrupt, SystemExit):  # it was told to end before its first cell
        code = 128 + signal.SIGTERM
    except BaseException:  # noqa: BLE001  # it is ours to print: nobody above may go on
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _say(pipe: int, words: bytes) -> None:
    """Once: then whoever waits goes away."""
    with suppress(OSError):  # it was said before, or they are gone
        os.write(pipe, words)
        os.close(pipe)


def _read(said: bytes) -> RunReport:
    try:
        found = msgspec.json.decode(said, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as exc:
        raise LabError("the run ended before it began, and could not say why") from exc
    if "report" in found:
        return msgspec.json.decode(found["report"], type=RunReport)
    told = msgspec.json.decode(found["error"])
    kind: type[OwnlabError] = getattr(errors, told["kind"], LabError)
    raise kind(told["message"], hint=told["hint"])
