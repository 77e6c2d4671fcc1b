"""Every test in a small size: on the CPU, with numpy, and on a fake card."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LAUNCH = HERE.parents[2] / "src" / "ownlab_guest" / "launch.py"
Every = dict[str, Any]


@pytest.fixture(scope="session")
def every(torch_python: str) -> Every:
    """The output of measure_everything.py."""
    ran = subprocess.run(
        [torch_python, str(HERE / "measure_everything.py"), str(LAUNCH), str(HERE)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        # Threads that wait for each other are very slow on a machine that is busy with other tests.
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert "ANSWER" in ran.stdout, ran.stderr[-3000:]
    answer: Every = json.loads(ran.stdout.rpartition("ANSWER")[2])
    return answer


def test_every_test_takes_time_and_reports_its_work(every: Every) -> None:
    work = {
        **{f"matmul {kind}": 2 * 64**3 for kind in ("fp64", "fp32", "tf32", "fp16", "bf16")},
        "batch": 2 * 32**4,
        "copy": 2 << 20,
        "triad": 3 << 20,
        "to card": 1 << 20,
        "from card": 1 << 20,
        "back to back": 1,
        "and wait": 1,
        "without waiting": 1,
        "convolution": 2 * 8 * 8 * 14 * 14 * 9,
        "convolution backward": 3 * 2 * 8 * 8 * 14 * 14 * 9,
        "attention": 4 * 2 * 16 * 16 * 64,
        "attention backward": 3 * 4 * 2 * 16 * 16 * 64,
    }
    models = {"train gpt2": 8, "train gpt2 fp16": 8, "infer gpt2": 8}
    assert {name: outcome["work"] for name, outcome in every["cpu"].items()} == work | models | {"train resnet50": 1}
    assert {name: outcome["work"] for name, outcome in every["card"]["small"].items()} == work | models
    assert {name: outcome["work"] for name, outcome in every["numpy"].items()} == {
        "matmul fp64": 2 * 64**3,
        "batch": 2 * 32**4,
        "copy": 2 << 20,
    }
    for outcomes in (every["cpu"], every["numpy"], every["card"]["small"]):
        for name, outcome in outcomes.items():
            assert outcome["seconds"], name
            assert all(seconds > 0 for seconds in outcome["seconds"]), name


def test_latencies_have_percentiles(every: Every) -> None:
    for name in ("and wait", "infer gpt2"):
        assert "p50" in every["cpu"][name]["percentiles"], name
    assert every["cpu"]["matmul fp32"]["percentiles"] is None


def test_models_match_their_papers_and_the_operations_that_torch_counts(every: Every) -> None:
    parameters, forward, our_forward, training, our_training = zip(
        every["counted"]["resnet50"], every["counted"]["gpt2"], strict=True
    )
    assert parameters == (25_557_032, 124_439_808 + 47 * 768)  # and the rows that fill GPT-2's embedding up
    assert forward == our_forward
    assert training == our_training
    assert every["cpu"]["train resnet50"]["flops"] == our_training[0] / 2


def test_the_memory_limit_of_a_card_is_set(every: Every) -> None:
    card = every["card"]
    assert card["device"] == "cuda:0"
    assert card["fraction"] == 0.25  # 4 of 16 GiB
    assert card["sets"] == 8  # of half a MiB, through four times a cache of one


def test_unsupported_types_are_skipped(every: Every) -> None:
    assert (every["card"]["half"], every["card"]["old half"]) == ("bf16", "fp32")
    assert {name: reason for name, (reason, _) in every["card"]["old"].items()} == dict.fromkeys(
        ("bf16", "fp8", "tf32"), "unsupported"
    )
    assert every["card"]["old"]["bf16"][1] == "bf16 needs compute capability 8.0; this card has 6.1"


def test_a_lost_card_is_distinguished_from_a_failure(every: Every) -> None:
    assert every["card"]["failure"] == "card-lost"
    assert "unspecified launch failure" in every["card"]["lost"]
    device, why = every["card"]["absent"]
    assert device == "cpu"
    assert why.endswith("sees 1 card, but no cuda:3")


def test_names_of_tests_never_change(every: Every) -> None:
    """They match results of different machines and years: tests may be added, but not renamed."""
    golden = HERE / "test_names.json"
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        golden.write_text(json.dumps(every["card"]["names"], indent=1) + "\n")
    assert every["card"]["names"] == json.loads(golden.read_text())
    quick, default = (set(every["card"]["names"][profile]) for profile in ("quick", "default"))
    assert quick < default | {"matmul fp16 8192"}
    assert len(default) == len(every["card"]["names"]["default"])
