"""Rules about Python in the training process that no hook knows: found by samples of its stack."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_place, format_share
from ownlab.instruments.why.records import Finding
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.rules.device_waits import synchronising_functions
from ownlab.instruments.why.rules.metric_names import is_metric
from ownlab.instruments.why.step_model import Work
from ownlab.text import text

__all__ = ["PythonMetrics", "WorkBetweenSteps"]


def _evidence(work: Work, case: Case) -> list[str]:
    line = case.code.line(work.where)
    lines = [text("{place}: {line}", place=format_place(work.where), line=line)] if line else []
    if work.library:
        lines.append(text("it runs in {library}, called as {call}", library=work.library, call=work.call or "?"))
    return [*lines, text("seen in {count} samples of the stack", count=_samples(work, case))]


def _samples(work: Work, case: Case) -> int:
    function = (work.where.file, work.where.function)
    return sum(
        sample.count
        for sample in case.model.process.samples
        if sample.phase == work.phase and function in [(place.file, place.function) for place in sample.stack]
    )


class PythonMetrics(Rule):
    """Metrics are computed in Python or NumPy at each step.

    **Why it matters.** Accuracy, F1 or a confusion matrix on the CPU needs the predictions there, so the GPU waits, and loops over
    samples in Python take longer than the step itself.

    **What to do.** Keep predictions as tensors, compute with tensor operations, and compute metrics that need all of them once in
    an epoch.

    **Sources.** Samples of the stack of the training thread, outside of the model and of everything that is measured by itself.
    """

    code = "python-metrics"
    title = text("Metrics are computed in Python at each step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for functions that are called after metrics, and libraries of metrics."""
        model = case.model
        metrics = [work for work in model.work if is_metric(work)]
        cost = sum(work.ms for work in metrics)
        if cost < LOWEST_SHARE * model.step_ms:
            return
        work = metrics[0]
        inner, waits = model.within(metrics)
        yield self.finding(
            case,
            cost_ms=cost + inner + waits.ms,
            headline=text(
                "{cost} of each step compute metrics in Python: {where}.",
                cost=format_ms(cost),
                where=format_place(work.where),
            ),
            evidence=_evidence(work, case),
            meaning=text("The training process computes metrics before it goes on."),
            advice=[text("Compute them with tensor operations, and not at every step.")],
            where=work.where,
            after=model.without(cost + inner, waits),
        )


class WorkBetweenSteps(Rule):
    """The training process does other work in Python between the parts of a step.

    **Why it matters.** What runs in the training process, and is no part of the model, adds to every step: making batches without
    a DataLoader, tokenising, augmenting, copying, waiting for a service.

    **What to do.** Move the preparation of data into the workers of a DataLoader. Vectorise loops. Do what is not needed at each step
    less often.

    **Sources.** Samples of the stack of the training thread, outside of the model and of everything that is measured by itself.
    """

    code = "work-between-steps"
    title = text("The training process does other work between the parts of a step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Report each function of the user that takes a noticeable part of a step."""
        model = case.model
        waiting = synchronising_functions(model) if model.gpu is not None else set()
        others = [work for work in model.work if not is_metric(work)]
        for work in [work for work in others if (work.where.file, work.where.function) not in waiting][:3]:
            if work.ms < LOWEST_SHARE * model.step_ms:
                return
            where = format_place(work.where)
            inner, waits = model.within([work])
            yield self.finding(
                case,
                cost_ms=work.ms + inner + waits.ms,
                headline=text(
                    "{cost} of each step are Python outside of the model: {where}.",
                    cost=format_ms(work.ms),
                    where=where,
                ),
                evidence=_evidence(work, case),
                meaning=text(
                    "Nothing is trained while this runs: {share} of a step.",
                    share=format_share(work.ms / model.step_ms),
                ),
                advice=[text("Move it into the workers of a DataLoader, vectorise it, or do it less often.")],
                where=work.where,
                after=model.without(work.ms + inner, waits),
            )
