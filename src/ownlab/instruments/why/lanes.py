"""The picture of a typical step: what the training process and the workers of its DataLoader did at each moment of it."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.gpu.gpu_lane import WORKING, GpuLane
from ownlab.instruments.why.records import Lane, Process, Segment
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["typical_lanes"]

_MOST_WORKERS = 8
# Steps around the shown one in which the GPU is looked for that is not behind the host.
_NEAR_STEPS = 30
# What is shorter on the GPU is the time between two events, and no work.
_SHORTEST_NS = 15_000
# The spans of the training thread by what is shown for them.
_SHOWN = {"update": "other", "between": "other"}


def typical_lanes(model: StepModel) -> tuple[Lane, ...]:
    """Return the lanes of the recorded step that is nearest to the mean in every part, or none if its spans are not kept."""
    process = model.process
    if not process.spans:
        return ()
    oldest = process.spans[0][0]
    kept = [step for step in model.steps if step[0] >= oldest]
    if process.gpu is not None:
        kept = _marked(process, kept)
    if not kept:
        return ()
    means = [sum(step[column] for step in model.steps) / model.count for column in range(5, len(model.steps[0]))]

    def distance(step: tuple[int, ...]) -> float:
        return abs(step[1] / 1e6 - model.step_ms) + sum(
            abs(value - mean) / 1e6 for value, mean in zip(step[5:], means, strict=True)
        )

    step = min(kept, key=distance)
    begin, end = step[0], step[0] + step[1]
    spans = ((first, last, process.phases[phase]) for first, last, phase in process.spans)
    lanes = [Lane(text("training"), _segments(spans, begin, end))]
    if model.gpu is not None:
        work = _gpu_spans(process, step, model.gpu)
        if work:
            lanes.append(Lane(text("GPU"), _segments(work, begin, end)))
    for worker in model.workers[:_MOST_WORKERS]:
        fetches = ((fetch.begin, fetch.begin + fetch.wall, "fetch") for fetch in worker.fetches)
        lanes.append(Lane(text("worker {number}", number=worker.worker), _segments(fetches, begin, end)))
    return tuple(lanes)


def _marked(process: Process, steps: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The steps that were marked on the GPU, best with the one before: the GPU may still be at it."""
    evidence = process.gpu
    indices = {row[0] for row in evidence.steps} if evidence is not None else set()
    begins = {process.steps[index][0]: index for index in indices if index < len(process.steps)}
    marked = [step for step in steps if step[0] in begins]
    return [step for step in marked if begins[step[0]] - 1 in indices] or marked or steps


def _gpu_spans(process: Process, step: tuple[int, ...], gpu: GpuLane) -> list[tuple[int, int, str]]:
    """What the GPU did around a step, on the host's clock.

    The GPU reaches a mark no earlier than the host has sent it; in the mark where it lags least, it was not behind at all.
    """
    evidence = process.gpu
    assert evidence is not None
    rows = list(evidence.steps)
    at = next((number for number, row in enumerate(rows) if process.steps[row[0]][0] == step[0]), None)
    if at is None:
        return []
    near = rows[max(0, at - _NEAR_STEPS) : at + _NEAR_STEPS + 1]
    offset = min(row[index + 2] - row[index + 1] for row in near for index in range(1, len(row), 3))
    spans = []
    for row in rows[max(0, at - 3) : at + 4]:
        for index in range(1, len(row) - 3, 3):
            phase = process.phases[row[index]]
            if phase in WORKING or phase in ("validation", "copy"):
                what = WORKING.get(phase, phase) if phase != "graph" else phase
                spans.append((row[index + 2] - offset, row[index + 5] - offset, what))
    return [span for span in spans if span[1] - span[0] > _SHORTEST_NS]


def _segments(spans: Iterable[tuple[int, int, str]], begin: int, end: int) -> tuple[Segment, ...]:
    """The parts of spans within the step, in their order, neighbours of one kind joined."""
    segments: list[Segment] = []
    for first, last, what in sorted(spans):
        if last <= begin or first >= end:
            continue
        first_ms, last_ms = (max(first, begin) - begin) / 1e6, (min(last, end) - begin) / 1e6
        what = _SHOWN.get(what, what)
        if segments and segments[-1].what == what and first_ms - segments[-1].end_ms < 0.05:
            segments[-1] = Segment(segments[-1].begin_ms, round(last_ms, 4), what)
        else:
            segments.append(Segment(round(first_ms, 4), round(last_ms, 4), what))
    return tuple(segments)
