"""Makes the explanation of a run from its evidence: one sentence, the findings by what they cost, a picture of a step."""

from __future__ import annotations

from collections.abc import Callable

from ownlab.instruments.why.code_change import CodeChanges
from ownlab.instruments.why.formatting import format_ms, format_place, format_share
from ownlab.instruments.why.gpu.card_use import card_use
from ownlab.instruments.why.gpu.gpu_lane import GpuLane
from ownlab.instruments.why.lanes import typical_lanes
from ownlab.instruments.why.records import Evidence, Explanation, Finding, Process, StepTimes
from ownlab.instruments.why.rule import LOWEST_SHARE, Case
from ownlab.instruments.why.rules import RULES
from ownlab.instruments.why.rules.card_state import readings_of
from ownlab.instruments.why.rules.machine_load import BusyMachine
from ownlab.instruments.why.step_model import StepModel, main_process
from ownlab.text import Text, sentences, text

__all__ = ["FEWEST_STEPS", "explain"]

# Below this number of steady steps nothing is concluded.
FEWEST_STEPS = 3
# A cause in one line that costs this share of a step is named before one of the whole program that costs less than so many times as much.
_NOTABLE, _GENERAL = 0.1, 3.0


def explain(evidence: Evidence) -> Explanation:
    """Explain a run."""
    process = main_process(evidence)
    model = None if process is None else StepModel(process, evidence.workers)
    if process is None or model is None or model.count < FEWEST_STEPS:
        return _unexplained(evidence, process)
    ranks = tuple(_ranks(evidence))
    case = Case(model, ranks, evidence, CodeChanges(evidence.snippets))
    findings = [finding for rule in RULES for finding in rule().check(case)]
    if model.gpu is not None:
        findings = [finding for finding in findings if finding.share >= LOWEST_SHARE or finding.step_ms_after is None]
    findings = sorted(findings, key=_rank(findings))
    return Explanation(
        sentence=_sentence(case, findings, len(ranks)),
        findings=tuple(findings),
        notes=tuple(_notes(evidence, process, model)),
        command=evidence.command,
        exit_code=evidence.exit_code,
        device=process.device,
        ranks=max(1, len(ranks)),
        step=StepTimes(
            count=model.count,
            step_ms=model.step_ms,
            step_ms_quartiles=model.quartiles_ms,
            training_ms=model.training_ms,
            parts_ms=dict(sorted(model.parts_ms.items(), key=lambda item: -item[1])),
            gpu_ms=None if model.gpu is None else model.gpu.busy_ms,
            gpu_parts_ms={} if model.gpu is None else model.gpu.parts_ms,
            gpu_idle_ms={} if model.gpu is None else _idle(model.gpu),
        ),
        lanes=typical_lanes(model),
    )


def _rank(findings: list[Finding]) -> Callable[[Finding], tuple[bool, float, bool]]:
    """Findings by what they cost.

    The load of others distorts the figures of all others, but is no cause in the user's code. What concerns the whole program is
    harder to change than a line, and what that would be worth is less certain. A cause whose cost is what is left without another
    one follows that one, if that is worth a change.
    """
    general = {rule.code for rule in RULES if rule.general}
    follows = {rule.code: rule.follows for rule in RULES}
    in_a_line = any(finding.share >= _NOTABLE and finding.code not in general for finding in findings)

    def cost(finding: Finding) -> float:
        return finding.cost_ms / _GENERAL if in_a_line and finding.code in general else finding.cost_ms

    def rank(finding: Finding) -> tuple[bool, float, bool]:
        later = [each for each in findings if finding.code in follows[each.code]] if finding.share >= _NOTABLE else []
        return finding.code == BusyMachine.code, -max(map(cost, [finding, *later])), not later

    return rank


def _idle(gpu: GpuLane) -> dict[str, float]:
    idle = dict(gpu.idle_outside_ms)
    if gpu.idle_inside_ms is not None:
        idle["launch"] = gpu.idle_inside_ms
    return dict(sorted(idle.items(), key=lambda item: -item[1]))


def _ranks(evidence: Evidence) -> list[StepModel]:
    """The ranks of a distributed run, in their order."""
    trained = [
        process for process in evidence.processes if len(process.steps) > FEWEST_STEPS and process.rank is not None
    ]
    trained.sort(key=lambda process: process.rank or 0)
    return [StepModel(process, evidence.workers) for process in trained]


