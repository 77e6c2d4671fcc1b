"""The differential of a pasted message: every mechanism that can produce it, each with the check that tells it from the others.

A rule names the most frequent cause of a message. A message that was pasted alone does not show which of its causes it has; so the
other ones follow, those first for which the text has a sign, without those that the text excludes or that another finding states.
For a machine that was read they are left out: there the rules ask the machine.

The tables (`driver`, `faults`, `cuda`, `software`, `containers`, `machines`, `tools`, `vendors`) are families of messages, recognised by their grammar and not
by the program that printed them. A family also answers where no rule knows the message (rule several-causes).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ownlab.instruments.doctor.differential.containers import CONTAINERS
from ownlab.instruments.doctor.differential.cuda import CUDA
from ownlab.instruments.doctor.differential.driver import DRIVER
from ownlab.instruments.doctor.differential.faults import FAULTS
from ownlab.instruments.doctor.differential.machines import MACHINES
from ownlab.instruments.doctor.differential.mechanism import Family, Mechanism
from ownlab.instruments.doctor.differential.software import SOFTWARE
from ownlab.instruments.doctor.differential.tools import TOOLS
from ownlab.instruments.doctor.differential.vendors import VENDORS
from ownlab.instruments.doctor.records import Case, Finding, Message, OtherCause
from ownlab.instruments.doctor.searched_text import searched_text
from ownlab.text import in_english, sentences, text

__all__ = [
    "AMBIGUOUS",
    "FAMILIES",
    "SEVERAL_CAUSES",
    "Family",
    "Mechanism",
    "Recognised",
    "from_messages_alone",
    "is_notice",
    "recognise",
    "with_other_causes",
]

SEVERAL_CAUSES = "several-causes"  # the code of the rule that answers where only a family is recognised

FAMILIES: tuple[Family, ...] = (
    *VENDORS,
    *TOOLS,
    *FAULTS,
    *DRIVER,
    *CONTAINERS,
    *CUDA,
    *SOFTWARE,
    *MACHINES,
)

_MOST = 9  # other causes that are shown
_MOST_BESIDE_SIGNS = 5  # beside a finding to which several signs or a fact led
_OWN_RULES = 3  # the first codes of a family: rules about nothing else
_FLAGS = re.IGNORECASE | re.MULTILINE
# A line that reports a failure. The words of a family alone are also in listings and in logs of good runs.
_FAILED = re.compile(
    r"\b(?:errors?|err|fail\w*|fatal|cannot|can't|could ?n[o']t|couldn't|unable|panic|abort\w*|core dumped|not (?:found|available|supported|detected|loaded|"
    r"installed|compiled|built|enabled|compatible|recogni[sz]ed|initiali[sz]ed|permitted|visible|working|linked|responding|possible)|"
    r"unavailable|unreachable|giving up|not (?:ready|managed|allowed|present|valid|owned|configured|satisfied|enough|done)|expected|isn't|doesn't|won't|no (?:such|\w+[- ]?capable|cuda|gpus?|devices?|module|space|supported|compatible|kernel|available|nvidia)|missing|invalid|denied|no (?:\w+ ){0,3}(?:gpus?|devices?|cards?|adapters?|accelerators?|platforms?|runtime|backend)|refused|rejected|"
    r"time[d ]?-?out|hangs?|hung|stuck|lost|mismatch\w*|insufficient|incompatible|killed|illegal|unsupported|undefined|unknown|faults?|IO_PAGE_FAULT|unexpected|out of memory|too (?:old|new|small|large|many)|"
    r"crash\w*|broken|corrupt\w*|exception|assert\w*|segfault|segmentation fault|throttl\w*|fall(?:ing|s)? back|warning|requires?|must (?:be|have)|OOM|died|terminated|exited|stopped|unresponsive|bad)\b"
    r"|(?-i:\w(?:Error|Exception)\b)|(?-i:[A-Z]+_ERROR|ERROR_[A-Z]+)|\b0 (?:GPUs?|devices?)\b|\(-\d+\)|False\b|code[ =:]+-?[1-9]",
    re.IGNORECASE,
)
_NO_FAILURE = re.compile(
    r"\b(?:0|no) (?:errors?|failures?|warnings?)\b|\berrors?\W{1,3}0\b|error[_ ]rate|\b(?:mean|squared|absolute|validation|training|test) error|Volatile Uncorr|Unable to find image|failed to push",
    re.IGNORECASE,
)


# Rules whose message does not state its cause: others say it themselves ("BAR is 0M", "Key was rejected").
AMBIGUOUS = frozenset(
    [
        "no-smi",
        "no-driver",
        "driver-old",
        "no-visible-gpu",
        "gpu-not-found",
        "uvm",
        "no-device",
        "card-lost",
        "xid",
        "module-load",
        "mismatch",
        "library-missing",
        "graphics-libraries",
        "video-engine",
        "opencl",
        "illegal-access",
        "driver-reset",
        "cuda-library",
        "cublas",
        "nccl",
        "nccl-setup",
        "amd-fault",
        "rocm-devices",
        "rocm-libraries",
        "intel-gpu",
        "nvml-query",
        "kernel-crash",
        "windows-device",
        "card-fault",
        "runtime-failure",
        "unfit-library",
        "cuda-error",
        "nvml-unknown",
        "several-causes",
        "container-no-gpu",
        "runtime-missing",
        "container-toolkit",
        "container-daemon",
        "kubernetes",
        "exclusive",
        "smi-hang",
        "module-build",
        "driver-packages",
        "hybrid",
        "framework-broken",
        "cudnn-missing",
        "cudnn-shadow",
        "extension-mismatch",
        "cpu-package",
        "program-backend",
        "tensorrt",
        "jax-build",
        "tensorflow-memory",
        "device-assert",
        "rocm-build",
        "tpu",
        "ascend-environment",
        "ascend-health",
        "rendezvous",
        "launcher",
        "launch-timeout",
    ]
)
# Rules whose message says the cause in so many words: few others are worth a line.
_DEFINITE = frozenset(
    [
        "module-rejected",
        "repository-key",
        "compiler-new",
        "fabric",
        "hmm",
        "paging-file",
        "shm",
        "flash-attention-card",
        "no-bf16",
        "nouveau",
        "driver-mixed",
        "docker-desktop",
        "memlock",
        "oom-killed",
        "rocm-atomics",
        "disk-full",
        "forked-cuda",
        "ecc",
        "module-flavour",
        "card-unsupported",
        "pci-resources",
        "driver-firmware",
        "image-needs-driver",
        "fwd",
        "invalid-ordinal",
        "mps-absent",
        "rosetta",
        "passthrough",
        "process-limits",
        "host-memory",
        "wheel-missing",
    ]
)
# How programs mark what is no error.
_NOTICE = re.compile(
    r"\b(?:\w*Warning|WARN(?:ING)?|warn(?:ing)?|INFO|info|NOTE|NOTICE|notice|DEBUG|hint)\b|\[[WI]\b|\b[WI]\d{4}\b|: [WI] \w+[/.]"
)
_ERROR = re.compile(
    r"\b(?:\w+Error|\w+Exception|ERROR|FATAL|CRITICAL|fatal|error:|Traceback|NCCL WARN)\b|\*ERROR\*|\b[EF]\d{4}\b"
)
_ONLY_A_NOTICE = text("It is only a notice: the program goes on, and what it speaks of is not needed")
_DOES_IT_WORK = text(
    "does it end well, and is it in the list of nvidia-smi while it runs? Then nothing needs to be done"
)

# A line of information that speaks of no error.
_INFORMATION = re.compile(
    r"^\W*(?:\S+ +){0,3}\W?(?:INFO|DEBUG)\b(?!.*(?:error|fail|cannot|could not|unable))", re.IGNORECASE
)


class Recognised(NamedTuple):
    """A family whose words a message has, and the mechanism that is most likely in this text."""

    family: Family
    likely: Mechanism
    message: Message
    match: re.Match[str]


def recognise(case: Case) -> Iterator[Recognised]:
    """Yield each family of which a line reports a failure, with the first such line."""
    content = searched_text(case)
    for family in FAMILIES:
        if family.stands_alone and (found := _first_failure(family, case.messages)) is not None:
            yield Recognised(family, _by_signs(family.mechanisms, content)[0], *found)


def _first_failure(family: Family, messages: Sequence[Message]) -> tuple[Message, re.Match[str]] | None:
    for message in messages:
        for match in _compiled(family.pattern).finditer(message.text):
            line = _line_around(match)
            if _FAILED.search(line) and not _NO_FAILURE.search(line) and not _INFORMATION.search(line):
                return message, match
    return None


def _line_around(match: re.Match[str]) -> str:
    start = match.string.rfind("\n", 0, match.start()) + 1
    end = match.string.find("\n", match.end())
    return match.string[start : end if end >= 0 else len(match.string)]


def with_other_causes(case: Case, findings: Sequence[Finding], *, signs: bool = False) -> tuple[Finding, ...]:
    """Return the findings; the first one with the other causes of its message, where a pasted text is all that is known.

    Later findings that another rule of the same family made of the same line are left out: the other causes say what they say.
    `signs`: several signs of the text led to the first finding. Then fewer others are shown, as where a fact stands behind it.
    """
    if case.machine.origin != "pasted" or not findings:
        return tuple(findings)
    first = findings[0]
    if first.severity == "note" and first.code != SEVERAL_CAUSES:
        return tuple(findings)
    if first.code != "xid" and not any(
        _is_message(case, line) for line in first.evidence
    ):  # facts alone: there is no message to differentiate
        return tuple(findings)
    content = searched_text(case)
    families = _families_of(first, content)
    findings = [first, *(finding for finding in findings[1:] if not _repeats(finding, first, families))]
    stated = {finding.code for finding in findings[1:] if finding.severity != "note"}
    shown = [each for each in _untold(first, families, content) if not stated.intersection(each.codes)]
    of_facts = not from_messages_alone(case, first)
    if of_facts and first.code in _DEFINITE:  # the message says the cause, and the machine has it
        return (first, *findings[1:])
    certain = signs or of_facts
    most = _MOST_BESIDE_SIGNS if certain or first.code in _DEFINITE else _MOST
    others = [OtherCause(each.cause, each.check) for each in shown[:most]]
    if is_notice(first.evidence):
        others.insert(0 if first.code == SEVERAL_CAUSES else len(others), OtherCause(_ONLY_A_NOTICE, _DOES_IT_WORK))
    meaning = first.meaning
    if others and not certain and first.code in AMBIGUOUS and first.code != SEVERAL_CAUSES:
        meaning = sentences(
            meaning, text("The message alone does not prove this cause: the checks tell it from the others.")
        )
    return (msgspec.structs.replace(first, meaning=meaning, other_causes=tuple(others)), *findings[1:])


def _untold(finding: Finding, families: Sequence[Family], content: str) -> list[Mechanism]:
    """Return the mechanisms of these families that the text allows and the finding does not name."""
    told = {each for family in families for each in family.mechanisms if _says(finding, each, family)}
    possible = _by_signs((each for family in families for each in family.mechanisms), content)
    return [each for each in dict.fromkeys(possible) if each not in told]


def from_messages_alone(case: Case, finding: Finding) -> bool:
    """Whether all evidence are lines of messages: no fact of a report stands behind the finding."""
    return finding.code == "xid" or all(_is_message(case, line) for line in finding.evidence)


def _is_message(case: Case, line: str) -> bool:
    return in_english(line).startswith(tuple(f"{in_english(message.where)}: " for message in case.messages))


def is_notice(lines: Iterable[str]) -> bool:
    """Whether a program marked all of these lines as a warning or as information."""
    return all(_NOTICE.search(line) and not _ERROR.search(line) for line in lines)


def _says(finding: Finding, mechanism: Mechanism, family: Family) -> bool:
    """Whether the finding itself names this mechanism: of the family's main rule only the usual one, of others their own."""
    if finding.code not in mechanism.codes:
        return mechanism.cause in finding.meaning
    return finding.code != family.codes[0] or mechanism is family.mechanisms[0]


