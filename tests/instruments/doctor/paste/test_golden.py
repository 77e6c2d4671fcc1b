"""A summary of every recorded text. `OWNLAB_GOLDEN=write` rewrites golden.json: compare it with the texts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.records import Case

GOLDEN = Path(__file__).parent / "golden.json"
PASTES = Path(__file__).resolve().parents[3] / "pastes"
# confirmed/ holds collections of many machines, which test_confirmed_reports.py reads one by one.
FILES = sorted(str(path.relative_to(PASTES)) for path in PASTES.glob("*/*") if path.parent.name != "confirmed")


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        return {}
    loaded: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("name", FILES)
def test_golden_summary_of_a_recorded_text(
    name: str, golden: dict[str, Any], summary: Callable[[Case], dict[str, Any]]
) -> None:
    case = read_paste((PASTES / name).read_bytes(), name=name)
    facts = json.loads(json.dumps(summary(case)))
    if name in golden:
        assert facts == golden[name]
    assert case.recognised


def test_golden_file_is_written_on_request(summary: Callable[[Case], dict[str, Any]]) -> None:
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        texts = {name: summary(read_paste((PASTES / name).read_bytes(), name=name)) for name in FILES}
        GOLDEN.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(set(kept) & set(FILES)) > 20
