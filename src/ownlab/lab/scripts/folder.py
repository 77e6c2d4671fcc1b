"""The folder of a script's run: its files, its name, and how it is found again by its runtime.

run.json              what was started
script.py             the script, if it came from standard input
rank-N.log            what a rank printed
rank-N-error.json     the exception that ended it
launcher.log          what torchrun printed
failures.json         the ranks that torchrun saw fail
launcher-N.log        the same of node N of a cluster, from 1 on
failures-N.json
end.json              how it ended, written by the supervisor, or by the batch script of a job
job.sh                the batch script of a job
slurm.log             what Slurm and the batch script printed
cancel.json           why a job was cancelled
"""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ownlab.atomic_files import replace_file
from ownlab.config.paths import state_folder
from ownlab.errors import InputError, UsageError
from ownlab.json_encoding import encode_json
from ownlab.lab.scripts.records import StartedScript
from ownlab.text import text

__all__ = [
    "LogFollower",
    "error_file",
    "log_file",
    "make_run_folder",
    "read_start",
    "recorded_runs",
    "remove_unstarted",
    "write_reference",
    "write_source",
    "write_start",
]

_OURS = ("run.json", "end.json", "failures.json", "launcher.log", "script.py", "slurm.log", "job.sh", "cancel.json")
_RANK_FILES = ("rank-*.log", "rank-*-error.json", "launcher-*.log", "failures-*.json")
# A line may be printed in pieces, and a read may end inside of a character.
_CHUNK = 1 << 20


def make_run_folder(name: str, given: str | None, *, force: bool) -> str:
    """Create the folder of a run: `given`, or NAME-run in the current folder, or NAME-run-2 and so on. Return its path."""
    if given is None:
        return _numbered(os.path.abspath(f"{name}-run"))
    folder = os.path.abspath(given)
    if os.path.isfile(folder):
        raise UsageError(text("{path} is a file.", path=given), hint=text("For a script, -o takes a folder."))
    if os.path.isdir(folder) and os.listdir(folder):
        if not force:
            message = text("The folder {path} is not empty.", path=given)
            raise UsageError(message, hint=text("Replace the run in it with --force."))
        for path in _files_of_runs(folder):
            path.unlink()
    _make(folder)
    return folder


def _numbered(folder: str) -> str:
    number, target = 1, folder
    while os.path.lexists(target) or not _make(target, new=True):
        number += 1
        target = f"{folder}-{number}"
    return target


def _make(folder: str, *, new: bool = False) -> bool:
    try:
        os.makedirs(folder, exist_ok=not new)
    except FileExistsError:
        return False
    except OSError as exc:
        message = text("Cannot create the folder {folder}: {reason}.", folder=folder, reason=exc.strerror)
        raise InputError(message, hint=text("Choose another folder with -o FOLDER.")) from exc
    return True


def _files_of_runs(folder: str) -> Iterator[Path]:
    for pattern in (*_OURS, *_RANK_FILES):
        yield from Path(folder).glob(pattern)


def remove_unstarted(folder: str) -> None:
    """Remove the folder of a run that never began."""
    with contextlib.suppress(OSError):
        for name in ("run.json", "end.json", "script.py"):
            Path(folder, name).unlink(missing_ok=True)
        os.rmdir(folder)


def log_file(folder: str, rank: int) -> str:
    """The file with everything that a rank printed."""
    return os.path.join(folder, f"rank-{rank}.log")


def error_file(folder: str, rank: int) -> str:
    """The file with the exception that ended a rank."""
    return os.path.join(folder, f"rank-{rank}-error.json")


def write_source(folder: str, source: bytes) -> str:
    """Write a script that came from standard input. Return its path."""
    path = os.path.join(folder, "script.py")
    try:
        Path(path).write_bytes(source)
    except OSError as exc:
        raise InputError(text("Cannot write to {folder}: {reason}.", folder=folder, reason=exc.strerror)) from exc
    return path


def write_start(folder: str, start: StartedScript) -> None:
    """Write run.json, and make the run known by its runtime."""
    try:
        replace_file(os.path.join(folder, "run.json"), encode_json(start).decode())
    except OSError as exc:
        raise InputError(text("Cannot write to {folder}: {reason}.", folder=folder, reason=exc.strerror)) from exc
    links = _links()
    os.makedirs(links, mode=0o700, exist_ok=True)
    os.symlink(folder, links / start.runtime)


def write_reference(folder: str, start: StartedScript, reference: str) -> None:
    """Add to run.json what the engine calls the run."""
    try:
        replace_file(os.path.join(folder, "run.json"), encode_json(replace(start, reference=reference)).decode())
    except OSError as exc:
        raise InputError(text("Cannot write to {folder}: {reason}.", folder=folder, reason=exc.strerror)) from exc


def read_start(folder: str) -> StartedScript | None:
    """Read run.json; None if it is missing or damaged."""
    try:
        return msgspec.json.decode(Path(folder, "run.json").read_bytes(), type=StartedScript)
    except (OSError, msgspec.DecodeError):
        return None


def recorded_runs() -> list[tuple[str, StartedScript]]:
    """The folder and the start of every run of this user that still has its folder, the oldest first."""
    runs = []
    try:
        entries = sorted(os.scandir(_links()), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    for entry in entries:
        folder = os.path.realpath(entry.path)
        start = read_start(folder)
        if start is not None and start.runtime == entry.name:
            runs.append((folder, start))
        else:  # the folder was removed, or has another run now
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
    return sorted(runs, key=lambda run: run[1].started_at)


def _links() -> Path:
    return state_folder() / "script-runs"


class LogFollower:
    """Reads what is appended to a log."""

    def __init__(self, path: str) -> None:
        self._path, self._position = path, 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> str:
        """Return what is new, at most about a mebibyte; "" if there is nothing."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position)
                chunk = file.read(_CHUNK)
        except FileNotFoundError:  # nothing was printed yet
            return ""
        self._position += len(chunk)
        return self._decoder.decode(chunk)
