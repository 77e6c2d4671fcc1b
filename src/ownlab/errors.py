"""Every error that ownlab reports to a person, as one tree, with exit codes.

OwnlabError                 3   an error that is not a bug in ownlab
├── UsageError              2   wrong arguments
├── InputError              3   a file or a pasted text cannot be used
│   ├── NotRecognised       3   the text contains no report of a known kind
│   └── RecordError         3   a saved record is damaged or has a newer format
├── DeviceUnusable          1   an accelerator cannot be used, or is required and missing
├── CardsTaken              1   the requested cards are in use
├── CellFailed              1   a cell of a notebook run failed
├── LabError                3   a lab or a runtime is not running, does not answer, or belongs to somebody else
│   └── StoreError          3   the store of runtimes and leases cannot be used
├── InterpreterError        4   the given Python cannot be run
└── DeadlineError           5   something did not answer in time

Only `cli/main.py` and `lab/server/routes.py` turn these into exit codes and HTTP statuses. The message says what
happened, `meaning` what it usually means, `hint` what to do.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "CardsTaken",
    "CellFailed",
    "DeadlineError",
    "DeviceUnusable",
    "InputError",
    "InterpreterError",
    "LabError",
    "NotRecognised",
    "OwnlabError",
    "RecordError",
    "StoreError",
    "UsageError",
]


class OwnlabError(Exception):
    """An error that is not a bug in ownlab."""

    exit_code: ClassVar[int] = 3
    http_status: ClassVar[int] = 500
    meaning: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(OwnlabError):
    """Wrong arguments."""

    exit_code = 2
    http_status = 400


class InputError(OwnlabError):
    """A file or a pasted text cannot be used."""

    exit_code = 3
    http_status = 422


class NotRecognised(InputError):
    """The text contains no report of a known kind."""


class RecordError(InputError):
    """A saved record is damaged, or was written by a newer ownlab."""

    meaning = "The file is truncated, was edited by hand, or was saved by another version of ownlab."


class DeviceUnusable(OwnlabError):
    """An accelerator cannot be used, or one is required and missing."""

    exit_code = 1
    http_status = 409


class CardsTaken(OwnlabError):
    """The requested cards are in use. The message says by whom, and since when."""

    exit_code = 1
    http_status = 409


class CellFailed(OwnlabError):
    """A cell of a notebook run failed, or its kernel died. `report` has the outcome of each cell."""

    exit_code = 1
    http_status = 422

    def __init__(self, message: str, *, hint: str = "", report: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.report = report  # a lab.runs.records.RunReport


class LabError(OwnlabError):
    """A lab or a runtime is not running, does not answer, or belongs to somebody else."""

    exit_code = 3
    http_status = 409


class StoreError(LabError):
    """The store of runtimes and leases cannot be used."""

    http_status = 503
    meaning = "The disk is full, the folder is not writable, or the store belongs to a newer ownlab."


class InterpreterError(OwnlabError):
    """The given Python cannot be run."""

    exit_code = 4
    http_status = 422
    meaning = "The path is not a Python interpreter, or the environment behind it is broken."


class DeadlineError(OwnlabError):
    """Something did not answer in time."""

    exit_code = 5
    http_status = 504
