"""Each rule on invented evidence: a run that has the cause, and a near miss."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.instruments.why.invented import (
    FILE,
    call,
    codes,
    evidence,
    explained,
    fetch,
    loader,
    place,
    process,
    sample,
    with_counters,
    workers,
)

from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.records import DataParallel, Distributed, Explanation, Finding, Place, Process

TRAINING: dict[str, Any] = {"forward_ms": 10.0, "backward_ms": 20.0, "optimizer_ms": 5.0}


def only(explanation: Explanation, code: str) -> Finding:
    (finding,) = (finding for finding in explanation.findings if finding.code == code)
    return finding


def test_no_workers() -> None:
    fetches = tuple(fetch(number * 300, cpu=268) for number in range(40))
    run = process(data_ms=268, cpu_ms=300, loaders=(loader(fetches=fetches, wait_ns=40 * 268_000_000),), **TRAINING)
    explanation = explained(run)
    finding = only(explanation, "no-workers")
    assert codes(explanation)[0] == "no-workers"
    assert "268 ms wait for data: Images.__getitem__ (train.py:8)" in explanation.sentence
    assert "on one of 16 cores" in explanation.sentence
    assert finding.change is not None
    assert "num_workers=8" in finding.change.diff  # 268 ms in 35 ms
    assert finding.step_ms_after is not None
    assert finding.step_ms_after[0] <= 35 <= finding.step_ms_after[1] < 45


def test_cheap_samples_need_no_workers() -> None:
    """A fifth of a millisecond to fetch, and about as long to receive the batch from another process."""
    fetches = tuple(fetch(number * 3, cpu=0.2, batch_bytes=60_000) for number in range(40))
    assert codes(explained(process(data_ms=0.21, forward_ms=2.8, loaders=(loader(fetches=fetches),)))) == []


def test_few_workers() -> None:
    made = workers(2, 120, cpu=110, blocked=8)
    run = process(
        data_ms=30, loaders=(loader(num_workers=2, pids=(200, 201), wait_ns=1),), **{**TRAINING, "forward_ms": 5}
    )
    explanation = explained(run, workers=made)
    assert codes(explanation)[0] == "few-workers"
    change = only(explanation, "few-workers").change
    assert change is not None
    assert "num_workers=4" in change.diff


def test_few_workers_are_enough_if_they_are_idle() -> None:
    made = workers(2, 70, cpu=10)
    run = process(data_ms=0.5, loaders=(loader(num_workers=2, pids=(200, 201)),), **TRAINING)
    assert codes(explained(run, workers=made)) == []


def busy(run: Process, cores: float) -> Process:
    """The same process while others keep so many cores busy."""
    first, last = run.counters
    return with_counters(run, machine_busy_ticks=round(cores * (last.at_ns - first.at_ns) / 1e7))


def test_workers_come_before_making_samples_cheaper() -> None:
    """On two cores with other work: what the workers leave to wait for costs more than they save, but it is what is left with them."""
    fetches = tuple(fetch(number * 29, cpu=24) for number in range(40))
    run = process(data_ms=24, cpu_ms=29, cores=2, loaders=(loader(fetches=fetches, wait_ns=1),), forward_ms=5)
    explanation = explained(busy(run, 0.8))
    assert codes(explanation)[:2] == ["no-workers", "slow-preparing"]
    workers_ms, samples_ms = (only(explanation, code).cost_ms for code in ("no-workers", "slow-preparing"))
    assert workers_ms < samples_ms
    assert workers_ms + samples_ms == pytest.approx(24, rel=0.01)  # the one is on top of the other


def test_more_workers_come_before_making_samples_cheaper() -> None:
    run = process(data_ms=25, cpu_ms=5, cores=2, loaders=(loader(num_workers=1, pids=(200,), wait_ns=1),), forward_ms=5)
    explanation = explained(busy(run, 1.5), workers=workers(1, 30, fetches=40, cpu=30, process_cpu=30))
    assert codes(explanation)[:2] == ["few-workers", "slow-preparing"]
    assert only(explanation, "few-workers").cost_ms < only(explanation, "slow-preparing").cost_ms


def test_cheaper_samples_come_first_where_workers_are_worth_little() -> None:
    run = process(
        data_ms=95, cores=16, loaders=(loader(num_workers=13, pids=tuple(range(200, 213)), wait_ns=1),), forward_ms=5
    )
    explanation = explained(run, workers=workers(13, 1300, cpu=1300))
    assert codes(explanation)[:2] == ["slow-preparing", "few-workers"]


def test_many_workers() -> None:
    made = workers(8, 90, cpu=20, queue=68)
    run = process(data_ms=10, cores=2, loaders=(loader(num_workers=8, pids=tuple(range(200, 208))),), forward_ms=1)
    assert "many-workers" in codes(explained(run, workers=made))
    enough = process(data_ms=10, cores=16, loaders=(loader(num_workers=8, pids=tuple(range(200, 208))),), forward_ms=1)
    assert "many-workers" not in codes(explained(enough, workers=made))


def test_workers_restarted() -> None:
    epochs = ((20_000_000, 200_000_000),) * 4
    made = loader(num_workers=2, epochs=epochs, wait_ns=4 * 200_000_000, pids=(200, 201))
    run = process(data_ms=20, workers_ms=2, loaders=(made,), **TRAINING)
    explanation = explained(run, workers=workers(2, 40, cpu=1))
    assert codes(explanation)[0] == "workers-restarted"
    kept = process(data_ms=0.1, loaders=(replace(made, persistent_workers=True),), **TRAINING)
    assert codes(explained(kept, workers=workers(2, 40, cpu=1))) == []


def test_slow_reading() -> None:
    made = workers(4, 160, blocked=158, cpu=1, read=4_000_000)
    run = process(data_ms=40, cores=1, loaders=(loader(num_workers=4, pids=(200, 201, 202, 203)),), forward_ms=1)
    explanation = explained(run, workers=made)
    assert "slow-reading" in codes(explanation)
    assert "reads it, in 4 worker(s)" in explanation.sentence
    assert any("read for each step" in line for line in only(explanation, "slow-reading").evidence)


def test_slow_preparing() -> None:
    made = workers(2, 80, cpu=78)
    hot = sample("data", 900, place(4, "augment"), Place(FILE, 11, "Images.__getitem__"))
    made = tuple(replace(worker, samples=(hot,)) for worker in made)
    run = process(data_ms=38, cores=2, loaders=(loader(num_workers=2, pids=(200, 201)),), forward_ms=2)
    explanation = explained(run, workers=made)
    assert codes(explanation)[0] == "slow-preparing"
    assert only(explanation, "slow-preparing").where == Place(FILE, 11, "Images.__getitem__")


def test_waiting_for_a_core_that_the_kernel_does_not_count_is_not_reading() -> None:
    run = process(data_ms=290, cores=2, loaders=(loader(num_workers=2, pids=(200, 201)),), forward_ms=10)
    busy = codes(explained(run, workers=workers(2, 600, cpu=25, blocked=29, queue=546)))
    assert "slow-reading" not in busy
    assert "slow-preparing" in busy
    assert "slow-reading" in codes(explained(run, workers=workers(2, 600, cpu=25, blocked=300, queue=275)))


def test_slow_transfer() -> None:
    made = workers(2, 100, cpu=4)
    run = process(data_ms=30, loaders=(loader(num_workers=2, pids=(200, 201)),), **TRAINING)
    assert codes(explained(run, workers=made)) == ["slow-transfer"]


def test_collate_in_main() -> None:
    fetches = tuple(fetch(number * 60, cpu=20, collate=18.0) for number in range(40))
    explanation = explained(process(data_ms=20, loaders=(loader(fetches=fetches),), **TRAINING))
    assert set(codes(explanation)) == {"no-workers", "collate-in-main"}


@pytest.mark.parametrize(
    ("phase", "what", "code"),
    [
        ("save", "torch.save", "frequent-checkpoints"),
        ("log", "SummaryWriter.add_histogram", "slow-logging"),
        ("gc", "gc.collect", "garbage-collection"),
    ],
)
def test_interruptions(phase: str, what: str, code: str) -> None:
    explanation = explained(process(**{**TRAINING, f"{phase}_ms": 30.0}, calls=(call(phase, what, 30),)))
    assert codes(explanation) == [code]
    assert only(explanation, code).where == place(33)
    little = process(**{**TRAINING, f"{phase}_ms": 1.0}, calls=(call(phase, what, 1),))
    assert codes(explained(little)) == []


def test_much_validation() -> None:
    stack = (Place(FILE, 50, "Model.forward"), Place(FILE, 70, "validate"), place(34))
    run = process(**TRAINING, validation_ms=40, samples=(sample("validation", 900, *stack, in_model=True),))
    explanation = explained(run)
    assert codes(explanation) == ["much-validation"]
    assert only(explanation, "much-validation").where == Place(FILE, 70, "validate")
    assert codes(explained(process(**TRAINING, validation_ms=3))) == []


@pytest.mark.parametrize(
    ("function", "library", "code"),
    [
        ("f1_per_class", "numpy", "python-metrics"),
        ("after_step", "sklearn", "python-metrics"),
        ("tokenize", "", "work-between-steps"),
    ],
)
def test_python_between_steps(function: str, library: str, code: str) -> None:
    stack = (place(60, function), place(35))
    run = process(**TRAINING, between_ms=20, samples=(sample("between", 400, *stack, library=library),))
    explanation = explained(run)
    assert codes(explanation) == [code]
    assert only(explanation, code).where == place(60, function)
    assert only(explanation, code).cost_ms == pytest.approx(20, rel=0.01)


def test_a_model_that_is_written_in_python_is_no_work_between_steps() -> None:
    run = process(**TRAINING, samples=(sample("forward", 400, place(60, "Model.forward"), place(35), in_model=True),))
    assert codes(explained(run)) == []


def test_cache_emptied() -> None:
    calls = (call("cache", "torch.cuda.empty_cache", 12),)
    explanation = explained(process(**TRAINING, cache_ms=12, device="cuda", calls=calls))
    change = only(explanation, "cache-emptied").change
    assert change is not None
    assert change.diff == "-        torch.cuda.empty_cache()"
    assert codes(explained(process(**TRAINING, cache_ms=0.1, calls=calls))) == []  # on a CPU it does nothing


def test_synchronisation() -> None:
    calls = (call("sync", "Tensor.item", 30, detail="cuda"),)
    explanation = explained(process(**TRAINING, sync_ms=30, device="cuda", calls=calls))
    assert codes(explanation) == ["synchronisation"]
    assert "Only the host was measured" in explanation.notes[0]
    seldom = (call("sync", "Tensor.item", 30, count=4, detail="cuda"),)
    assert codes(explained(process(**TRAINING, sync_ms=3, device="cuda", calls=seldom))) == []


def test_blocking_copies() -> None:
    calls = (call("copy", "Tensor.to", 20, detail="pageable, blocking"),)
    run = process(**TRAINING, copy_ms=20, device="cuda", calls=calls, loaders=(loader(),))
    change = only(explained(run), "blocking-copies").change
    assert change is not None
    assert "pin_memory=True" in change.diff
    pinned = (call("copy", "Tensor.to", 20, detail="pinned, not blocking"),)
    assert codes(explained(process(**TRAINING, copy_ms=20, device="cuda", calls=pinned))) == []


def test_straggler() -> None:
    fast = process(rank=0, world=2, pid=1, forward_ms=10, backward_ms=50)
    slow = process(rank=1, world=2, pid=2, forward_ms=10, backward_ms=20, log_ms=30, calls=(call("log", "print", 30),))
    explanation = explained(fast, slow)
    assert codes(explanation)[0] == "straggler"
    assert "for rank 1" in explanation.sentence
    assert "for logging" in explanation.sentence
    assert explanation.ranks == 2
    assert codes(explained(fast, replace(fast, rank=1, pid=2))) == []


def ddp(**given: object) -> Distributed:
    logged = {
        "unused_parameter_size": 0,
        "avg_backward_comm_time": 12_000_000,
        "avg_backward_compute_comm_overlap_time": 2_000_000,
    }
    fields = {
        "where": place(40),
        "find_unused_parameters": False,
        "static_graph": False,
        "no_sync": 0,
        "logged": logged,
    }
    return Distributed(**{**fields, **given})  # type: ignore[arg-type]


def test_accumulation_without_no_sync() -> None:
    run = process(**TRAINING, backwards=4, ddp=ddp())
    finding = only(explained(run), "accumulation-without-no-sync")
    assert finding.cost_ms == pytest.approx(20)  # three of 10 ms, but no more than backward takes
    assert codes(explained(process(**TRAINING, backwards=4, ddp=ddp(no_sync=3)))) == []
    assert codes(explained(process(**TRAINING, backwards=1, ddp=ddp()))) == []


def test_find_unused_parameters() -> None:
    finding = only(explained(process(**TRAINING, ddp=ddp(find_unused_parameters=True))), "find-unused-parameters")
    assert finding.change is not None
    assert "find_unused_parameters=False" in finding.change.diff
    used = ddp(find_unused_parameters=True, logged={"unused_parameter_size": 4096})
    assert codes(explained(process(**TRAINING, ddp=used))) == []


def test_data_parallel() -> None:
    run = process(**TRAINING, device="cuda", data_parallel=DataParallel(place(40), 4))
    assert codes(explained(run)) == ["data-parallel"]
    assert codes(explained(process(**TRAINING, device="cuda", data_parallel=DataParallel(place(40), 1)))) == []


def test_oversubscribed_threads() -> None:
    run = with_counters(process(**TRAINING, torch_threads=64), queue_ns=700_000_000)
    assert codes(explained(run)) == ["oversubscribed-threads"]
    assert codes(explained(with_counters(process(**TRAINING, torch_threads=16), queue_ns=700_000_000))) == []


def test_busy_machine() -> None:
    run = with_counters(process(**TRAINING), queue_ns=700_000_000, machine_busy_ticks=2000)
    assert codes(explained(run)) == ["busy-machine"]
    assert codes(explained(with_counters(process(**TRAINING), machine_busy_ticks=2000))) == []  # there are cores enough


def test_the_load_of_others_is_reported_last() -> None:
    run = process(**TRAINING, log_ms=5, calls=(call("log", "print", 5),))
    run = with_counters(run, queue_ns=1_200_000_000, machine_busy_ticks=2000)
    assert codes(explained(run)) == ["slow-logging", "busy-machine"]


def test_cpu_limit() -> None:
    run = with_counters(process(**TRAINING, cpu_quota=2.0), throttled_us=500_000)
    assert codes(explained(run)) == ["cpu-limit"]
    assert (
        codes(explained(with_counters(process(**TRAINING), throttled_us=500_000))) == []
    )  # of a group without a limit


def test_swapping() -> None:
    run = with_counters(process(**TRAINING), swap_in=100_000, memory_stall_us=600_000)
    assert codes(explained(run)) == ["swapping"]
    assert codes(explained(with_counters(process(**TRAINING), swap_in=100))) == []


def test_too_few_steps_are_not_explained() -> None:
    explanation = explained(process(2, **TRAINING))
    assert explanation.step is None
    assert "Only 2 steps were seen" in explanation.sentence


def test_a_script_without_steps_says_where_the_time_went() -> None:
    run = replace(process(2, **TRAINING), steps=(), samples=(sample("between", 3000, place(12, "download")),))
    assert explained(run).sentence == (
        "No step was seen: no optimizer has stepped. Most of the time was spent in download (train.py:12) (3 s)."
    )


def test_no_python_at_all() -> None:
    assert "started no Python" in explain(replace(evidence(), pythons=0)).sentence
