"""The folder of a sweep. Each combination has its output there, a log, and a record once it has ended.

NAME.json        the result of a combination, with everything that it depends on
NAME.ipynb       of a notebook: with its outputs; NAME/ of a script: its logs
NAME.log         what `ownlab run` said about it
sweep.log        of a sweep in the background: its progress
lock             held while the sweep runs
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.errors import InputError, LabError, UsageError
from ownlab.file_lock import try_lock
from ownlab.json_encoding import encode_json
from ownlab.lab.sweeps.grid import Combination
from ownlab.lab.sweeps.records import Trial
from ownlab.text import text

__all__ = ["SweepFolder", "TrialRecord", "open_folder"]

_LONGEST = 80
_ODD = re.compile(r"[^A-Za-z0-9._=,+-]")


class TrialRecord(Struct, frozen=True):
    """NAME.json."""

    trial: Trial
    arguments: tuple[str, ...]  # all others of `ownlab run`: other ones make another result
    digest: str  # of the notebook or script


class SweepFolder:
    """The files of one sweep."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock: int | None = None

    def lock(self) -> bool:
        """Lock the folder for this process; False if a sweep runs in it."""
        descriptor = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not try_lock(descriptor):
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def base(self, combination: Combination) -> str:
        """The path of a combination's files, without their endings."""
        plain = ",".join(f"{name}={value}" for name, value in combination.items())
        name = _ODD.sub("_", plain).lstrip(".-")[:_LONGEST]
        if name != plain:
            name += "-" + hashlib.sha256(plain.encode()).hexdigest()[:8]
        return os.path.join(self.path, name)

    def read(self, combination: Combination) -> TrialRecord | None:
        """The record of a combination that has ended; None if it has not, or the record is damaged."""
        try:
            return msgspec.json.decode(Path(self.base(combination) + ".json").read_bytes(), type=TrialRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, record: TrialRecord) -> None:
        """Record the result of a combination."""
        path = self.base(record.trial.parameters) + ".json"
        try:
            replace_file(path, encode_json(record).decode())
        except OSError as exc:
            raise LabError(text("Cannot write {path}: {reason}.", path=path, reason=exc.strerror)) from exc

    def forget(self, combination: Combination) -> None:
        """Remove the record of a combination that is run again."""
        Path(self.base(combination) + ".json").unlink(missing_ok=True)


def open_folder(name: str, given: str | None) -> SweepFolder:
    """Return the folder of a sweep: `given`, or NAME-sweep in the current folder. It is created, or continued.

    `name`: of the notebook or script with its ending, since train.py and train.ipynb may stand side by side; or of a module.
    """
    path = os.path.abspath(given or f"{name}-sweep")
    if os.path.isfile(path):
        raise UsageError(text("{path} is a file.", path=path), hint=text("With --sweep, -o takes a folder."))
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as exc:
        raise InputError(
            text("Cannot create the folder {folder}: {reason}.", folder=path, reason=exc.strerror)
        ) from exc
    return SweepFolder(path)
