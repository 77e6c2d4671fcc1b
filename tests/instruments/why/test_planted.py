"""Training loops with one planted cause each, run for real: the right cause comes first, whatever else the machine does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

LOOPS = Path(__file__).with_name("planted_loops.py")
RANKS = LOOPS.with_name("planted_ranks.py")
# Causes in the machine, which other tests may produce at the same time.
AMBIENT = {"busy-machine", "swapping", "cpu-limit", "oversubscribed-threads"}

Explain = Callable[[str], dict[str, Any]]


@pytest.fixture
def explain(ownlab: Ownlab, torch_python: str, valid: Callable[[str, str], Any]) -> Explain:
    def run(cause: str) -> dict[str, Any]:
        ran = ownlab("why", "--json", torch_python, str(LOOPS), cause)
        assert ran.returncode == 0, ran.stderr
        explanation = valid(ran.stdout, "why")
        assert isinstance(explanation, dict)
        return explanation

    return run


def first(explanation: dict[str, Any]) -> dict[str, Any]:
    """The first finding that is no cause in the machine."""
    finding = next(finding for finding in explanation["findings"] if finding["code"] not in AMBIENT)
    assert isinstance(finding, dict)
    return finding


@pytest.mark.parametrize(
    ("loop", "codes", "functions"),
    [
        ("no_workers", {"no-workers"}, {"no_workers"}),
        ("no_workers_stream", {"no-workers"}, {"no_workers_stream"}),
        ("few_workers", {"few-workers", "slow-reading"}, {"few_workers", "__getitem__"}),
        ("few_workers_spawned", {"few-workers", "slow-reading"}, {"few_workers_spawned", "__getitem__"}),
        ("slow_preparing", {"slow-preparing"}, {"__getitem__"}),
        ("workers_restarted", {"workers-restarted"}, {"workers_restarted"}),
        ("frequent_checkpoints", {"frequent-checkpoints"}, {"save"}),
        ("slow_logging", {"slow-logging"}, {"log"}),
        ("much_validation", {"much-validation"}, {"validate"}),
        ("python_metrics", {"python-metrics"}, {"accuracy"}),
        ("work_between_steps", {"work-between-steps"}, {"make_batch"}),
        ("garbage_collection", {"garbage-collection"}, {"collect"}),
    ],
)
def test_the_planted_cause_comes_first(explain: Explain, loop: str, codes: set[str], functions: set[str]) -> None:
    explanation = explain(loop)
    finding = first(explanation)
    assert finding["code"] in codes, json.dumps(explanation["findings"], indent=1)
    assert finding["where"]["file"] == str(LOOPS)
    assert finding["where"]["function"].rpartition(".")[2] in functions
    assert finding["share"] > 0.1
    assert finding["headline"] in explanation["sentence"]


def test_collating_in_the_training_process_is_reported(explain: Explain) -> None:
    codes = {finding["code"] for finding in explain("collate_in_main")["findings"]}
    # The sample that this loop collates also takes time to prepare: more of it on a busy machine.
    assert {"no-workers", "collate-in-main"} <= codes - AMBIENT <= {"no-workers", "collate-in-main", "slow-preparing"}


@pytest.mark.parametrize("loop", ["well_used", "frozen_batch_norm"])
def test_a_loop_that_only_trains_has_no_finding(explain: Explain, loop: str) -> None:
    explanation = explain(loop)
    findings = [finding for finding in explanation["findings"] if finding["code"] not in AMBIENT]
    assert [finding for finding in findings if finding["share"] > 0.2] == []  # a busy machine stops the loop anywhere
    assert explanation["step"]["training_ms"] > 0.8 * explanation["step"]["step_ms"]


def torchrun(ownlab: Ownlab, torch_python: str, cause: str) -> dict[str, Any]:
    """Explain a run of two ranks over gloo, on ports that are free."""
    launcher = [torch_python, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    ran = ownlab("why", "--json", *launcher, *rendezvous, str(RANKS), cause)
    assert ran.returncode == 0, ran.stderr
    explanation = json.loads(ran.stdout)
    assert isinstance(explanation, dict)
    return explanation


def test_a_slow_rank_is_named(ownlab: Ownlab, torch_python: str) -> None:
    explanation = torchrun(ownlab, torch_python, "straggler")
    finding = first(explanation)
    assert explanation["ranks"] == 2
    assert (finding["code"], finding["where"]["function"]) == ("straggler", "tokenize")
    assert "for rank 1 in each step" in finding["headline"]


def test_ranks_that_the_script_spawns_itself_are_compared(ownlab: Ownlab, torch_python: str, tmp_path: Path) -> None:
    ran = ownlab("why", "--json", torch_python, str(RANKS), "spawned", str(tmp_path))
    assert first(json.loads(ran.stdout))["code"] == "straggler"


def test_accumulation_without_no_sync_is_found(ownlab: Ownlab, torch_python: str) -> None:
    codes = {finding["code"] for finding in torchrun(ownlab, torch_python, "accumulation")["findings"]}
    assert "accumulation-without-no-sync" in codes


def test_a_search_for_unused_parameters_is_found(ownlab: Ownlab, torch_python: str) -> None:
    codes = {finding["code"] for finding in torchrun(ownlab, torch_python, "unused")["findings"]}
    assert "find-unused-parameters" in codes
