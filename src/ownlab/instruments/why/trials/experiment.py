"""`ownlab why --try`: measures the script as it is, then each promising change, then the best together, within a budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ownlab.instruments.why.code_change import CodeChanges
from ownlab.instruments.why.explanation import FEWEST_STEPS, explain
from ownlab.instruments.why.formatting import format_ms
from ownlab.instruments.why.records import Evidence, Explanation, Finding, Trial, Trials
from ownlab.instruments.why.rule import LOWEST_SHARE, Case
from ownlab.instruments.why.rules.device_waits import BlockingCopies
from ownlab.instruments.why.step_model import StepModel, main_process
from ownlab.instruments.why.trials.candidates import Candidate, candidates_for, gpu_note, merge
from ownlab.instruments.why.trials.code_edits import edit_code
from ownlab.instruments.why.trials.comparison import (
    MeasuredRun,
    combine,
    compare_losses,
    compare_speed,
    measure_run,
)
from ownlab.instruments.why.trials.trial_run import TrialRun, run_trial
from ownlab.text import Text, listing, sentences, text

__all__ = ["Experiment", "Tried", "try_changes"]

# Changes of less are not told from chance.
_FASTER = 1.02
# A change that looks promising, but might be chance, is measured once more.
_PROMISING = 1.05
# The first run may take this part of the budget.
_FIRST_SHARE = 0.4
# What a run of a trial may take, compared with the first one; compiling takes minutes by itself.
_LONGER = 3.0
_SLACK_SECONDS = 20.0
_COMPILE_SECONDS = 180.0
# Findings whose remedy is an edit of what the script does.
_OTHER_WORK = frozenset(
    {
        *("frequent-checkpoints", "slow-logging", "much-validation", "python-metrics", "work-between-steps"),
        *(
            "periodic-work",
            "small-micro-batches",
            "anomaly-detection",
            "profiler-on",
            "double-precision",
            "recompilation",
        ),
        *("unfused-attention", "small-batch", "slow-preparing"),
        *("synchronisation", "straggler", "accumulation-without-no-sync", "data-parallel", "slow-transfer"),
    }
)
_MOST_LISTED = 20


class Tried(NamedTuple):
    """The outcome: the explanation with its trials, and what the first run printed last."""

    explanation: Explanation
    output: str


class Experiment(NamedTuple):
    """What the user asked for."""

    command: tuple[str, ...]
    steps: int
    budget: float  # seconds
    not_isolated: str  # why there is no throw-away copy of the file systems, or ""
    allow_writes: bool
    report: Callable[[str], None]  # shows progress

    @property
    def isolated(self) -> bool:
        """Whether the script's writes are thrown away."""
        return not self.not_isolated


def try_changes(experiment: Experiment) -> Tried:
    """Measure the script as it is, and with changes."""
    began = time.monotonic()
    experiment.report(text("Measuring {steps} steps of the script as it is …", steps=experiment.steps))
    first = run_trial(
        experiment.command,
        {},
        steps=experiment.steps,
        seconds=experiment.budget * _FIRST_SHARE,
        isolated=experiment.isolated,
    )
    explanation = explain(first.evidence)
    baseline = None if first.failure else measure_run(first.evidence)
    if baseline is None:
        reason = first.failure or text("only {count} steps were seen", count=_step_count(first.evidence))
        note = text("Nothing was tried: {reason}.", reason=reason)
        return Tried(replace(explanation, notes=(note, *explanation.notes)), first.output)
    bench = _Bench(experiment, began + experiment.budget, first, baseline, explanation)
    bench.run()
    return Tried(replace(explanation, trials=bench.result(time.monotonic() - began)), first.output)


def _step_count(evidence: Evidence) -> int:
    process = main_process(evidence)
    return 0 if process is None else len(process.steps)


class _Outcome(NamedTuple):
    """What became of a candidate."""

    runs: tuple[MeasuredRun, ...] = ()
    failure: str = ""
    untried: str = ""


