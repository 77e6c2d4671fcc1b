"""Cards that a person names in a sentence: "my GPU is a GTX 1080 Ti"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.catalog.architectures import capability_of
from ownlab.machine.facts import Known
from ownlab.machine.records import Card

__all__ = ["cards_in_prose"]

_SOURCE = "pasted text"
_LONGEST = 2000
_MOST = 3  # who names more compares them

# The series stands in the name, so that no number of something else is taken for a card.
_NAME = re.compile(
    r"""(?<![A-Za-z0-9_/.-])(?P<maker>(?:NVIDIA[ ])?(?:GeForce[ ])?)(?P<name>
        (?:RTX|GTX)\s?(?:PRO\s?)?A?\d{3,4}(?:\s?(?:Ti|SUPER))*(?:\s?D)?(?:\sAda)?
      | Quadro\s(?:RTX\s)?[A-Z]{0,2}\d{3,4}M?
      | Tesla\s[A-Z]\d{1,4}[a-z]?
      | TITAN\s(?:RTX|Xp|X|V)
      | GT\s?\d{3,4}
      | (?:GB200|GB300|GH200|B100|B200|B300|H100|H200|H800|H20|A100|A800|A30|A40|A10G?|L40S?|L20|L4|V100|P100|P40|T4|K80)
      )(?![A-Za-z0-9_.])(?=\D|$)""",
    re.VERBOSE | re.IGNORECASE,
)
_LETTERS = re.compile(r"^(RTX|GTX|GT)\s?(?=\w)", re.IGNORECASE)
# Two letters and two digits name much else (an instance of a cloud, a sheet of paper): these need a maker's or a card's word beside.
_SHORT = re.compile(r"^[A-Z]\d{1,2}[A-Z]?$", re.IGNORECASE)
_CARD_WORD = re.compile(r"nvidia|tesla|\bgpus?\b|graphics|\bcards?\b|显卡|顯示卡|グラボ|グラフィック", re.IGNORECASE)
_READ = 2000  # lines at the beginning and at the end: between them stands a log, and no prose


def cards_in_prose(lines: Sequence[str]) -> tuple[Card, ...]:
    """The cards, each once and in the order of their names. None where so many are named that they are not one machine's."""
    named: dict[str, str] = {}
    for line in lines if len(lines) <= _READ else [*lines[: _READ // 2], *lines[-_READ // 2 :]]:
        if len(line) > _LONGEST:
            continue
        for match in _NAME.finditer(line):
            name = match["maker"] + _written(match["name"])
            if capability_of(name) is None or (_SHORT.match(name) and not _CARD_WORD.search(line)):
                continue
            named.setdefault(name.upper(), name)
    if len(named) > _MOST:
        return ()
    return tuple(Card("nvidia", index, name=Known(name, _SOURCE)) for index, name in enumerate(named.values()))


def _written(name: str) -> str:
    """As nvidia-smi writes it, with a space after the letters: RTX4090 is RTX 4090."""
    return " ".join(_LETTERS.sub(lambda match: f"{match[1].upper()} ", name).split())
