"""Rules about the GPU on invented evidence: a run that has the cause, and a near miss."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.instruments.why.invented import FILE, SECOND, call, codes, evidence, place, process, sample
from tests.instruments.why.invented_gpu import (
    GIB,
    SETTINGS,
    Compilation,
    Compilations,
    CopyKind,
    GpuModel,
    RuntimeCalls,
    SyncLine,
    operation,
    reading,
    window,
    with_gpu,
)

from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.gpu.records import CardReading, Operation
from ownlab.instruments.why.records import Explanation, Finding, Mode, Optimizer, Process

FLOAT, BF16 = ("float", "float"), ("c10::BFloat16", "c10::BFloat16")


def explained(run: Process, cards: tuple[CardReading, ...] = ()) -> Explanation:
    return explain(replace(evidence(run), cards=cards))


def only(explanation: Explanation, code: str) -> Finding:
    (finding,) = (finding for finding in explanation.findings if finding.code == code)
    return finding


def busy(*operations: Operation, **given: Any) -> Process:
    """A step of 100 ms in which the GPU works 97 ms, and the host waits for it at the end; what is not named is elementwise."""
    host = process(forward_ms=10, backward_ms=15, optimizer_ms=5, sync_ms=70, calls=(call("sync", "Tensor.item", 70),))
    rest = operation("aten::add", 97 - sum(each.us for each in operations) / 1e3, phase="backward", count=100)
    spans = {"forward": 29, "backward": 60, "optimizer": 10, "sync": 1}
    return with_gpu(host, spans, window(*operations, rest), **given)


def test_the_first_sentence_says_how_long_the_gpu_works() -> None:
    run = with_gpu(
        process(data_ms=268, forward_ms=20, backward_ms=20, optimizer_ms=4),
        {"data": 285, "forward": 10, "backward": 14, "optimizer": 3},
        window(operation("aten::mm", 27, count=50)),
    )
    explanation = explained(run)
    assert explanation.sentence.startswith("A step takes 312 ms; the GPU works 27 ms of it (9 %).")
    assert explanation.step is not None
    assert explanation.step.gpu_idle_ms["data"] == pytest.approx(268)


def test_without_the_profilers_window_the_work_is_a_bound() -> None:
    run = with_gpu(process(data_ms=50, forward_ms=50), {"data": 60, "forward": 40}, None)
    explanation = explained(run)
    assert "the GPU works at most 40 ms of it (40 %)" in explanation.sentence
    assert any("The profiler saw no steps" in note for note in explanation.notes)


def test_a_well_used_card_is_reported_with_its_activity() -> None:
    explanation = explained(busy(), tuple(reading(number / 4) for number in range(8)))
    assert codes(explanation) == []
    assert "the card is well used" in explanation.sentence
    assert (
        "tensor cores are active 55 % of the time, and its memory is at 40 % of its bandwidth" in explanation.sentence
    )


def test_without_readings_the_distance_from_the_cards_rate_is_computed() -> None:
    """40 products of 8192³ in 80 ms are 550 TFLOPS; the card's rate is 989."""
    products = operation("aten::mm", 80, types=BF16, shapes=((8192, 8192), (8192, 8192)), count=40)
    assert "Its products reach 56 % of the card's rate" in explained(busy(products)).sentence


def test_what_the_gpus_work_hides_costs_nothing() -> None:
    """20 ms of logging in each step, while the GPU works all the time."""
    host = process(forward_ms=20, backward_ms=30, optimizer_ms=30, log_ms=20, calls=(call("log", "print", 20),))
    run = with_gpu(
        host, {"forward": 40, "backward": 40, "optimizer": 20}, window(operation("aten::mm", 99, count=3000))
    )
    assert codes(explained(run)) == []
    idle = with_gpu(
        host, {"forward": 5, "backward": 5, "optimizer": 70, "log": 20}, window(operation("aten::mm", 15, count=30))
    )
    assert "slow-logging" in codes(explained(idle))


