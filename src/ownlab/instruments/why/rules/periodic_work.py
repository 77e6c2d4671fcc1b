"""The rule about work of every few steps that no hook knows: previews, samples, plots, evaluations without model.eval()."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from ownlab.instruments.why.formatting import format_ms, format_place, format_share
from ownlab.instruments.why.records import Finding, Place
from ownlab.instruments.why.rule import Case, Rule
from ownlab.instruments.why.step_model import BASES, StepModel
from ownlab.text import text

__all__ = ["PeriodicWork", "periodic_ms"]

# A step is long if the host needs so many times what it usually needs for the model and for Python.
_LONG = 1.8
_FEWEST, _MOST_ODD = 3, 0.1
# What costs less is worth its time.
_NOTABLE = 0.1
_ADVISED = 0.05


class _Bursts(NamedTuple):
    every: int  # steps
    ms: float  # of a mean step
    each_ms: float


def _bursts(model: StepModel) -> _Bursts | None:
    """Long steps at a regular distance, with what they take more of the host than the others."""
    steps, columns = (
        model.process.steps,
        [5 + model.process.phases.index(name) for name in BASES if name in model.process.phases],
    )
    skipped = len(steps) // 10
    own = {step[0]: sum(step[column] for column in columns) / 1e6 for step in steps}
    starts = [step[0] for step in steps]
    if len(starts) - skipped < 3 * _FEWEST:
        return None
    usual = statistics.median([own[start] for start in starts[skipped:]])
    longer = [own[start] for start in starts[skipped:] if own[start] > _LONG * usual]
    if len(longer) < _FEWEST:
        return None
    # Windows of the measurement and chance make single steps longer, by less.
    least = (usual + statistics.median(longer)) / 2
    long = [number for number, start in enumerate(starts) if number >= skipped and own[start] > least]
    if len(long) < _FEWEST:
        return None
    gaps = [after - before for before, after in pairwise(long)]
    every = statistics.mode(gaps)
    if every < 2 or sum(gap != every for gap in gaps) > _MOST_ODD * len(gaps):
        return None
    more = {starts[number]: own[starts[number]] - usual for number in long}
    ms = sum(more.get(step[0], 0.0) for step in model.steps) / model.count
    return _Bursts(every, ms, statistics.fmean(more.values()))


def _line(model: StepModel, bursts: _Bursts) -> Place | None:
    """The line of the training loop, other than that of the backward pass, where most of that time was seen."""
    backward = next((call.where for call in model.calls("backward") if call.where is not None), None)
    if backward is None:
        return None
    lines: dict[Place, float] = {}
    for phase in BASES:
        samples = [sample for sample in model.process.samples if sample.phase == phase]
        seen = sum(sample.ns for sample in samples)
        for sample in samples:
            place = next(
                (each for each in sample.stack if (each.file, each.function) == (backward.file, backward.function)),
                None,
            )
            if place is not None and place.line != backward.line:
                lines[place] = lines.get(place, 0.0) + sample.ns * model.phase_ms(phase) / seen
    place = max(lines, key=lambda each: lines[each], default=None)
    return place if place is not None and lines[place] >= 0.5 * bursts.ms else None


def periodic_ms(model: StepModel) -> float:
    """What such work takes of a mean step."""
    bursts = _bursts(model)
    return bursts.ms if bursts is not None and _line(model, bursts) is not None else 0.0


class PeriodicWork(Rule):
    """Every few steps the training stops for other work with the model, and that takes a noticeable part of the time.

    **Why it matters.** Drawing samples, a preview, an evaluation or a plot every 5 steps can take longer than the steps between. Nothing is
    learned meanwhile.

    **What to do.** Do it every 500 or 1000 steps, with fewer samples or fewer rounds, or in a run of its own from a checkpoint.

    **Sources.** Steps at a regular distance that need the host much longer than the others do, outside of everything that is measured by
    itself (validation, saving, logging, data, waits); and the line of the loop where the samples of the stack have seen that time.
    """

    code = "periodic-work"
    title = text("Work of every few steps takes a noticeable part of the time")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for long steps at a regular distance, and for their line."""
        model, bursts = case.model, _bursts(case.model)
        if bursts is None or bursts.ms < _NOTABLE * model.step_ms:
            return
        where = _line(model, bursts)
        if where is None or sum(work.ms for work in model.work) > 0.5 * bursts.ms:
            return  # Python of the user's own is another rule's
        share = bursts.ms / model.step_ms
        times = math.ceil(share / (1 - share) / _ADVISED) if share < 1 else 1
        line = case.code.line(where)
        yield self.finding(
            case,
            cost_ms=bursts.ms,
            headline=text(
                "Every {every} steps {place} takes {each}: {share} of the time.",
                every=bursts.every,
                place=format_place(where),
                each=format_ms(bursts.each_ms),
                share=format_share(share),
            ),
            evidence=[
                *([text("{place}: {line}", place=format_place(where), line=line)] if line else []),
                text("{cost} for each step of training", cost=format_ms(bursts.ms)),
            ],
            meaning=text("Nothing is trained while this runs: {share} of a step.", share=format_share(share)),
            advice=[text("Do it {times:.0f} times less often: then it takes 5 % of the time.", times=times)],
            where=where,
            # From none at all to the twentieth of the time that is advised.
            after=(model.without(bursts.ms)[0], model.without(bursts.ms * (1 - 1 / times))[1]),
        )
