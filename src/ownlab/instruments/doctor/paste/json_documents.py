"""Reads JSON in a text: saved machines, saved diagnoses, and the JSON of AMD's tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from ownlab.instruments.doctor.paste.sections import ReportKind
from ownlab.instruments.doctor.paste.vendor_tools import read_amd_json
from ownlab.machine.machine_file import decode_machine
from ownlab.machine.records import Machine
from ownlab.text import text

__all__ = ["KINDS", "read_machine_json"]

_NAME = text("the JSON in this text")
_OWNLAB = re.compile(r'"(?:state"\s*:\s*"(?:un)?known"|taken_at"\s*:|gpu_work"\s*:)')
_AMD = re.compile(r'"card\d+"\s*:|"gpu"\s*:\s*\d')
_OPENING = r"[{\[]\s*$|\{\s*\"|\[\s*\{"


class _Diagnosis(msgspec.Struct):
    machine: msgspec.Raw


def read_machine_json(document: str, name: str) -> Machine | None:
    """Read a text that is a saved machine, or a diagnosis, which contains one. Raises RecordError if it is damaged."""
    start = document.lstrip()
    if not start.startswith("{") or not _OWNLAB.search(start):
        return None
    if '"verdict"' in start and '"findings"' in start:
        try:
            return decode_machine(bytes(msgspec.json.decode(start, type=_Diagnosis).machine), name)
        except msgspec.DecodeError:
            pass  # decode_machine reports the error
    return decode_machine(start.rstrip(), name)


def _end(lines: Sequence[str], start: int) -> int:
    """Return the line after the closing bracket at the margin, or the line where another opens there."""
    if lines[start].rstrip().endswith(("}", "]")) and len(lines[start]) > 2:
        return start + 1
    for index in range(start + 1, len(lines)):
        if lines[index][:1] in ("}", "]"):
            return index + 1
        if lines[index][:1] in ("{", "["):
            return index
    return len(lines)


def _extent_with(sign: re.Pattern[str]) -> Callable[[Sequence[str], int], int]:
    """Make the extent of JSON that has a sign near its beginning."""

    def extent(lines: Sequence[str], start: int) -> int:
        end = _end(lines, start)
        return end if sign.search("\n".join(lines[start : min(end, start + 200)])[:20_000]) else start

    return extent


KINDS = (
    ReportKind(
        text("saved machine"),
        _OPENING,
        _extent_with(_OWNLAB),
        lambda lines: read_machine_json("\n".join(lines), _NAME),
        width=10**8,
    ),
    ReportKind(
        text("AMD's JSON"), _OPENING, _extent_with(_AMD), lambda lines: read_amd_json("\n".join(lines)), width=10**8
    ),
)