class _Bench:
    """Runs the trials one after the other."""

    def __init__(
        self, experiment: Experiment, end: float, first: TrialRun, baseline: MeasuredRun, explanation: Explanation
    ) -> None:
        self._experiment, self._end, self._first = experiment, end, first
        self._baseline = [baseline]
        self._findings = explanation.findings
        process = main_process(first.evidence)
        assert process is not None
        model = StepModel(process, first.evidence.workers)
        self._code = CodeChanges(first.evidence.snippets)
        self._case = Case(model, tuple(_ranks(first.evidence)), first.evidence, self._code)
        self._candidates = candidates_for(self._case, explanation)
        self._outcomes: dict[str, _Outcome] = {}
        self._together: tuple[tuple[Candidate, ...], _Outcome] | None = None

    def run(self) -> None:
        """Try everything that the budget allows."""
        if not self._experiment.isolated and not self._experiment.allow_writes:
            reason = text("the script's writes cannot be thrown away here, and --allow-writes was not given")
            self._outcomes = {each.code: _Outcome(untried=reason) for each in self._candidates}
            return
        for number, candidate in enumerate(self._candidates, 1):
            head = text("[{number}/{count}] {title}", number=number, count=len(self._candidates), title=candidate.title)
            # In a short budget one change is measured rather than none.
            measured = any(outcome.runs for outcome in self._outcomes.values())
            self._outcomes[candidate.code] = self._try((candidate,), head, reserved=2 if measured else 0)
        if self._has_time(1, 0.0) and any(outcome.runs for outcome in self._outcomes.values()):
            again = self._measure((), text("The script as it is, once more"))
            self._baseline += again.runs
        self._repeat_unclear()
        best = self._best()
        if len(best) > 1:
            titles = listing([candidate.title for candidate in best])
            self._together = best, self._try(best, text("Together: {titles}", titles=titles), reserved=0)

    def _try(self, candidates: Sequence[Candidate], head: str, *, reserved: int) -> _Outcome:
        """Measure once, unless the time that is left is needed for `reserved` further runs."""
        extra = _COMPILE_SECONDS if any(each.slow_start for each in candidates) else 0.0
        if not self._has_time(1 + reserved, extra):
            return _Outcome(untried=text("the budget of time was used up"))
        return self._measure(candidates, head, extra)

    def _has_time(self, runs: int, extra: float) -> bool:
        return self._end - time.monotonic() > runs * self._first.seconds + extra

    def _measure(self, candidates: Sequence[Candidate], head: str, extra: float = 0.0) -> _Outcome:
        seconds = min(self._end - time.monotonic(), _LONGER * self._first.seconds + _SLACK_SECONDS + extra)
        experiment = self._experiment
        ran = run_trial(
            experiment.command,
            merge(candidates),
            steps=experiment.steps,
            seconds=seconds,
            isolated=experiment.isolated,
        )
        measured = None if ran.failure else measure_run(ran.evidence)
        if measured is None:
            failure = ran.failure or text("too few steps were seen")
            experiment.report(text("{head}: failed", head=head))
            return _Outcome(failure=failure)
        factor = self._baseline[0].step_ms / measured.step_ms
        time_of_step = format_ms(measured.step_ms)
        experiment.report(text("{head}: {time} (×{factor:.2f})", head=head, time=time_of_step, factor=factor))
        return _Outcome(runs=(measured,))

    def _repeat_unclear(self) -> None:
        """Measure once more what looks faster, and might be chance."""
        for candidate in self._candidates:
            outcome = self._outcomes[candidate.code]
            trial = self._trial(candidate.code, candidate.title, (candidate,), outcome)
            unclear = trial.status == "same" and (trial.speedup or 0.0) >= _PROMISING
            if unclear and not candidate.slow_start and self._has_time(2, 0.0):
                again = self._measure((candidate,), text("{title}, once more", title=candidate.title))
                if again.runs:
                    self._outcomes[candidate.code] = outcome._replace(runs=(*outcome.runs, *again.runs))

    def _best(self) -> tuple[Candidate, ...]:
        """Of each group the fastest one that is safe."""
        best: dict[str, tuple[float, Candidate]] = {}
        for candidate in self._candidates:
            trial = self._trial(candidate.code, candidate.title, (candidate,), self._outcomes[candidate.code])
            factor = trial.speedup or 0.0
            if trial.status == "faster" and factor > best.get(candidate.group, (0.0, candidate))[0]:
                best[candidate.group] = factor, candidate
        return tuple(candidate for _, candidate in sorted(best.values(), key=lambda each: -each[0]))

    # --- the record ---------------------------------------------------------------------------------------------------

    def _trial(self, code: str, title: str, candidates: Sequence[Candidate], outcome: _Outcome) -> Trial:
        if not outcome.runs:
            status, reason = ("failed", outcome.failure) if outcome.failure else ("untried", outcome.untried)
            return Trial(code=code, title=title, status="failed" if status == "failed" else "untried", reason=reason)
        after = combine(outcome.runs)
        factor, band = compare_speed(combine(self._baseline), after)
        moves_random = any(candidate.moves_random for candidate in candidates)
        seen = [compare_losses(self._baseline, run, moves_random=moves_random) for run in outcome.runs]
        is_safe, loss = next((each for each in seen if not each[0]), seen[0])
        changes, advice = edit_code([edit for each in candidates for edit in each.edits], self._code)
        faster: str = "faster" if band[0] > _FASTER else "slower" if band[1] < 1 / _FASTER else "same"
        trial = Trial(
            code=code,
            title=title,
            status="same",
            step_ms=round(after.step_ms, 3),
            speedup=round(factor, 3),
            speedup_band=(round(band[0], 3), round(band[1], 3)),
            loss=loss,
            changes=changes,
            advice=advice,
        )
        if not is_safe:
            return replace(trial, status="unsafe", reason=loss)
        return replace(trial, status=faster)

    def result(self, spent: float) -> Trials:
        """Return the record of all trials."""
        trials = [
            self._trial(each.code, each.title, (each,), self._outcomes.get(each.code, _Outcome()))
            for each in self._candidates
        ]
        trials.sort(key=lambda trial: -(trial.speedup or 0.0))
        together = None
        if self._together is not None:
            chosen, outcome = self._together
            together = self._trial("together", listing([each.title for each in chosen]), chosen, outcome)
        before = combine(self._baseline)
        facts = self._case.model.process.trial
        notes = self._notes()
        return Trials(
            sentence=_sentence(before.step_ms, trials, together, notes),
            budget_seconds=self._experiment.budget,
            spent_seconds=round(spent, 1),
            steps=self._experiment.steps,
            isolated=self._experiment.isolated,
            baseline_ms=round(before.step_ms, 3),
            baseline_band_ms=(round(before.band_ms[0], 3), round(before.band_ms[1], 3)),
            trials=tuple(trials),
            together=together,
            network=facts.network if facts is not None else (),
            notes=tuple(notes),
        )

    def _notes(self) -> list[str]:
        facts = self._case.model.process.trial
        notes = [gpu_note(self._case), *_not_applied(self._findings), *_copies_note(self._findings, self._candidates)]
        if not self._experiment.isolated:
            notes.append(_writes_note(self._experiment, facts.written if facts is not None else ()))
        if facts is not None and facts.network:
            listed = listing(facts.network[:_MOST_LISTED])
            notes.append(text("Each run connected to {addresses}: what it sent there is not undone.", addresses=listed))
        return [note for note in notes if note]


