"""Every failure that ownlab reports to a person, as one tree.

OwnlabError                 3   something went wrong that is not a bug of ours
├── UsageError              2   the command was called in a way that cannot work
├── InputError              3   a file or a pasted text cannot be used
│   ├── NotRecognised       3   nothing in the text looks like a report that we know
│   └── RecordError         3   a saved record is damaged, or of a newer format
├── DeviceUnusable          1   an accelerator is there and cannot be used, or is required and missing
├── CardsTaken              1   the cards that were asked for are in other hands
├── CellFailed              1   a cell of a notebook that was run has failed
├── LabError                3   a lab or a runtime is not as it should be: not running, not answering, not yours
│   └── StoreError          3   the store of runtimes and leases cannot be used
├── InterpreterError        4   the Python that was asked about cannot be run
└── DeadlineError           5   something did not answer in its time

The doors (`cli/main.py`, `server/routes.py`) alone turn these into exit codes and HTTP statuses. A message says
what happened; `meaning` what it usually means; `hint` what to do.
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
    """Something went wrong that is not a bug of ours."""

    exit_code: ClassVar[int] = 3
    http_status: ClassVar[int] = 500
    meaning: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(OwnlabError):
    """The command was called in a way that cannot work."""

    exit_code = 2
    http_status = 400


class InputError(OwnlabError):
    """A file or a pasted text cannot be used."""

    exit_code = 3
    http_status = 422


class NotRecognised(InputError):
    """Nothing in the text looks like a report that we know."""


class RecordError(InputError):
    """A saved record is damaged, or was written by a newer ownlab."""

    meaning = "The file was cut, edited by hand, or saved by another version of ownlab."


class DeviceUnusable(OwnlabError):
    """An accelerator is there and cannot be used, or one is required and there is none."""

    exit_code = 1
    http_status = 409


class CardsTaken(OwnlabError):
    """The cards that were asked for are in other hands. The message says who holds which, and since when."""

    exit_code = 1
    http_status = 409


class CellFailed(OwnlabError):
    """A cell of a notebook that was run has failed, or its kernel died in it. `report` says how each cell went."""

    exit_code = 1
    http_status = 422

    def __init__(self, message: str, *, hint: str = "", report: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.report = report  # a lab.runs.records.RunReport


class LabError(OwnlabError):
    """A lab or a runtime is not as it should be: not running, not answering, not yours."""

    exit_code = 3
    http_status = 409


class StoreError(LabError):
    """The store of runtimes and leases cannot be used."""

    http_status = 503
    meaning = "The disk is full, the folder may not be written, or the store belongs to a newer ownlab."


class InterpreterError(OwnlabError):
    """The Python that was asked about cannot be run."""

    exit_code = 4
    http_status = 422
    meaning = "The path is not a Python interpreter, or the environment behind it is broken."


class DeadlineError(OwnlabError):
    """Something did not answer in its time."""

    exit_code = 5
    http_status = 504