def _repeats(finding: Finding, first: Finding, families: Sequence[Family]) -> bool:
    same_line = set(finding.evidence) <= set(first.evidence)
    return same_line and finding.severity != "note" and any(finding.code in family.codes for family in families)


def _by_signs(mechanisms: Iterable[Mechanism], content: str) -> list[Mechanism]:
    """Return the mechanisms that the text allows, those with a sign in it first."""
    possible = [
        each
        for each in mechanisms
        if not _shows(each.against, content) and (not each.only or _shows(each.only, content))
    ]
    return sorted(possible, key=lambda each: not _shows(each.sign, content))


def _families_of(finding: Finding, content: str) -> list[Family]:
    """Return the families of a finding's message: by its lines, else by its rule."""
    of_rule = sorted(
        (family for family in FAMILIES if finding.code in family.codes),
        key=lambda family: family.codes.index(finding.code),
    )
    lines = "\n".join(finding.evidence)
    by_lines = [family for family in of_rule if _shows(family.pattern, lines)]
    if by_lines:
        return by_lines[:2]
    of_rule = [family for family in of_rule if not family.of_one_program]
    if of_rule and finding.code in of_rule[0].codes[:_OWN_RULES]:
        return of_rule[:1]
    return [family for family in FAMILIES if family.stands_alone and _shows(family.pattern, lines)][:2]


def _shows(sign: str, content: str) -> bool:
    return bool(sign) and _compiled(sign).search(content) is not None


@functools.cache
def _compiled(sign: str) -> re.Pattern[str]:
    """Compile a sign once: there are more of them than the module re keeps."""
    return re.compile(sign, _FLAGS)
