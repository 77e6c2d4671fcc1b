"""Traces of a GPU, made in Kineto's format, and files that are none."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.instruments.why.trace.made_traces import MadeTrace, waits_for_data

from ownlab.errors import InputError, NotRecognised
from ownlab.instruments.why.records import Explanation
from ownlab.instruments.why.trace.event_stream import EventStream
from ownlab.instruments.why.trace.explanation import explain_trace
from ownlab.instruments.why.trace.intervals import IntervalCollector, common, length, without


def explained(made: MadeTrace, folder: Path) -> Explanation:
    return explain_trace(made.write(folder))


def codes(explanation: Explanation) -> list[str]:
    return [finding.code for finding in explanation.findings]


def busy(made: MadeTrace) -> MadeTrace:
    """A card that works all the time, and a host that always does something for it."""
    return made.host("cpu_op", "aten::mm", 0, 100_000).gpu("sgemm", 0, 100_000)


def test_waiting_for_data(tmp_path: Path) -> None:
    explanation = explained(waits_for_data(), tmp_path)
    assert codes(explanation)[0] == "trace-data-wait"
    assert explanation.sentence.startswith(
        "A step takes 100 ms; the GPU works 30 ms of it (30 %). 60 ms of a step wait for"
    )
    step, finding = explanation.step, explanation.findings[0]
    assert step is not None
    assert (step.count, step.step_ms, step.gpu_ms) == (9, 100.0, 30.0)
    assert (step.parts_ms["data"], step.parts_ms["optimizer"]) == (60.0, 10.0)
    assert finding.cost_ms == 60
    assert finding.step_ms_after == (38.0, 42.0)
    assert explanation.trace is not None
    assert explanation.trace.idle_ms == {"data": 60.0, "forward": 5.0, "python": 5.0}
    assert explanation.trace.kernels[0].name == "sm90_conv"


def test_data_that_comes_in_time_is_no_finding(tmp_path: Path) -> None:
    made = busy(MadeTrace()).host(
        "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30_000
    )
    assert codes(explained(made, tmp_path)) == []


def test_a_card_that_works_all_the_time_has_no_finding(tmp_path: Path) -> None:
    explanation = explained(busy(MadeTrace()), tmp_path)
    assert codes(explanation) == []
    assert "the GPU works 100 ms of it (100 %). Nothing was found" in explanation.sentence


def test_synchronisation(tmp_path: Path) -> None:
    made = (
        MadeTrace().host("cpu_op", "aten::mm", 0, 40_000).host("cuda_runtime", "cudaStreamSynchronize", 40_000, 20_000)
    )
    made.host("cpu_op", "aten::item", 40_000, 20_000).host("cpu_op", "aten::mm", 60_000, 40_000)
    made.gpu("long_kernel", 0, 60_000).gpu("other_kernel", 90_000, 10_000)
    explanation = explained(made, tmp_path)
    assert codes(explanation) == ["trace-synchronisation"]
    assert explanation.findings[0].cost_ms == 30
    assert "item()" in " ".join(explanation.findings[0].evidence)


def test_launch_bound(tmp_path: Path) -> None:
    made = MadeTrace().host("cpu_op", "aten::add", 0, 100_000)
    for number in range(100):
        made.host("cuda_runtime", "cudaLaunchKernel", number * 1000, 5).gpu("tiny", number * 1000 + 10, 8)
    assert codes(explained(made, tmp_path)) == ["trace-launch-bound"]


def test_pageable_copies_and_allocations(tmp_path: Path) -> None:
    made = MadeTrace().host("cpu_op", "aten::to", 0, 100_000).gpu("sgemm", 30_000, 70_000)
    made.gpu("Memcpy HtoD (Pageable -> Device)", 0, 20_000, "gpu_memcpy", bytes=64_000_000)
    made.host("cuda_runtime", "cudaMalloc", 20_000, 6_000).host("cuda_runtime", "cudaFree", 26_000, 4_000)
    explanation = explained(made, tmp_path)
    assert codes(explanation) == ["trace-pageable-copies", "trace-allocations"]
    assert explanation.trace is not None
    assert (explanation.trace.copies[0].count, explanation.trace.copies[0].bytes) == (10, 640_000_000)
    assert "61 MiB a step, 3 GiB/s" in explanation.findings[0].evidence[0]


def test_host_work(tmp_path: Path) -> None:
    made = MadeTrace().host("cpu_op", "aten::mm", 0, 50_000).gpu("sgemm", 0, 60_000)
    assert codes(explained(made, tmp_path)) == ["trace-host-work"]


def test_collectives_that_nothing_hides(tmp_path: Path) -> None:
    made = busy(MadeTrace())
    hidden = made.gpu("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10_000, 40_000)
    assert codes(explained(hidden, tmp_path)) == []
    alone = MadeTrace().host("cpu_op", "aten::mm", 0, 100_000).gpu("sgemm", 0, 60_000)
    alone.gpu("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 50_000, 50_000)
    (finding,) = explained(alone, tmp_path).findings
    assert (finding.code, finding.cost_ms) == ("trace-collectives", 40)


def test_layout(tmp_path: Path) -> None:
    made = busy(MadeTrace()).gpu("void cudnn::ops::nchwToNhwcKernel<float>", 0, 12_000)
    assert codes(explained(made, tmp_path)) == ["trace-layout"]


def test_names_of_old_versions_and_of_rocm(tmp_path: Path) -> None:
    made = MadeTrace().host("Operator", "aten::mm", 0, 90_000).host("Runtime", "hipMalloc", 90_000, 10_000)
    made.gpu("sgemm", 0, 90_000, "Kernel")
    explanation = explained(made, tmp_path)
    assert codes(explanation) == ["trace-allocations"]
    assert explanation.trace is not None
    assert explanation.trace.kernels[0].count == 10


def test_steps_end_with_the_optimizer_where_the_profiler_knows_none(tmp_path: Path) -> None:
    made = waits_for_data()
    made.events = [event for event in made.events if not event["name"].startswith("ProfilerStep")]
    explanation = explained(made, tmp_path)
    assert explanation.step is not None
    assert (explanation.step.step_ms, explanation.step.count) == (100.0, 9)
    assert any("where the optimizer has stepped" in note for note in explanation.notes)


def test_a_trace_without_steps(tmp_path: Path) -> None:
    made = MadeTrace().host("cpu_op", "aten::mm", 0, 50_000)
    made.events = [event for event in made.events if not event["name"].startswith("ProfilerStep")]
    assert explained(made, tmp_path).sentence.startswith("The trace covers 950 ms, without work of a GPU.")


def test_a_trace_that_was_cut_off_is_used(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    whole = waits_for_data().text()
    path.write_text(whole[: len(whole) - 300])
    explanation = explain_trace(str(path))
    assert codes(explanation)[0] == "trace-data-wait"
    assert any("ends within" in note for note in explanation.notes)


def test_gzip_of_several_members_and_a_bare_list(tmp_path: Path) -> None:
    text = json.dumps(waits_for_data().events).encode()
    path = tmp_path / "list.json.gz"
    path.write_bytes(gzip.compress(text[:500]) + gzip.compress(text[500:]))
    assert codes(explain_trace(str(path)))[0] == "trace-data-wait"


def test_events_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    made = waits_for_data()
    odd: list[dict[str, Any]] = [
        {"ph": "X"},
        {"ph": "X", "cat": "kernel", "name": 3, "ts": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "ts": "soon"},
    ]
    made.events += [
        *odd,
        {"ph": "X", "cat": [], "name": "b", "ts": 1},
        {"ph": "X", "cat": "kernel", "name": "c", "ts": 1e400, "dur": 1},
    ]
    path = tmp_path / "odd.json"
    path.write_text(made.text().replace('"traceEvents": [', '"traceEvents": [7, null, "text", [1], '))
    assert codes(explain_trace(str(path)))[0] == "trace-data-wait"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"no trace", b'{"traceEvents": []}', b"\x1f\x8b", b'{"traceEvents": [{"ph": "X"}]}']
)
def test_a_file_that_is_no_trace(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(NotRecognised):
        explain_trace(str(path))


@pytest.mark.parametrize(
    "content",
    [
        b"\x1f\x8b" + b"rubbish" * 10,
        b'{"traceEvents": [' + b"[" * 200_000,
        b'{"traceEvents": [{"a": ' + b"x" * (40 << 20),
    ],
)
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(InputError):
        explain_trace(str(path))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    event = json.dumps(
        {
            "ph": "X",
            "cat": "python_function",
            "name": "train.py(3): step",
            "ts": 5,
            "dur": 1,
            "args": {"Python id": "x" * 400},
        }
    )
    with path.open("w") as file:
        file.write('{"traceEvents": [')
        file.writelines(event + "," for _ in range(150_000))
        file.write(event + "]}")
    assert path.stat().st_size > 70_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in EventStream(str(path))) == 150_001
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_intervals() -> None:
    collector = IntervalCollector()
    for begin, end in ((10, 20), (12, 15), (30, 40), (0, 5), (18, 25)):
        collector.add(begin, end)
    times = collector.merged()
    assert times == [(0, 5), (10, 25), (30, 40)]
    assert length(times) == 30
    assert common(times, [(4, 12), (24, 31)]) == [(4, 5), (10, 12), (24, 25), (30, 31)]
    assert without(times, [(4, 12), (24, 31)]) == [(0, 4), (12, 24), (31, 40)]
    assert without([(0, 100)], times) == [(5, 10), (25, 30), (40, 100)]
