"""Training loops with one planted cause each, run for real: the right cause comes first, whatever else the machine does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.command_line import Ownlab

from ownlab.instruments.why.collection import load_evidence
from ownlab.instruments.why.explanation import explain as explain_evidence
from ownlab.instruments.why.records import Evidence
from ownlab.json_encoding import encode_json

LOOPS = Path(__file__).with_name("planted_loops.py")
RANKS = LOOPS.with_name("planted_ranks.py")
# Causes in the machine, which other tests may produce at the same time.
AMBIENT = {"busy-machine", "swapping", "cpu-limit", "oversubscribed-threads"}

# One run of `ownlab why` measures them all, each in its own process.
LOOPS_OF_ONE_PROCESS = (
    *("no_workers", "no_workers_stream", "few_workers", "few_workers_spawned", "slow_preparing", "workers_restarted"),
    *("frequent_checkpoints", "slow_logging", "much_validation", "python_metrics", "work_between_steps"),
    *("garbage_collection", "collate_in_main", "well_used", "frozen_batch_norm"),
)

Explain = Callable[[str], dict[str, Any]]


def measured(ownlab: Ownlab, evidence: Path, *command: str) -> dict[str, Evidence]:
    """Measure causes that print "PID CAUSE"; return the evidence of each."""
    ran = ownlab("why", "--json", "--save", str(evidence), *command)
    assert ran.returncode == 0, ran.stderr
    pids: dict[str, set[int]] = {}
    for line in ran.stderr.splitlines():
        pid, _, cause = line.partition(" ")
        if pid.isdigit():
            pids.setdefault(cause, set()).add(int(pid))
    whole = load_evidence(str(evidence))
    return {cause: _part(whole, of) for cause, of in pids.items()}


def _part(whole: Evidence, pids: set[int]) -> Evidence:
    """The evidence of some of the processes, and of their workers."""
    processes = tuple(process for process in whole.processes if process.pid in pids)
    workers = {pid for process in processes for loader in process.loaders for pid in loader.pids}
    return replace(whole, processes=processes, workers=tuple(each for each in whole.workers if each.pid in workers))


@pytest.fixture(scope="module")
def loops(ownlab: Ownlab, torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    saved = tmp_path_factory.mktemp("loops") / "evidence.json"
    return measured(ownlab, saved, torch_python, str(LOOPS), *LOOPS_OF_ONE_PROCESS)


@pytest.fixture
def explain(loops: dict[str, Evidence], valid: Callable[[str, str], Any]) -> Explain:
    def explained(cause: str) -> dict[str, Any]:
        assert loops[cause].processes
        explanation = valid(encode_json(explain_evidence(loops[cause])).decode(), "why")
        assert isinstance(explanation, dict)
        return explanation

    return explained


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


@pytest.fixture(scope="module")
def ranks(ownlab: Ownlab, torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    folder = tmp_path_factory.mktemp("ranks")
    command = [torch_python, str(RANKS), "forked", str(folder), "accumulation", "unused"]
    return measured(ownlab, folder / "evidence.json", *command)


@pytest.mark.parametrize(
    ("cause", "code"), [("accumulation", "accumulation-without-no-sync"), ("unused", "find-unused-parameters")]
)
def test_causes_of_ddp_are_found(ranks: dict[str, Evidence], cause: str, code: str) -> None:
    explanation = explain_evidence(ranks[cause])
    assert explanation.ranks == 2
    assert code in {finding.code for finding in explanation.findings}