def test_synchronisation_is_worth_what_overlap_would_save() -> None:
    host = process(
        forward_ms=20, backward_ms=20, optimizer_ms=5, sync_ms=40, calls=(call("sync", "Tensor.item", 0.4, 4000),)
    )
    spans = {"forward": 20, "backward": 22, "optimizer": 23, "sync": 20}
    run = with_gpu(host, spans, window(operation("aten::mm", 60, count=20), idle_us={"python": 1.0}))
    finding = only(explained(run), "synchronisation")
    assert finding.step_ms_after is not None
    assert finding.step_ms_after[0] < 60 < finding.step_ms_after[1]


def test_lines_that_only_the_debug_mode_sees_are_named() -> None:
    host = process(forward_ms=50, backward_ms=30, optimizer_ms=5)
    seen = window(operation("aten::mm", 40, count=20), waits_us={"sync": 45_000.0}, idle_us={"python": 1.0})
    lines = (SyncLine(place(51, "loss_of"), 72),)
    run = with_gpu(host, {"forward": 50, "backward": 30, "optimizer": 5}, seen, sync_steps=3, syncs=lines)
    finding = only(explained(run), "synchronisation")
    assert finding.where == place(51, "loss_of")
    assert "synchronises 24 times a step (sampled in 3 steps)" in " ".join(finding.evidence)


def test_calls_of_torch_around_a_synchronising_line_are_part_of_it() -> None:
    """`if isnan(gradient).any():` for each parameter: the samples see the function, and the hook the line."""
    lines = (call("sync", "Tensor.__bool__", 0.02, 8000, where=place(79, "fine")),)
    seen = (sample("update", 25, place(79, "fine"), place(), count=60),)
    host = process(forward_ms=20, backward_ms=20, update_ms=25, optimizer_ms=5, sync_ms=4, calls=lines, samples=seen)
    run = with_gpu(
        host,
        {"forward": 20, "backward": 20, "update": 25, "optimizer": 5, "sync": 4},
        window(operation("aten::mm", 24, count=900), idle_us={"launch": 1.0}),
    )
    assert codes(explained(run))[0] == "synchronisation"
    assert "work-between-steps" not in codes(explained(run))


def test_what_a_metric_waits_for_goes_away_with_it() -> None:
    """The values of the GPU are fetched for it alone: without it nothing waits, and the step is as long as the GPU works."""
    line = place(90, "mean_iou")
    waits = (call("sync", "Tensor.cpu", 30, where=line),)
    seen = (sample("between", 150, line, place(), library="numpy", call="sum", count=100),)
    host = process(forward_ms=6, backward_ms=9, optimizer_ms=1, sync_ms=30, between_ms=150, calls=waits, samples=seen)
    spans = {"forward": 10, "backward": 20, "optimizer": 1, "sync": 15, "between": 150}
    run = with_gpu(host, spans, window(operation("aten::mm", 31, count=50), idle_us={"python": 1.0}))
    explanation = explained(run)
    assert codes(explanation)[0] == "python-metrics"
    after = only(explanation, "python-metrics").step_ms_after
    assert after is not None
    assert sum(after) / 2 == pytest.approx(31, rel=0.05)


def test_a_function_that_waits_once_and_computes_for_long_is_work() -> None:
    line = place(90, "describe")
    waits = (call("sync", "Tensor.cpu", 2, where=line),)
    seen = (sample("between", 60, line, place(), count=100),)
    host = process(forward_ms=15, backward_ms=20, optimizer_ms=1, sync_ms=2, between_ms=60, calls=waits, samples=seen)
    spans = {"forward": 15, "backward": 20, "optimizer": 1, "sync": 2, "between": 60}
    run = with_gpu(host, spans, window(operation("aten::mm", 31, count=50), idle_us={"python": 1.0}))
    assert codes(explained(run))[0] == "work-between-steps"


def test_garbage_that_work_makes_is_collected_within_it() -> None:
    line = place(62, "merge")
    collected = (call("gc", "automatic", 15, where=line),)
    seen = (sample("forward", 80, line, place(), count=100), sample("gc", 15, line, place(), count=20))
    host = process(forward_ms=90, backward_ms=4, optimizer_ms=1, gc_ms=15, calls=collected, samples=seen)
    after = only(explained(host), "work-between-steps").step_ms_after
    assert after is not None
    assert sum(after) / 2 < 16  # of 110 ms the samples give the whole forward pass to it


