"""Machines and diagnoses that were saved as JSON, alone in a file or inside a longer text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from ownlab.instruments.doctor.paste.sections import Kind
from ownlab.instruments.doctor.paste.vendor_tools import read_amd_json
from ownlab.machine.machine_file import decode_machine
from ownlab.machine.records import Machine

__all__ = ["KINDS", "read_whole"]

_NAME = "the JSON in this text"
_OURS = re.compile(r'"(?:state"\s*:\s*"(?:un)?known"|taken_at"\s*:|gpu_work"\s*:)')
_AMD = re.compile(r'"card\d+"\s*:|"gpu"\s*:\s*\d')
_OPENING = r"[{\[]\s*$|\{\s*\"|\[\s*\{"


class _Diagnosis(msgspec.Struct):
    machine: msgspec.Raw


def read_whole(text: str, name: str) -> Machine | None:
    """The machine, where the whole text is one that was saved (or a diagnosis, which holds one). RecordError if damaged."""
    start = text.lstrip()
    if not start.startswith("{") or not _OURS.search(start):
        return None
    if '"verdict"' in start and '"findings"' in start:
        try:
            return decode_machine(bytes(msgspec.json.decode(start, type=_Diagnosis).machine), name)
        except msgspec.DecodeError:
            pass  # damaged: the machine's reader says how
    return decode_machine(start.rstrip(), name)


def _end(lines: Sequence[str], start: int) -> int:
    """To the bracket that closes at the margin, or to where another opens there."""
    if lines[start].rstrip().endswith(("}", "]")) and len(lines[start]) > 2:
        return start + 1
    for index in range(start + 1, len(lines)):
        if lines[index][:1] in ("}", "]"):
            return index + 1
        if lines[index][:1] in ("{", "["):
            return index
    return len(lines)


def _extent_with(sign: re.Pattern[str]) -> Callable[[Sequence[str], int], int]:
    """The extent of JSON that bears a sign near its beginning."""

    def extent(lines: Sequence[str], start: int) -> int:
        end = _end(lines, start)
        return end if sign.search("\n".join(lines[start : min(end, start + 200)])[:20_000]) else start

    return extent


KINDS = (
    Kind(
        "saved machine", _OPENING, _extent_with(_OURS), lambda lines: read_whole("\n".join(lines), _NAME), width=10**8
    ),
    Kind("AMD's JSON", _OPENING, _extent_with(_AMD), lambda lines: read_amd_json("\n".join(lines)), width=10**8),
)
