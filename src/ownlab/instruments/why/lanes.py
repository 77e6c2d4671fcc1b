"""The picture of a typical step: what the training process and the workers of its DataLoader did at each moment of it."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.records import Lane, Segment
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["typical_lanes"]

_MOST_WORKERS = 8
# The spans of the training thread by what is shown for them.
_SHOWN = {"update": "other", "between": "other"}


def typical_lanes(model: StepModel) -> tuple[Lane, ...]:
    """Return the lanes of the recorded step that is nearest to the mean in every part, or none if its spans are not kept."""
    process = model.process
    if not process.spans:
        return ()
    oldest = process.spans[0][0]
    kept = [step for step in model.steps if step[0] >= oldest]
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
    for worker in model.workers[:_MOST_WORKERS]:
        fetches = ((fetch.begin, fetch.begin + fetch.wall, "fetch") for fetch in worker.fetches)
        lanes.append(Lane(text("worker {number}", number=worker.worker), _segments(fetches, begin, end)))
    return tuple(lanes)


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