def test_pageable_copies_are_compared_with_pinned_ones() -> None:
    copies = call("copy", "Tensor.to", 40, detail="pageable, blocking")
    before = call("copy", "Tensor.cuda", 100, 300, detail="pageable, blocking", last_step=0)
    host = process(copy_ms=40, forward_ms=5, backward_ms=10, optimizer_ms=5, calls=(copies, before))
    seen = window(
        operation("aten::mm", 18, count=20), copies=(CopyKind("Memcpy HtoD (Pageable -> Device)", 1, 10**8, 38e3),)
    )
    run = with_gpu(host, {"copy": 41, "forward": 6, "backward": 8, "optimizer": 5}, seen)
    finding = only(explained(run), "blocking-copies")
    assert finding.step_ms_after is not None
    assert finding.step_ms_after[0] < 20 < finding.step_ms_after[1]  # 18 ms of work, 2 ms of copies at 50 GB/s
    assert "40 ms of each step copy to the GPU (pageable, blocking)" in finding.headline


def test_launch_bound() -> None:
    host = process(forward_ms=30, backward_ms=50, optimizer_ms=2)
    run = with_gpu(
        host,
        {"forward": 30, "backward": 50, "optimizer": 2},
        window(operation("aten::add", 16, count=2000), short_kernels=1900),
    )
    finding = only(explained(run), "launch-bound")
    assert "to launch 2000 kernels of 8 µs" in finding.headline
    assert finding.share > 0.5
    long = with_gpu(host, {"forward": 30, "backward": 50, "optimizer": 2}, window(operation("aten::mm", 60, count=300)))
    assert "launch-bound" not in codes(explained(long))


def test_small_batch() -> None:
    host = process(forward_ms=30, backward_ms=50, optimizer_ms=2)
    seen = window(operation("aten::mm", 16, count=1200, unfilled_us=12_000.0), short_kernels=1100)
    spans = {"forward": 30, "backward": 50, "optimizer": 2}
    explanation = explained(with_gpu(host, spans, seen, peak=2 * GIB))
    assert codes(explanation)[:2] == ["small-batch", "launch-bound"]
    assert "1 % of the card's memory" in only(explanation, "small-batch").headline
    assert "small-batch" not in codes(explained(with_gpu(host, spans, seen, peak=100 * GIB)))
    many = window(operation("aten::mm", 16, count=7000, unfilled_us=12_000.0), short_kernels=6900)
    assert codes(explained(with_gpu(host, spans, many, peak=2 * GIB))) == ["launch-bound"]


def adamw(**given: Any) -> Optimizer:
    fields: dict[str, Any] = {
        "name": "AdamW",
        "fused": False,
        "foreach": False,
        "tensors": 400,
        "bytes": 4 * 10**8,
        "device": "cuda",
    }
    return Optimizer(**(fields | given))


def test_unfused_optimizer() -> None:
    host = process(forward_ms=10, backward_ms=20, optimizer_ms=40, optimizers=(adamw(where=place(21, "train")),))
    spans = {"forward": 10, "backward": 20, "optimizer": 41}
    seen = window(operation("aten::mm", 29, count=300), operation("aten::mul_", 11, phase="optimizer", count=5600))
    finding = only(explained(with_gpu(host, spans, replace(seen, idle_us={"optimizer": 1.0}))), "unfused-optimizer")
    assert "5600 kernels in each step of it" in finding.evidence
    assert finding.step_ms_after is not None
    assert finding.step_ms_after[0] < 31 < finding.step_ms_after[1]  # 10**8 parameters × 28 bytes at 3.8 TB/s: 0.7 ms
    fused = replace(with_gpu(host, spans, seen), optimizers=(adamw(fused=True),))
    assert "unfused-optimizer" not in codes(explained(fused))


