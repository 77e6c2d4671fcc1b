"""Makes the explanation of a run from its evidence: one sentence, the findings by what they cost, a picture of a step."""

from __future__ import annotations

from ownlab.instruments.why.code_change import CodeChanges
from ownlab.instruments.why.formatting import format_ms, format_place, format_share
from ownlab.instruments.why.lanes import typical_lanes
from ownlab.instruments.why.records import Evidence, Explanation, Finding, Process, StepTimes
from ownlab.instruments.why.rule import Case
from ownlab.instruments.why.rules import RULES
from ownlab.instruments.why.rules.machine_load import BusyMachine
from ownlab.instruments.why.step_model import StepModel, main_process
from ownlab.text import Text, sentences, text

__all__ = ["FEWEST_STEPS", "explain"]

# Below this number of steady steps nothing is concluded.
FEWEST_STEPS = 3


def explain(evidence: Evidence) -> Explanation:
    """Explain a run."""
    process = main_process(evidence)
    model = None if process is None else StepModel(process, evidence.workers)
    if process is None or model is None or model.count < FEWEST_STEPS:
        return _unexplained(evidence, process)
    ranks = tuple(_ranks(evidence))
    case = Case(model, ranks, evidence, CodeChanges(evidence.snippets))
    findings = [finding for rule in RULES for finding in rule().check(case)]
    # The load of others distorts the figures of all others, but is no cause in the user's code.
    findings.sort(key=lambda finding: (finding.code == BusyMachine.code, -finding.cost_ms))
    return Explanation(
        sentence=_sentence(model, findings, len(ranks)),
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
        ),
        lanes=typical_lanes(model),
    )


def _ranks(evidence: Evidence) -> list[StepModel]:
    """The ranks of a distributed run, in their order."""
    trained = [
        process for process in evidence.processes if len(process.steps) > FEWEST_STEPS and process.rank is not None
    ]
    trained.sort(key=lambda process: process.rank or 0)
    return [StepModel(process, evidence.workers) for process in trained]


def _sentence(model: StepModel, findings: list[Finding], ranks: int) -> Text:
    figures = {
        "step": format_ms(model.step_ms),
        "training": format_ms(model.training_ms),
        "share": format_share(model.training_ms / model.step_ms),
    }
    if ranks > 1:
        first = text(
            "A step takes {step}; {training} of it train the model or wait for other ranks ({share}).", **figures
        )
    elif model.process.device == "cpu":
        first = text("A step takes {step}; {training} of it train the model ({share}).", **figures)
    else:
        first = text("A step takes {step} on the host, which spends {training} on the model ({share}).", **figures)
    if findings and findings[0].share > 0:
        return sentences(first, findings[0].headline)
    if findings:
        return sentences(first, text("Nothing was found that costs 5 % of it; see what was not measured below."))
    return sentences(first, text("Nothing was found that costs 5 % of it."))


def _notes(evidence: Evidence, process: Process, model: StepModel) -> list[str]:
    notes = []
    if process.device != "cpu":
        notes.append(
            text(
                "Only the host was measured. What the {device} device does, and when it is idle, is not known.",
                device=process.device,
            )
        )
    if model.count < 20:
        notes.append(text("Only {count} steps were measured: the figures are rough.", count=model.count))
    if not model.process.loaders:
        notes.append(text("The script uses no DataLoader of PyTorch; its own loading appears as Python."))
    return [*notes, *_problems(evidence, process)]


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
    if not process.steps:
        first = text("No step was seen: no optimizer has stepped.")
    else:
        first = text("Only {count} steps were seen: too few to explain.", count=len(process.steps))
    if waits is None or waits.where is None:
        return first
    seconds = format_ms(waits.ns / 1e6)
    return sentences(
        first, text("Most of the time was spent in {place} ({time}).", place=format_place(waits.where), time=seconds)
    )
