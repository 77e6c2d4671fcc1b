"""The real step, run on the processor: times, phases, parts of the allocator's history, and failures."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.guest.fit.paths import HERE, LAUNCH

from ownlab_guest.fit.peak_snapshot import Moment, bytes_at_peak

KIB = 1024


@pytest.fixture(scope="module")
def answers(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [torch_python, str(HERE / "measure_on_cpu.py"), str(LAUNCH), str(tmp_path_factory.mktemp("measured"))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert "ANSWERS" in ran.stdout, ran.stderr[-3000:]
    answers: dict[str, Any] = json.loads(ran.stdout.rpartition("ANSWERS")[2])
    return answers


@pytest.mark.parametrize("name", ["trained", "mixed", "used", "two optimizers"])
def test_a_processor_has_times_and_no_memory(answers: dict[str, Any], name: str) -> None:
    answer = answers[name]
    assert "error" not in answer, answer
    assert answer["device"]["kind"] == "cpu"
    assert answer["memory"] is None
    assert len(answer["times"]["alone"]) >= 5
    assert min(answer["times"]["alone"]) > 0
    assert answer["times"]["steady"] == []


def test_out_of_memory_is_reported(answers: dict[str, Any]) -> None:
    ran_out = answers["too big"]["out_of_memory"]
    assert ran_out["message"].startswith("CUDA out of memory")
    assert (ran_out["phase"], ran_out["step"]) == ("forward", 1)
    assert "times" not in answers["too big"]


def test_a_step_that_raises_names_the_line(answers: dict[str, Any]) -> None:
    assert answers["raises"]["error"]["kind"] == "step-raised"
    assert "shapes cannot be multiplied" in answers["raises"]["error"]["message"]


def test_the_device_is_named_before_anything_runs(answers: dict[str, Any]) -> None:
    assert answers["looked"]["device"]["name"]
    assert "times" not in answers["looked"]
    assert answers["no card"]["error"]["kind"] == "no-card"


def test_the_cache_of_decoding(answers: dict[str, Any]) -> None:
    """2 sequences of 10 + 6 tokens, 32 numbers of 2 bytes each."""
    cache = answers["cache"]
    assert (cache["batch"], cache["prompt_tokens"], cache["new_tokens"]) == (2, 10, 6)
    assert cache["prompt_bytes"] == 2 * 10 * 32 * 2
    assert cache["cache_bytes"] == 2 * 16 * 32 * 2
    assert cache["trace"]["batch"] == 2
    assert cache["trace"]["seq"] == 1
    measured = answers["decoded"]["decoding"]
    assert measured["cache_bytes"] == cache["cache_bytes"]
    assert len(measured["token_seconds"]) == 6
    assert answers["no cache"]["error"]["kind"] == "no-decoding"


def test_phases_of_a_step(answers: dict[str, Any]) -> None:
    followed = answers["followed"]
    assert followed["turns"] == ["forward", "backward", "optimizer"]
    assert followed["enable_checkpointing"] == ["forward", "backward", "optimizer"], "modules run again on the way back"
    assert set(followed["allocated"]) == {"setup", "forward", "backward", "optimizer"}
    assert followed["left"].startswith("torch.autograd"), "the function of torch is not put back"


def test_parts_at_the_peak_of_a_real_step(answers: dict[str, Any]) -> None:
    """Four layers of 256 × 256 with AdamW: real addresses, many of them reused."""
    parts = answers["followed"]["parts"]
    weights = 4 * (256 * 256 + 256) * 4
    assert parts["weights"] == weights
    assert parts["optimizer"] == 2 * weights
    assert parts["gradients"] == weights
    assert parts["inputs"] == 64 * 256 * 4
    assert parts["workspace"] == 4 * KIB, "memory that nobody owns is of libraries"
    assert parts.get("temporary", 0) > 0


def test_the_memory_of_this_process_is_found(answers: dict[str, Any]) -> None:
    """By our pid, on all cards; by another pid only if no other process is listed: a container has its own pids."""
    assert [size for size, _ in answers["own"]] == [15, 2, None, None]


def test_stages_of_a_calibration_run(answers: dict[str, Any]) -> None:
    stages = answers["stages"]
    assert [stage["name"] for stage in stages["convolutions"]] == ["start"]
    assert [stage["name"] for stage in stages["products"]] == ["matmul", "matmul_backward", "more_kernels"]
    assert all((stage["context_bytes"], stage["kept_bytes"]) == (1, 2) for stage in stages["products"])


def entry(action: str, address: int, size: int = 0) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size}


def test_a_reused_address_is_another_allocation() -> None:
    """An activation goes, and a gradient comes to lie where it was."""
    base = {10: 1000 * KIB, 11: 8 * KIB}
    entries = [
        entry("alloc", 1, 64 * KIB),
        entry("alloc", 2, 100),
        entry("free_completed", 1),
        entry("segment_alloc", 5, 2048 * KIB),
        entry("alloc", 1, 128 * KIB),
        entry("alloc", 3, 32 * KIB),
        entry("free_completed", 3),
        entry("free_completed", 1),
        {"action": "oom", "device_free": 0, "size": 1},
    ]
    moments = [Moment(0, "forward"), Moment(2, "backward"), Moment(7, gradients=frozenset({1})), Moment(7, "optimizer")]
    assert bytes_at_peak(base, entries, moments, {10: "weights"}) == {
        "weights": 1000 * KIB,
        "workspace": 8 * KIB,
        "activations": 512,
        "gradients": 128 * KIB,
        "temporary": 32 * KIB,
    }


def test_where_nothing_comes_the_base_is_the_peak() -> None:
    assert bytes_at_peak({10: 512}, [], [], {10: "weights"}) == {"weights": 512}
    assert bytes_at_peak({10: 512}, [entry("free_completed", 10)], [], {10: "weights"}) == {"weights": 512}