def _ranks(evidence: Evidence) -> Iterable[StepModel]:
    for process in evidence.processes:
        if len(process.steps) > FEWEST_STEPS and process.rank is not None:
            yield StepModel(process, evidence.workers)


def _not_applied(findings: Iterable[Finding]) -> list[str]:
    """Findings that need an edit which only the user can make."""
    titles = [each.title for each in findings if each.code in _OTHER_WORK and each.share >= LOWEST_SHARE]
    if not titles:
        return []
    return [text("Not tried, because it changes what the script does: {titles}.", titles=listing(titles))]


def _copies_note(findings: Iterable[Finding], candidates: Iterable[Candidate]) -> list[str]:
    """Copies that no DataLoader makes cannot be pinned from outside: the script makes their tensors itself."""
    if not any(each.code == BlockingCopies.code for each in findings) or any(
        each.code == "pin-memory" for each in candidates
    ):
        return []
    return [
        text(
            "Not tried: pinned copies. The script makes the tensors that it copies itself, without a DataLoader; pin them where they are made (tensor.pin_memory()), and copy with non_blocking=True."
        )
    ]


def _writes_note(experiment: Experiment, written: Sequence[str]) -> Text:
    listed = listing(written[:_MOST_LISTED]) if written else text("nothing that Python has seen")
    first = text(
        "A throw-away copy of the file systems is not possible here: {reason}.", reason=experiment.not_isolated
    )
    second = text("The script wrote: {paths}.", paths=listed)
    if experiment.allow_writes:
        return sentences(first, second, text("Each run wrote it again."))
    return sentences(first, second, text("If it may write that again for each change: add --allow-writes."))


def _sentence(before_ms: float, trials: Sequence[Trial], together: Trial | None, notes: Sequence[str]) -> Text:
    safe = [trial for trial in (*trials, together) if trial is not None and trial.status == "faster"]
    best = max(safe, key=lambda trial: trial.speedup or 0.0, default=None)
    if best is None or best.step_ms is None or best.speedup is None or best.speedup_band is None:
        if not trials and notes:
            return text(
                "Nothing was tried: no change that can be applied from outside fits what was found. See the notes."
            )
        if not any(trial.step_ms for trial in trials):
            return text("No change was measured.")
        return text("No change that was tried makes a step faster than {now}.", now=format_ms(before_ms))
    return text(
        "Measured: with {title} a step takes {after} instead of {before} (×{factor:.2f}, ×{low:.2f} to ×{high:.2f}).",
        title=best.title,
        after=format_ms(best.step_ms),
        before=format_ms(before_ms),
        factor=best.speedup,
        low=best.speedup_band[0],
        high=best.speedup_band[1],
    )
