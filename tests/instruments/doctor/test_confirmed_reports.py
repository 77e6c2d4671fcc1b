"""Public reports with a confirmed cause (tests/pastes/confirmed/README.md): the split, and the first finding of both halves.

expected.json has the code of the first finding for each report of the open half, as a person judged it against the confirmed
cause; null where the doctor misses it. The misses are named in docs/explanation/verdicts.md.

held_judged.json has the judgement of each held-back report: as the doctor answered it when that half was opened, once, after its
rules were written ("first_look"), and after what was general in the misses had been mended ("after_mending").

second.json was gathered after that by somebody who had not seen the rules, and judged once by somebody else
(second_judged.json); the rules had been made more general in between.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste

FOLDER = Path(__file__).resolve().parents[2] / "pastes" / "confirmed"
HALVES: dict[str, list[dict[str, str]]] = {
    name: json.loads((FOLDER / f"{name}.json").read_text()) for name in ("open", "held")
}
FIELDS = {"id", "source", "repository", "kind", "paste", "platform", "cause", "fix", "confirmed", "harmful"}
MOST_OF_ONE_REPOSITORY = 12
EXPECTED: dict[str, str | None] = json.loads((FOLDER / "expected.json").read_text())
MISSES = {name for name, code in EXPECTED.items() if code is None}
DOCS = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "verdicts.md"


def test_reports_are_complete_and_come_from_many_places() -> None:
    rows = [row for half in HALVES.values() for row in half]
    assert len(rows) >= 300
    assert all(row.keys() == FIELDS for row in rows)
    assert all(row[name].strip() for row in rows for name in FIELDS - {"platform", "harmful"})
    assert {row["confirmed"] for row in rows} == {"asker", "maintainer", "change"}
    for name in ("id", "source"):
        assert [value for value, count in Counter(row[name] for row in rows).items() if count > 1] == []
    assert max(Counter(row["repository"].lower() for row in rows).values()) <= MOST_OF_ONE_REPOSITORY


def test_every_second_repository_is_held_back() -> None:
    names = {row["repository"].lower() for half in HALVES.values() for row in half}
    by_hash = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    for half, chosen in (("open", by_hash[::2]), ("held", by_hash[1::2])):
        assert {row["repository"].lower() for row in HALVES[half]} == set(chosen)


@pytest.mark.parametrize(
    "report", [row for row in HALVES["open"] if row["id"] not in MISSES], ids=lambda report: report["id"]
)
def test_the_first_finding_is_the_confirmed_cause(report: dict[str, Any]) -> None:
    findings = diagnose(read_paste(report["paste"])).findings
    assert findings[0].code == EXPECTED[report["id"]]
    assert findings[0].fix


def test_every_open_report_is_judged_and_its_misses_are_few_and_documented() -> None:
    assert EXPECTED.keys() == {row["id"] for row in HALVES["open"]}
    assert len(MISSES) <= 0.05 * len(EXPECTED)
    page = DOCS.read_text()
    assert [name for name in MISSES if f"`{name}`" not in page] == []


def test_harmless_reports_have_a_verdict_that_says_so() -> None:
    harmless = [row for row in HALVES["open"] if EXPECTED[row["id"]] == "harmless"]
    assert len(harmless) >= 10
    for row in harmless:
        assert "harmless" in diagnose(read_paste(row["paste"])).verdict.sentence


JUDGED: dict[str, dict[str, dict[str, Any]]] = json.loads((FOLDER / "held_judged.json").read_text())
HELD_MISSES = {name for name, looks in JUDGED.items() if not looks["after_mending"]["right"]}


@pytest.mark.parametrize(
    "report", [row for row in HALVES["held"] if row["id"] not in HELD_MISSES], ids=lambda report: report["id"]
)
def test_the_held_half_keeps_its_first_findings(report: dict[str, Any]) -> None:
    findings = diagnose(read_paste(report["paste"])).findings
    assert findings[0].code == JUDGED[report["id"]]["after_mending"]["code"]
    assert findings[0].fix


def test_every_held_report_is_judged_twice_and_the_figures_are_documented() -> None:
    assert JUDGED.keys() == {row["id"] for row in HALVES["held"]}
    page = DOCS.read_text()
    for look in ("first_look", "after_mending"):
        assert all(judged[look].keys() == {"code", "right", "harmful", "reason"} for judged in JUDGED.values())
        right = sum(judged[look]["right"] for judged in JUDGED.values())
        assert f"{right} of {len(JUDGED)}" in page
    assert [name for name in HELD_MISSES if f"`{name}`" not in page] == []


SECOND: list[dict[str, str]] = json.loads((FOLDER / "second.json").read_text())
SECOND_JUDGED: dict[str, dict[str, Any]] = {
    name: looks["first_look"] for name, looks in json.loads((FOLDER / "second_judged.json").read_text()).items()
}


def test_the_second_reports_are_complete_and_from_elsewhere() -> None:
    known = {row["repository"].lower() for half in HALVES.values() for row in half}
    assert all(row.keys() == FIELDS for row in SECOND)
    assert {row["repository"].lower() for row in SECOND} & known == set()
    assert SECOND_JUDGED.keys() == {row["id"] for row in SECOND}
    assert all(judged.keys() == {"code", "right", "harmful", "reason"} for judged in SECOND_JUDGED.values())


def test_the_figures_of_the_second_reports_are_documented() -> None:
    right, harmful = (sum(judged[name] for judged in SECOND_JUDGED.values()) for name in ("right", "harmful"))
    assert f"{right} of {len(SECOND)} are right" in DOCS.read_text()
    assert f"{harmful} fixes are harmful" in DOCS.read_text()


@pytest.mark.parametrize(
    "report", [row for row in SECOND if SECOND_JUDGED[row["id"]]["right"]], ids=lambda report: report["id"]
)
def test_what_was_right_at_the_second_look_stays_right(report: dict[str, Any]) -> None:
    findings = diagnose(read_paste(report["paste"])).findings
    assert findings[0].code == SECOND_JUDGED[report["id"]]["code"]
    assert findings[0].fix