def test_full_precision() -> None:
    slow = replace(SETTINGS, matmul_precision="highest", matmul_tf32=False)
    run = replace(
        busy(operation("aten::mm", 85, types=FLOAT, count=60), settings=slow), optimizers=(adamw(where=place(21)),)
    )
    finding = only(explained(run), "full-precision")
    assert finding.change is not None
    assert '+    torch.set_float32_matmul_precision("high")' in finding.change.diff.splitlines()
    assert finding.step_ms_after is not None
    best, worst = finding.step_ms_after
    assert 10 < best < 25 < worst < 45
    assert 'Or allow TF32: torch.set_float32_matmul_precision("high")' in finding.advice
    assert codes(explained(busy(operation("aten::mm", 85, types=BF16, count=60), settings=slow))) == []


def test_layout() -> None:
    convolution = operation(
        "aten::cudnn_convolution", 20, types=BF16, kernel="void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16>", count=50
    )
    seen = (convolution, operation("aten::native_batch_norm", 40, count=50))
    finding = only(explained(busy(*seen, model=GpuModel({"float32": 1}, 53, channels_last=False))), "layout")
    assert "20 ms of each step convert" in finding.headline
    assert codes(explained(busy(*seen, model=GpuModel({"float32": 1}, 53, channels_last=True)))) == []


def test_unfused_attention() -> None:
    scores = (8, 12, 2048, 2048)
    seen = (
        operation("aten::_softmax", 20, types=BF16, shapes=(scores,), count=12),
        operation("aten::masked_fill", 20, types=BF16, shapes=(scores,), count=12),
        operation("aten::bmm", 10, types=BF16, shapes=((96, 2048, 2048), (96, 2048, 64)), count=24),
        operation("aten::mm", 40, types=BF16, shapes=((8192, 768), (768, 768)), count=24),
    )
    finding = only(explained(busy(*seen)), "unfused-attention")
    assert "50 ms of each step compute attention with matrices of 2048 × 2048" in finding.headline
    made = operation("aten::bmm", 5, types=BF16, shapes=((96, 2048, 64), (96, 64, 2048)), count=12)
    masked = operation("aten::masked_fill", 20, types=BF16, shapes=(scores, (1, 1, 2048, 2048)), count=12)
    with_product = only(explained(busy(seen[0], masked, *seen[2:], made)), "unfused-attention")
    assert "55 ms of each step compute attention" in with_product.headline  # with the product that makes the scores
    assert finding.step_ms_after is not None
    assert with_product.step_ms_after is not None
    narrow, wide = (high - low for low, high in (finding.step_ms_after, with_product.step_ms_after))
    assert wide > narrow  # a mask of one matrix may be causal, and half of the pairs need not be computed
    fused = (
        operation("aten::_flash_attention_forward", 10, types=BF16, count=12),
        operation("aten::_softmax", 1, shapes=((64, 1000),)),
    )
    assert "unfused-attention" not in codes(explained(busy(*fused)))


def test_cudnn_benchmark() -> None:
    slow = operation(
        "aten::convolution_backward",
        60,
        types=BF16,
        shapes=((64, 64, 56, 56), (64, 64, 56, 56), (64, 64, 3, 3)),
        count=4,
    )
    assert "cudnn-benchmark" in codes(explained(busy(slow)))
    tried = replace(SETTINGS, cudnn_benchmark=True)
    assert "cudnn-benchmark" not in codes(explained(busy(slow, settings=tried)))
    fast = replace(slow, us=slow.us / 100)
    assert "cudnn-benchmark" not in codes(explained(busy(fast)))


def compiled(*at: float, reason: str = "tensor 'x' size mismatch at index 1. expected 248, actual 256") -> Compilations:
    """Compilations of a second each, so many seconds after the first step began."""
    return Compilations(
        used=True, compiled=tuple(Compilation(1.0 + each, 1.0, "forward", FILE, 12, reason) for each in at), breaks={}
    )


def test_recompilation() -> None:
    finding = only(explained(busy(compilation=compiled(1.0, 2.0, 3.0))), "recompilation")
    assert "forward was compiled 3 times" in finding.headline
    assert "size mismatch" in " ".join(finding.evidence)
    assert codes(explained(busy(compilation=compiled(0.0)))) == []  # in the first steps, which are no part of the mean


def test_graph_breaks() -> None:
    host = process(forward_ms=30, backward_ms=50, optimizer_ms=2)
    seen = window(operation("triton_poi_fused", 16, count=100))
    breaks = Compilations(used=True, compiled=(), breaks={"Unsupported: call of print": 2})
    run = with_gpu(host, {"forward": 30, "backward": 50, "optimizer": 2}, seen, compilation=breaks)
    assert "leaves its graph at 2 places" in only(explained(run), "graph-breaks").headline


