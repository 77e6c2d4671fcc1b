"""Loops with a planted cause, recorded on an H200 (tests_gpu/why/loops): the cause that comes first, and what it is worth."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ownlab.instruments.why.collection import load_evidence
from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.records import Explanation

FOLDER = Path(__file__).parent / "recorded" / "gpu"
MEASURED = json.loads((FOLDER / "measured.json").read_text())["step_ms"]
# Loop -> its causes, and how far the predicted band may be from the measured step, as a factor.
LOOPS = {
    "cache_emptied": (
        {"cache-emptied"},
        1.7,
    ),  # what was freed is allocated again by calls that cost more than they take
    "collects_garbage": ({"garbage-collection"}, 1.4),
    "contiguous_layout": ({"layout"}, 1.25),
    "full_precision": ({"full-precision"}, 1.25),
    "full_precision_tf32": ({"full-precision"}, 1.25),
    "many_small_operators": ({"small-batch", "launch-bound"}, 1.25),
}


def explained(name: str, folder: Path) -> Explanation:
    path = folder / "evidence.json"
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    return explain(load_evidence(str(path)))


def test_every_recorded_loop_is_expected_here() -> None:
    assert {path.name.partition(".")[0] for path in FOLDER.glob("*.gz")} == set(LOOPS) == set(MEASURED)


@pytest.mark.parametrize("name", LOOPS)
def test_the_planted_cause_comes_first(name: str, tmp_path: Path) -> None:
    explanation = explained(name, tmp_path)
    assert explanation.findings[0].code in LOOPS[name][0]
    assert "the GPU works" in explanation.sentence
    assert explanation.findings[0].headline in explanation.sentence


@pytest.mark.parametrize("name", LOOPS)
def test_the_predicted_step_is_near_the_measured_one(name: str, tmp_path: Path) -> None:
    finding = explained(name, tmp_path).findings[0]
    assert finding.step_ms_after is not None
    low, high = finding.step_ms_after
    fixed, factor = MEASURED[name]["fixed"], LOOPS[name][1]
    assert low / factor <= fixed <= high * factor


@pytest.mark.parametrize("name", LOOPS)
def test_the_picture_has_the_gpu_beside_the_host(name: str, tmp_path: Path) -> None:
    explanation = explained(name, tmp_path)
    lanes = {lane.name: lane for lane in explanation.lanes}
    if not lanes:
        pytest.skip("no marked step is among the spans that were kept")
    assert {"training", "GPU"} <= set(lanes)
    for lane in lanes.values():
        for segment in lane.segments:
            assert 0 <= segment.begin_ms <= segment.end_ms


@pytest.mark.parametrize(
    ("name", "share"), [("collects_garbage", 0.08), ("contiguous_layout", 0.99), ("full_precision", 1.0)]
)
def test_how_long_the_gpu_works(name: str, share: float, tmp_path: Path) -> None:
    step = explained(name, tmp_path).step
    assert step is not None
    assert step.gpu_ms is not None
    assert step.gpu_ms / step.step_ms == pytest.approx(share, abs=0.02)