def _sentence(case: Case, findings: list[Finding], ranks: int) -> Text:
    model = case.model
    first = _first_sentence(model, ranks)
    if findings and findings[0].share > 0:
        return sentences(first, findings[0].headline)
    use = card_use(model, readings_of(model, case.evidence.cards))
    if use is not None and not findings:
        return sentences(first, use)
    if findings:
        return sentences(first, text("Nothing was found that costs 5 % of it; see what was not measured below."))
    return sentences(first, text("Nothing was found that costs 5 % of it."))


def _first_sentence(model: StepModel, ranks: int) -> Text:
    figures = {
        "step": format_ms(model.step_ms),
        "training": format_ms(model.training_ms),
        "share": format_share(model.training_ms / model.step_ms),
    }
    if ranks > 1:
        return text(
            "A step takes {step}; {training} of it train the model or wait for other ranks ({share}).", **figures
        )
    if model.process.device == "cpu":
        return text("A step takes {step}; {training} of it train the model ({share}).", **figures)
    gpu = model.gpu
    if gpu is None:
        return text("A step takes {step} on the host, which spends {training} on the model ({share}).", **figures)
    figures |= {"busy": format_ms(gpu.busy_ms), "share": format_share(gpu.busy_ms / model.step_ms)}
    if gpu.window is None:
        return text("A step takes {step}; the GPU works at most {busy} of it ({share}).", **figures)
    return text("A step takes {step}; the GPU works {busy} of it ({share}).", **figures)


def _notes(evidence: Evidence, process: Process, model: StepModel) -> list[str]:
    notes = []
    if process.device != "cpu" and model.gpu is None:
        notes.append(
            text(
                "Only the host was measured. What the {device} device does, and when it is idle, is not known.",
                device=process.device,
            )
        )
    elif model.gpu is not None and model.gpu.window is None:
        notes.append(_no_window(model.gpu))
    if model.count < 20:
        notes.append(text("Only {count} steps were measured: the figures are rough.", count=model.count))
    if not model.process.loaders:
        notes.append(text("The script uses no DataLoader of PyTorch; its own loading appears as Python."))
    long_run = model.long_run_ms
    if long_run is not None:
        notes.append(
            text(
                "Batches that were ready at the beginning made these steps shorter: in a long run one takes about {time}, which the workers need for its data.",
                time=format_ms(long_run),
            )
        )
    return [*notes, *_problems(evidence, process)]


def _no_window(gpu: GpuLane) -> Text:
    if gpu.evidence.no_profiler == "workers":
        return text(
            "The kernels were not sampled: a DataLoader starts workers during the training, and a process that has used the profiler should not fork. With persistent_workers=True they are sampled."
        )
    return text(
        "The profiler saw no steps: how long the GPU is idle between its kernels, and which they are, is not known."
    )


def _problems(evidence: Evidence, process: Process | None) -> list[str]:
    problems = process.problems if process is not None else ()
    return [*evidence.problems, *(text("Not measured: {reason}", reason=reason) for reason in problems)]


def _unexplained(evidence: Evidence, process: Process | None) -> Explanation:
    """Say why nothing can be concluded, and what is known nevertheless."""
    return Explanation(
        sentence=_reason(evidence, process),
        findings=(),
        notes=tuple(_problems(evidence, process)),
        command=evidence.command,
        exit_code=evidence.exit_code,
        device=process.device if process is not None else "",
        ranks=0,
    )


def _reason(evidence: Evidence, process: Process | None) -> Text:
    if not evidence.pythons:
        return text("Nothing was measured: the command started no Python that loads site packages.")
    if process is None and evidence.exit_code:
        return text(
            "Nothing was measured: the command failed (exit code {code}) before it trained. Its error is above.",
            code=evidence.exit_code,
        )
    if process is None and not any(each.torch for each in evidence.processes):
        return text("Nothing was measured: no process of the command has trained with PyTorch.")
    if process is None:
        return text("Nothing was measured: PyTorch was loaded, but neither backward() nor a DataLoader was used.")
    waits = max(process.samples, key=lambda sample: sample.ns if sample.where else 0, default=None)
    if not process.steps and evidence.exit_code:
        first = text(
            "The command failed (exit code {code}) before its first step was over; its error is above.",
            code=evidence.exit_code,
        )
    elif not process.steps:
        first = text("No step was seen: no optimizer has stepped.")
    else:
        first = text("Only {count} steps were seen: too few to explain.", count=len(process.steps))
    if waits is None or waits.where is None:
        return first
    seconds = format_ms(waits.ns / 1e6)
    return sentences(
        first, text("Most of the time was spent in {place} ({time}).", place=format_place(waits.where), time=seconds)
    )