def test_throttled() -> None:
    hot = tuple(reading(number / 4, clock=1200.0, throttle=("hw-thermal",)) for number in range(8))
    finding = only(explained(busy(), hot), "throttled")
    assert "61 % of its clocks: the hardware lowers clocks because of heat" in finding.headline
    capped = tuple(reading(number / 4, clock=1700.0, throttle=("sw-power-cap",)) for number in range(8))
    assert codes(explained(busy(), capped)) == []


def test_shared_card() -> None:
    both = tuple(reading(number / 4, processes=((100, GIB, 50.0), (4711, 8 * GIB, 48.0))) for number in range(8))
    finding = only(explained(busy(), both), "shared-card")
    assert "process 4711: 48 % of the time, 8 GiB" in finding.evidence
    others = tuple(reading(number / 4, processes=((5, GIB, 50.0), (4711, 8 * GIB, 48.0))) for number in range(8))
    assert codes(explained(busy(), others)) == []  # numbers of another namespace


def test_an_emptied_cache_costs_its_allocations_too() -> None:
    emptied = call("cache", "torch.cuda.empty_cache", 5)
    host = process(forward_ms=25, backward_ms=25, optimizer_ms=2, cache_ms=5, calls=(emptied,))
    seen = window(
        operation("aten::mm", 30, count=1500),
        runtime=(RuntimeCalls("cudaMalloc", 50, 9_000.0),),
        idle_us={"allocation": 1.0, "launch": 0.2},
    )
    run = with_gpu(host, {"forward": 25, "backward": 25, "optimizer": 2, "cache": 5}, seen)
    finding = only(explained(run), "cache-emptied")
    assert finding.cost_ms == pytest.approx(14, abs=0.5)
    assert "9 ms of each step allocate memory again (sampled)" in finding.evidence


def test_steps_of_a_window_are_no_part_of_the_mean() -> None:
    run = busy()
    long = tuple(
        (step[0], step[1] * 30, *step[2:]) if number in (20, 21) else step for number, step in enumerate(run.steps)
    )
    assert run.gpu is not None
    excluded = replace(run, steps=long, gpu=replace(run.gpu, steps=(), excluded=(20, 21)))
    step = explained(excluded).step
    assert step is not None
    assert step.step_ms == pytest.approx(100)
    assert SECOND  # the steps begin there


def test_a_compilation_from_the_cache_on_disk_is_said_to_be_one() -> None:
    """An earlier run has compiled the same: where its code is not, each compilation takes many times as long."""
    compiled = tuple(Compilation(1.5 + number, 0.2, "forward", FILE, 12, "size mismatch") for number in range(4))
    seen = window(operation("aten::mm", 20, count=10))
    for cached in (0, 5):
        run = with_gpu(
            process(forward_ms=60, backward_ms=40),
            {"forward": 60, "backward": 40},
            seen,
            clock=(0, 0),
            compilation=Compilations(used=True, compiled=compiled, breaks={}, cached=cached),
        )
        evidence = only(explained(run), "recompilation").evidence
        assert any("5 of the graphs were in torch's cache on disk" in line for line in evidence) is bool(cached)


# --- modes, float64, work of every few steps, small passes -----------------------------------------------------------------

DOUBLE = ("double", "double")


def test_products_of_float64_are_found_with_what_float32_is_worth() -> None:
    """80 ms of products that reach 55 TFLOPS in float64 take 14 ms in TF32."""
    products = operation("aten::mm", 80, types=DOUBLE, shapes=((8192, 8192), (8192, 8192)), count=4)
    run = busy(products, model=GpuModel({"float64": 1_000_000}, 0, channels_last=False))
    finding = explained(run).findings[0]
    assert finding.code == "double-precision"
    assert "80 ms of each step compute in float64." in finding.headline
    assert finding.where is not None
    assert finding.step_ms_after is not None
    assert sum(finding.step_ms_after) / 2 == pytest.approx(31, abs=3)


