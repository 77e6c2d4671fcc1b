"""Rules about torch.compile: compiling again and again, and graphs that break."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms
from ownlab.instruments.why.gpu.records import Compilation, GpuEvidence
from ownlab.instruments.why.places import Place
from ownlab.instruments.why.records import Finding
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.rules.gpu_launches import idle_between_kernels
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["GraphBreaks", "Recompilation"]

_LONGEST_REASON = 160


def _in_steady_steps(model: StepModel, evidence: GpuEvidence) -> list[Compilation]:
    """Compilations within the steps that the mean is made of."""
    system, own = evidence.clock
    found = []
    for each in evidence.compilation.compiled:
        begin = own + (each.at * 1e9 - system)
        if any(step[0] <= begin < step[0] + step[1] for step in model.steps):
            found.append(each)
    return found


class Recompilation(Rule):
    """torch.compile compiles again during the training.

    **Why it matters.** Compiled code is made for the shapes, types and Python values of its first call. If a length, a batch or an argument
    differs, it is compiled again, which takes seconds to minutes; after `recompile_limit` (8) the function runs uncompiled.

    **What to do.** Give it always the same shapes: `drop_last=True` in the DataLoader, pad lengths to a few sizes. Or mark what changes
    with `torch._dynamo.mark_dynamic(tensor, dim)`, or compile with `dynamic=True`. `TORCH_LOGS=recompiles` prints each reason.

    **Sources.** The compilations that torch itself has timed, in the steps that the mean is made of. A run that is longer than what
    was measured may have compiled all shapes at some time. What an earlier run has compiled is in torch's cache on disk: then a compilation takes a tenth of a
    second instead of several, and the finding says so. Such a run gains less than one with an empty cache.
    """

    code = "recompilation"
    title = text("torch.compile compiles again during the training")

    def check(self, case: Case) -> Iterable[Finding]:
        """Add up the time of compilations after the first steps."""
        model, evidence = case.model, case.model.process.gpu
        if evidence is None or not evidence.compilation.used:
            return
        compiled = _in_steady_steps(model, evidence)
        seconds = sum(each.seconds for each in compiled)
        cost = min(seconds * 1e3 / model.count, model.step_ms)
        if cost < LOWEST_SHARE * model.step_ms:
            return
        longest = max(compiled, key=lambda each: each.seconds)
        where = Place(longest.file, longest.line, longest.function) if longest.line else None
        reasons = dict.fromkeys(each.reason.splitlines()[0][:_LONGEST_REASON] for each in compiled if each.reason)
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{cost} of each step compile: {function} was compiled {count} times in {steps} steps.",
                cost=format_ms(cost),
                function=longest.function or text("the model"),
                count=len(compiled),
                steps=model.count,
            ),
            evidence=[
                text("{time} for each compilation", time=format_ms(seconds * 1e3 / len(compiled))),
                *(
                    [
                        text(
                            "{count} of the graphs were in torch's cache on disk: on another machine each takes seconds to compile",
                            count=evidence.compilation.cached,
                        )
                    ]
                    if evidence.compilation.cached
                    else []
                ),
                *(text("because {reason}", reason=reason) for reason in list(reasons)[:2]),
            ],
            meaning=text("Shapes or values of the arguments differ from those that were compiled for."),
            advice=[
                text("Pad to a few fixed lengths, set drop_last=True, or compile with dynamic=True."),
                text("See each reason: TORCH_LOGS=recompiles python train.py"),
            ],
            where=where,
            after=model.band(model.step_ms - cost),
        )


class GraphBreaks(Rule):
    """torch.compile has to leave its graph within a step.

    **Why it matters.** What it cannot compile runs in Python, and the model is divided into several graphs at that place. Between them nothing
    is fused, and the GPU waits for the host.

    **What to do.** Move printing, `.item()`, data-dependent `if` and calls of other libraries out of the model's forward pass. `TORCH_LOGS=graph_breaks`
    shows each place; `torch.compile(model, fullgraph=True)` makes a break an error.

    **Sources.** The counters of torch._dynamo, and the idle time between kernels. What the breaks alone cost is not known: the band
    reaches from all of that idle time to none. Not yet tried on a GPU.
    """

    code = "graph-breaks"
    title = text("torch.compile leaves its graph within a step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for breaks while the GPU waits between kernels."""
        model, evidence = case.model, case.model.process.gpu
        lost = idle_between_kernels(model)
        if evidence is None or not evidence.compilation.breaks or lost < 2 * LOWEST_SHARE * model.step_ms:
            return
        breaks = sorted(evidence.compilation.breaks.items(), key=lambda item: -item[1])
        yield self.finding(
            case,
            cost_ms=lost / 2,
            headline=text(
                "The compiled model leaves its graph at {count} places, and the GPU is idle {lost} between its kernels.",
                count=sum(count for _, count in breaks),
                lost=format_ms(lost),
            ),
            evidence=[
                text("because {reason}", reason=reason.splitlines()[0][:_LONGEST_REASON]) for reason, _ in breaks[:3]
            ],
            meaning=text("Each part is launched by itself, with Python between them."),
            advice=[text("See each place: TORCH_LOGS=graph_breaks python train.py")],
            after=(model.step_ms - lost, model.step_ms),
        )
