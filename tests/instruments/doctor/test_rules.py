"""Checks that every rule must pass: its code, its page, its place in the list, its tests."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ownlab.errors import UsageError
from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.records import Case, Message
from ownlab.instruments.doctor.rule import FixedMessageRule, MessageRule, Rule
from ownlab.instruments.doctor.rules import RULES, find_rule
from ownlab.machine.machine_file import load_machine
from ownlab.machine.records import Machine
from ownlab.text import Text

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "RULES.md"

# The codes of the first design, which documents elsewhere may name.
DOCUMENTED = [
    "cpu-build",
    "driver-old",
    "no-kernel",
    "no-smi",
    "mismatch",
    "nvml-unknown",
    "no-device",
    "runtime-missing",
    "uvm",
    "fabric",
    "combo",
    "fwd",
    "hidden",
    "cudnn-shadow",
    "toolkit-diff",
    "held",
    "exclusive",
    "mig",
    "shm",
    "throttle",
    "persistence",
    "pcie",
    "hmm",
    "wsl",
    "counters",
    "xid",
    "nouveau",
    "cudnn-missing",
    "cuda-mismatch",
    "no-bf16",
    "toolkit-arch",
    "few-cores",
]


def leaves(kind: type[Rule]) -> set[type[Rule]]:
    children = {leaf for child in kind.__subclasses__() for leaf in leaves(child)}
    return children | ({kind} if "code" in vars(kind) else set())


def pages() -> str:
    """docs/RULES.md, made of the rules' docstrings."""
    head = "One section per rule, causes before effects. Generated from the rules' docstrings (`make golden`); "
    parts = [f"# The rules of the doctor\n\n{head}`ownlab doctor --explain CODE` shows the same text.\n"]
    parts += [f"## `{rule.code}`\n\n*{rule.title}* ({rule.severity})\n\n{rule.page()}\n" for rule in RULES]
    return "\n".join(parts)


def test_every_rule_is_in_the_list() -> None:
    assert set(RULES) == leaves(Rule)  # type: ignore[type-abstract]  # only walked through, never made


def test_codes_are_lowercase_words_and_unique() -> None:
    names = [name for rule in RULES for name in (rule.code, *rule.aliases)]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


@pytest.mark.parametrize("code", [*DOCUMENTED, "insufficient"])
def test_documented_codes_exist(code: str) -> None:
    assert find_rule(code) in RULES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_page_has_all_sections(rule: type[Rule]) -> None:
    page = rule.page()
    assert page.splitlines()[0].endswith(".")
    for heading in ("**Why it matters.**", "**What to do.**", "**Sources.**"):
        assert heading in page


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_is_tested(rule: type[Rule]) -> None:
    folders = (Path(__file__).parent / name for name in ("rules", "cluster"))
    tests = "".join(path.read_text() for folder in folders for path in folder.rglob("test_*.py"))
    assert len(re.findall(rf"\b{rule.__name__}\b|[\"']{rule.code}[\"']", tests)) >= 2


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_no_rule_finds_anything_in_an_empty_case(rule: type[Rule]) -> None:
    assert list(rule().check(Case(machine=Machine()))) == []


@pytest.mark.parametrize("rule", [rule for rule in RULES if issubclass(rule, MessageRule)], ids=lambda rule: rule.code)
def test_patterns_are_regular_expressions(rule: type[MessageRule]) -> None:
    assert rule.patterns
    for sign in rule.patterns:
        assert not re.compile(sign).match("")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_titles_and_fixed_meanings_are_templates(rule: type[Rule]) -> None:
    assert isinstance(rule.title, Text)
    assert not rule.title.endswith(".")  # the verdict puts it into a sentence
    if issubclass(rule, FixedMessageRule):
        assert isinstance(rule.meaning, Text)


def test_generated_pages_match_the_rules() -> None:
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        PAGES.write_text(pages())
    assert PAGES.read_text() == pages()


def test_an_unknown_code_suggests_similar_codes() -> None:
    with pytest.raises(UsageError, match="Unknown rule 'driver-odl'") as caught:
        find_rule("driver-odl")
    assert "driver-old" in caught.value.hint


def test_findings_are_sorted_by_severity_and_cause() -> None:
    """A machine with a note, a warning and two errors, one of which blocks; RULES lists causes before effects."""
    lines = [
        "This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current system is 2",
        "RuntimeError: CUDA error: device-side assert triggered",  # device-assert: error
        "The NVIDIA driver on your system is too old (found version 11040)",  # driver-old: error, blocks
    ]
    machine = load_machine(ROOT / "tests" / "machines" / "gtx1080ti-x4.json")
    findings = diagnose(Case(machine, tuple(Message(line, "test") for line in lines))).findings
    codes = [finding.code for finding in findings]
    assert codes.index("device-assert") < codes.index("few-cores") < codes.index("no-bf16")
    assert [finding.severity for finding in findings] == sorted(
        (finding.severity for finding in findings), key=["error", "warning", "note"].index
    )
    ranks = [[rule.code for rule in RULES].index(finding.code) for finding in findings if finding.severity == "note"]
    assert ranks == sorted(ranks)
