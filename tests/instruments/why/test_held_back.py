"""Loops of somebody who had not seen the rules (tests_gpu/why/held_back), recorded on an H200 at first look.

Cases 06 and 11 were wrong, or arguable, then (benchmarks/RESULTS.md); the rules have changed since, so that this holds no first look.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ownlab.instruments.why.collection import load_evidence
from ownlab.instruments.why.explanation import explain

FOLDER = Path(__file__).parent / "recorded" / "held_back"
FIRST = {
    "case_01": "few-workers",
    "case_02": "few-workers",
    "case_04": "work-between-steps",
    "case_05": "blocking-copies",
    "case_06": "synchronisation",
    "case_07": "garbage-collection",
    "case_08": "frequent-checkpoints",
    "case_09": "python-metrics",
    "case_11": "launch-bound",
    "case_12": "full-precision",
    "case_13": "layout",
    "case_14": "unfused-attention",
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_finding(name: str, tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    explanation = explain(load_evidence(str(path)))
    assert explanation.findings[0].code == FIRST[name]
    assert "the GPU works" in explanation.sentence
    assert explanation.findings[0].step_ms_after is not None


def test_every_recorded_loop_is_expected_here() -> None:
    assert {path.name.partition(".")[0] for path in FOLDER.glob("*.gz")} == set(FIRST)