def test_the_line_that_has_set_the_default_type_is_named() -> None:
    products = operation("aten::mm", 80, types=DOUBLE, shapes=((8192, 8192), (8192, 8192)), count=4)
    run = replace(busy(products), modes=(Mode("float64", place(3), 40),))
    finding = only(explained(run), "double-precision")
    assert finding.where == place(3)
    assert any("set_default_dtype" in advice for advice in finding.advice)


def test_a_little_float64_is_no_finding() -> None:
    """A metric in float64 beside the model."""
    assert "double-precision" not in codes(explained(busy(operation("aten::sum", 3, types=DOUBLE))))


def with_tests(count: int, waits: int) -> Process:
    """A backward pass of 60 ms with so many tests for NaN, and so many waits for their results."""
    kernels = window(
        operation("aten::mm", 4, count=100),
        operation("aten::mm", 6, phase="backward", count=200),
        operation("aten::ne", 1, phase="backward", count=count),
        operation("aten::any", 1, phase="backward", count=count),
        waits_us={"sync": 5000.0},
    )
    host = process(forward_ms=30, backward_ms=60, optimizer_ms=2)
    lines = (SyncLine(place(40), 3 * waits),)
    return with_gpu(host, {"forward": 30, "backward": 60, "optimizer": 2}, kernels, syncs=lines, sync_steps=3)


def test_anomaly_detection_is_seen_in_the_backward_pass() -> None:
    finding = only(explained(with_tests(200, 200)), "anomaly-detection")
    assert any("200 tests for NaN" in line for line in finding.evidence)
    assert finding.step_ms_after is not None
    assert sum(finding.step_ms_after) / 2 == pytest.approx(2 + (100 + 200) * 55 / 600, rel=0.05)


def test_anomaly_detection_has_the_line_that_switched_it_on() -> None:
    run = replace(with_tests(200, 200), modes=(Mode("anomaly", place(4), 40),))
    assert only(explained(run), "anomaly-detection").where == place(4)


@pytest.mark.parametrize(("count", "waits"), [(200, 0), (10, 10)])
def test_a_few_tests_or_tests_that_nobody_waits_for_are_no_anomaly_detection(count: int, waits: int) -> None:
    assert "anomaly-detection" not in codes(explained(with_tests(count, waits)))


def test_anomaly_detection_that_was_on_for_a_few_steps_is_no_finding() -> None:
    run = replace(process(forward_ms=30, backward_ms=60), modes=(Mode("anomaly", place(4), 5),))
    assert codes(explained(run)) == []


def test_a_profiler_of_the_scripts_own_is_named() -> None:
    run = replace(process(forward_ms=30, backward_ms=60), modes=(Mode("profiler", place(7), 40),))
    finding = only(explained(run), "profiler-on")
    assert finding.where == place(7)
    assert finding.step_ms_after is None
    few = replace(run, modes=(Mode("profiler", place(7), 5),))
    assert codes(explained(few)) == []


def with_long_steps(numbers: list[int], more_ms: float, **given: Any) -> Process:
    """Steps of 10 ms; some are longer, in a line of the training loop."""
    run = process(forward_ms=4, backward_ms=5, optimizer_ms=1, **given)
    more = round(more_ms * 1_000_000)
    rows, begin = [], run.steps[0][0]
    for number, row in enumerate(run.steps):
        extra = more if number in numbers else 0
        rows.append((begin, row[1] + extra, *row[2:5], row[5] + extra, *row[6:]))
        begin += row[1] + extra
    seen = (
        sample("forward", more_ms * len(numbers), place(12, "draw"), place(35), library="torch", in_model=True),
        sample("forward", 4.0 * 40, place(14, "Net.forward"), place(28), library="torch", in_model=True),
    )
    return replace(run, steps=tuple(rows), samples=seen)


def test_work_of_every_few_steps_is_found_with_its_line() -> None:
    finding = explained(with_long_steps(list(range(4, 40, 5)), 100)).findings[0]
    assert finding.code == "periodic-work"
    assert finding.where == place(35)
    assert finding.headline.startswith("Every 5 steps train (train.py:35) takes 100 ms")
    assert finding.step_ms_after is not None
    assert finding.step_ms_after[0] == pytest.approx(10, rel=0.25)


