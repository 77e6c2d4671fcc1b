"""Public reports with a confirmed cause (tests/pastes/confirmed/README.md): the split, and the first finding of both halves.

expected.json has the code of the first finding for each report of the open half, as a person judged it against the confirmed
cause; null where the doctor misses it. The misses are named in docs/explanation/verdicts.md.

held_judged.json has the judgement of each held-back report: as the doctor answered it when that half was opened, once, after its
rules were written ("first_look"), and after what was general in the misses had been mended ("after_mending").

second.json, third.json and fifth.json were gathered after that by people who had not seen the rules, and judged once by others
(second_judged.json, third_judged.json, fifth_judged.json); the rules had been made more general in between. fifth_open.json is the
half of the fifth set on which rules were built.
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


# Gathered after the rules had been written, by somebody who had not seen them; answered once, and judged by somebody else.
LATER: dict[str, list[dict[str, str]]] = {
    name: json.loads((FOLDER / f"{name}.json").read_text()) for name in ("second", "third", "fifth")
}
LATER_JUDGED: dict[str, dict[str, dict[str, Any]]] = {
    name: {key: looks["first_look"] for key, looks in json.loads((FOLDER / f"{name}_judged.json").read_text()).items()}
    for name in LATER
}
# The other half of the fifth set: rules were built on it, and their author judged it.
FIFTH_OPEN: list[dict[str, str]] = json.loads((FOLDER / "fifth_open.json").read_text())
FIFTH_OPEN_JUDGED: dict[str, dict[str, str | None]] = json.loads((FOLDER / "fifth_open_judged.json").read_text())
RIGHT_ANSWERS = {"first", "named", "if-not"}


@pytest.mark.parametrize("name", LATER)
def test_later_reports_are_complete_and_judged(name: str) -> None:
    assert all(row.keys() == FIELDS for row in LATER[name])
    assert LATER_JUDGED[name].keys() == {row["id"] for row in LATER[name]}
    assert all(
        judged.keys() - {"answer"} == {"code", "right", "harmful", "reason"} for judged in LATER_JUDGED[name].values()
    )


def test_later_reports_are_from_elsewhere() -> None:
    rows = [row for half in HALVES.values() for row in half]
    repositories = {row["repository"].lower() for row in rows}
    assert {row["repository"].lower() for row in LATER["second"]} & repositories == set()
    # The third and the fifth may have other threads of the same repositories.
    assert {row["source"] for row in LATER["third"]} & {row["source"] for row in [*rows, *LATER["second"]]} == set()
    earlier = {row["source"] for row in [*rows, *LATER["second"], *LATER["third"], *FIFTH_OPEN]}
    assert {row["source"] for row in LATER["fifth"]} & earlier == set()
    assert {row["repository"] for row in LATER["fifth"]} & {row["repository"] for row in FIFTH_OPEN} == set()


@pytest.mark.parametrize("name", LATER)
def test_the_figures_of_later_reports_are_documented(name: str) -> None:
    judged = LATER_JUDGED[name].values()
    right, harmful = sum(each["right"] for each in judged), sum(each["harmful"] for each in judged)
    assert f"{right} of {len(judged)} are right" in DOCS.read_text()
    assert f"{harmful} fixes are harmful" in DOCS.read_text()


@pytest.mark.parametrize(
    ("name", "report"),
    [(name, row) for name, rows in LATER.items() for row in rows if LATER_JUDGED[name][row["id"]]["right"]],
    ids=lambda value: value["id"] if isinstance(value, dict) else value,
)
def test_what_was_right_at_the_first_look_stays_right(name: str, report: dict[str, Any]) -> None:
    code = LATER_JUDGED[name][report["id"]]["code"]
    findings = diagnose(read_paste(report["paste"])).findings
    assert [finding.code for finding in findings[:1]] == ([code] if code else [])


def test_where_the_fifth_look_found_the_cause_is_documented() -> None:
    judged = LATER_JUDGED["fifth"].values()
    assert all(each["right"] == (each["answer"] in RIGHT_ANSWERS and not each["harmful"]) for each in judged)
    only_if_not = sum(each["right"] and each["answer"] == "if-not" for each in judged)
    assert f"In {only_if_not} of the {sum(each['right'] for each in judged)}" in DOCS.read_text()


def test_the_open_half_of_the_fifth_set_is_complete() -> None:
    assert all(row.keys() == FIELDS for row in FIFTH_OPEN)
    assert FIFTH_OPEN_JUDGED.keys() == {row["id"] for row in FIFTH_OPEN}


@pytest.mark.parametrize(
    "report",
    [row for row in FIFTH_OPEN if FIFTH_OPEN_JUDGED[row["id"]]["answer"] == "right or named"],
    ids=lambda report: report["id"],
)
def test_what_was_built_on_the_fifth_set_stays(report: dict[str, Any]) -> None:
    findings = diagnose(read_paste(report["paste"])).findings
    assert findings[0].code == FIFTH_OPEN_JUDGED[report["id"]]["code"]
