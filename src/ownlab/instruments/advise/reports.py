"""Reports that a question comes with: of `ownlab fit --json`, and of `ownlab bench`."""

from __future__ import annotations

import sys

import msgspec

from ownlab.errors import InputError, RecordError
from ownlab.instruments.fit.records import Fit

__all__ = ["read_fit"]

# A report is some hundred kilobytes; a file that is greater by far is something else.
_BIGGEST = 64 * 1024 * 1024


def read_fit(path: str) -> Fit:
    """The report of a model; "-" is stdin."""
    try:
        if path == "-":
            text = sys.stdin.buffer.read(_BIGGEST + 1)
        else:
            with open(path, "rb") as file:
                text = file.read(_BIGGEST + 1)  # a pipe, or a device, has no size to look at
    except OSError as exc:
        raise InputError(
            f"cannot read {path}: {exc.strerror or exc}", hint="Make one: ownlab fit … --json > fit.json"
        ) from exc
    if len(text) > _BIGGEST:
        raise InputError(f"{path} is too big to be a report of `ownlab fit`")
    try:
        return msgspec.json.decode(text, type=Fit)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise RecordError(
            f"{'stdin' if path == '-' else path} is no report of `ownlab fit`: {exc}",
            hint="Make one: ownlab fit … --json > fit.json",
        ) from exc