@pytest.mark.parametrize(
    ("numbers", "more"),
    [
        ([7, 9, 20, 31, 33], 100.0),  # now and then: not by the script's own counting
        (list(range(4, 40, 5)), 3.0),  # not much longer
        ([10, 30], 100.0),  # too few to know
    ],
)
def test_irregular_short_or_few_long_steps_are_no_periodic_work(numbers: list[int], more: float) -> None:
    assert "periodic-work" not in codes(explained(with_long_steps(numbers, more)))


def accumulated(passes: int, peak: int = 1 * GIB) -> Process:
    """A step of 100 ms with so many backward passes, whose small kernels take the GPU 20 ms."""
    kernels = window(operation("aten::mm", 20, count=4000, unfilled_us=10_000.0))
    host = process(forward_ms=40, backward_ms=58, optimizer_ms=2, backwards=passes)
    return with_gpu(host, {"forward": 40, "backward": 58, "optimizer": 2}, kernels, peak=peak)


def test_small_passes_are_found_where_a_larger_one_fits() -> None:
    finding = explained(accumulated(8)).findings[0]
    assert finding.code == "small-micro-batches"
    assert "8 backward passes of 500 kernels each" in finding.headline
    assert any("8 times as large, and accumulate over 1" in advice for advice in finding.advice)
    assert finding.step_ms_after is not None
    assert 100 / 8 <= finding.step_ms_after[0] <= finding.step_ms_after[1] <= 25


@pytest.mark.parametrize(("passes", "peak"), [(1, 1), (2, 1), (8, 100)])
def test_one_pass_or_a_full_card_is_no_reason_for_larger_ones(passes: int, peak: int) -> None:
    assert "small-micro-batches" not in codes(explained(accumulated(passes, peak * GIB)))


def own_optimizer(kernels: int, name: str = "Lion") -> Process:
    """A step of 100 ms of which 40 are an optimizer with 500 tensors."""
    seen = window(
        operation("aten::mm", 40, count=500),
        operation("aten::mul_", 4, phase="optimizer", count=kernels),
    )
    host = process(
        forward_ms=25,
        backward_ms=35,
        optimizer_ms=40,
        samples=(sample("optimizer", 900, place(52, "Lion.step"), place(35)),),
        optimizers=(Optimizer(name, False, None, 500, 60_000_000, "cuda", place(39, "Lion.__init__")),),
    )
    return with_gpu(host, {"forward": 25, "backward": 35, "optimizer": 40}, seen)


def test_an_optimizer_that_takes_its_tensors_one_by_one_is_found_in_its_loop() -> None:
    finding = only(explained(own_optimizer(3500)), "unfused-optimizer")
    assert finding.headline == "Lion takes 40 ms of each step: it updates 500 tensors one by one, with 7 kernels each."
    assert finding.where == place(52, "Lion.step")
    assert any("torch._foreach_" in advice for advice in finding.advice)
    assert finding.step_ms_after is not None
    assert sum(finding.step_ms_after) / 2 == pytest.approx(61, abs=2)


def test_one_of_torch_is_given_its_argument() -> None:
    finding = only(explained(own_optimizer(3500, "RAdam")), "unfused-optimizer")
    assert finding.advice == ("Set foreach=True in RAdam.",)


def test_an_optimizer_with_few_kernels_is_not_one_by_one() -> None:
    assert "unfused-optimizer" not in codes(explained(own_optimizer(60)))


def test_waits_before_the_first_step_are_not_those_of_a_step() -> None:
    """A compiler that tries kernels waits hundreds of times; the loop's clock every 10 steps."""
    calls = (
        call("sync", "torch.cuda.synchronize", 0.1, 400, last_step=0),
        call("sync", "torch.cuda.synchronize", 70, 4, first_step=10),
    )
    host = process(forward_ms=30, backward_ms=50, optimizer_ms=5, sync_ms=15, calls=calls)
    products = operation("aten::mm", 90, types=BF16, count=40)
    run = with_gpu(host, {"forward": 30, "backward": 60, "optimizer": 10}, window(products))
    assert "synchronisation" not in codes(explained(run))
