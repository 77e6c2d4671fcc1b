"""The explanation of recorded runs as it is printed and drawn. `OWNLAB_GOLDEN=write` rewrites the texts: look at the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.instruments.why.collection import load_evidence
from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.step_chart import step_chart
from ownlab.instruments.why.terminal import show_explanation
from ownlab.render.console import print_to_text

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
WIDTH = 100


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_golden_text(path: Path) -> None:
    explanation = explain(load_evidence(str(path)))
    printed = print_to_text(lambda out: show_explanation(explanation, out), WIDTH)
    golden = path.with_suffix(".txt")
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        golden.write_text(printed)
    assert golden.read_text() == printed
    assert max(len(line) for line in printed.splitlines()) <= WIDTH + 40  # a line of a diff is not wrapped


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_picture_covers_the_whole_step(path: Path) -> None:
    explanation = explain(load_evidence(str(path)))
    training, *workers = explanation.lanes
    covered = sum(segment.end_ms - segment.begin_ms for segment in training.segments)
    assert covered == pytest.approx(training.segments[-1].end_ms, rel=0.05)
    for lane in (training, *workers):
        for before, after in zip(lane.segments, lane.segments[1:], strict=False):
            assert before.end_ms <= after.begin_ms + 1e-6
    values = step_chart(explanation)["data"]["values"]
    assert len(values) == sum(len(lane.segments) for lane in explanation.lanes)
