"""Situations: causes that only several signs of a text show together.

A rule recognises one message, and names the cause that this message usually has. Where the text also shows which card, system,
version or tool it is about, that often points to another cause, or makes the usual fix impossible. A situation names all signs
that must be there; it then stands before what the rules found, and replaces the findings that it explains better.

Signs are searched in the messages and in the facts that were read from reports, one fact on a line (`fact: driver 535.183`).
The tables are in `wsl`, `drivers`, `legacy_cards`, `environment`, `npu_tpu`, `frameworks`, `devices`, `software`, `programs` and `notices`; each situation belongs to the page of a rule.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from ownlab.instruments.doctor.queries import any_framework_works
from ownlab.instruments.doctor.records import Case, Finding, Message
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, quote
from ownlab.instruments.doctor.searched_text import searched_text
from ownlab.instruments.doctor.situations.devices import DEVICES
from ownlab.instruments.doctor.situations.drivers import DRIVERS
from ownlab.instruments.doctor.situations.environment import ENVIRONMENT
from ownlab.instruments.doctor.situations.frameworks import FRAMEWORKS
from ownlab.instruments.doctor.situations.legacy_cards import LEGACY_CARDS
from ownlab.instruments.doctor.situations.notices import NOTICES
from ownlab.instruments.doctor.situations.npu_tpu import NPU_AND_TPU
from ownlab.instruments.doctor.situations.programs import PROGRAMS
from ownlab.instruments.doctor.situations.situation import Situation
from ownlab.instruments.doctor.situations.software import SOFTWARE
from ownlab.instruments.doctor.situations.wsl import WSL_AND_WINDOWS
from ownlab.machine.facts import value_of
from ownlab.text import text

__all__ = ["SITUATIONS", "Situation", "with_situation"]

# The first one that a text shows is reported.
SITUATIONS: tuple[Situation, ...] = (
    *WSL_AND_WINDOWS,
    *DRIVERS,
    *LEGACY_CARDS,
    *ENVIRONMENT,
    *NPU_AND_TPU,
    *FRAMEWORKS,
    *DEVICES,
    *SOFTWARE,
    *PROGRAMS,
    *NOTICES,
)

_FLAGS = re.IGNORECASE | re.MULTILINE
# The CUDA that nvidia-smi shows, and the CUDA for which a package was built: +cu118, cudatoolkit=10.2.
_DRIVER_CUDA = re.compile(r"^fact: cuda (\d+)\.(\d+)|\bCUDA Version *: *(\d+)\.(\d+)", re.MULTILINE)
_BUILD_CUDA = re.compile(
    r"\+cu(\d{1,2})(\d)\b|(?:\bcudatoolkit|\bpytorch-cuda|\bcuda-version|CUDA used to build PyTorch:|torch\.version\.cuda\W)[ =:'\"]{0,30}(\d{1,2})\.(\d)",
)

_FREE_OF_TOTAL = re.compile(r"\b(\d{6,}) bytes free, (\d{6,}) bytes total")


def with_situation(case: Case, findings: list[Finding]) -> list[Finding]:
    """Return the findings with that of the first situation that a pasted text shows in front, without those it replaces.

    A machine that was read is left to the rules: they ask it.
    """
    if case.machine.origin != "pasted":
        return findings
    content = searched_text(case)
    everything = "\n".join((content, *_newer_cuda(content), *_free_memory(content)))
    works = any_framework_works(case.machine)
    codes = {finding.code for finding in findings} if value_of(case.machine.nvidia.driver) else set[str]()
    for situation in SITUATIONS:
        if (works and not situation.while_working) or (situation.only_without_driver and situation.code in codes):
            continue
        if not _shown(situation, everything):
            continue
        others = [finding for finding in findings if finding.code not in situation.instead_of]
        return [_finding(situation, case.messages, everything), *others]
    return findings


def _shown(situation: Situation, everything: str) -> bool:
    for sign in situation.signs:
        if _compiled(sign).search(everything) is None:
            return False
    return not (situation.unless and _compiled(situation.unless).search(everything))


@functools.cache
def _compiled(sign: str) -> re.Pattern[str]:
    """Compile a sign once: there are more of them than the module re keeps."""
    return re.compile(sign, _FLAGS)


def _finding(situation: Situation, messages: Iterable[Message], everything: str) -> Finding:
    quotes = [
        quote(message, match)
        for sign in situation.signs
        for message in messages
        if (match := _compiled(sign).search(message.text))
    ]
    if not quotes:  # all signs are facts from reports
        match = _compiled(situation.signs[0]).search(everything)
        quotes = [quote(Message(everything, text("pasted text")), match)] if match else []
    return Finding(
        code=situation.code,
        severity=situation.severity,
        title=situation.title,
        evidence=tuple(dict.fromkeys(quotes))[:QUOTES_SHOWN],
        meaning=situation.meaning,
        fix=situation.fix,
        blocks=situation.blocks and situation.severity == "error",
    )


def _free_memory(content: str) -> Iterator[str]:
    """Yield a line if a message names the card's free memory, and it is more than half of it."""
    match = _FREE_OF_TOTAL.search(content)
    if match is not None and int(match[1]) > int(match[2]) // 2:
        yield "fact: most of the card's memory is free"


def _newer_cuda(content: str) -> Iterator[str]:
    """Yield a line for the first build whose CUDA is newer than the driver's: of a newer major version, before CUDA 11 of any."""
    served = _DRIVER_CUDA.search(content)
    if served is None:
        return
    newest = (int(served[1] or served[3]), int(served[2] or served[4]))
    for match in _BUILD_CUDA.finditer(content):
        major, minor = match[1] or match[3], match[2] or match[4]
        asked = (int(major), int(minor))
        if asked[0] > newest[0] or (newest[0] < 11 and asked > newest):
            yield f"fact: build asks for CUDA {major}.{minor}, driver has {newest[0]}.{newest[1]}"
            return
