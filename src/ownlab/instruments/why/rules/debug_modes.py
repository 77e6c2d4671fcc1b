"""Rules about modes of torch that are for finding errors, and slow down every step while they are on."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_place
from ownlab.instruments.why.gpu.records import KernelWindow, Operation
from ownlab.instruments.why.records import Finding, Mode
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["AnomalyDetection", "ProfilerLeftOn"]

# A mode counts if it was on in so many of the backward passes.
_MOSTLY = 0.5
# Of the kernels of a backward pass, the share that tests for NaN: each gradient is compared, and the result reduced.
_FEWEST_TESTS, _SHARE_OF_TESTS = 20, 0.15
_TESTS = ("aten::ne", "aten::isnan", "aten::any")


def _mode(model: StepModel, name: str) -> Mode | None:
    backwards = sum(step[3] for step in model.process.steps)
    found = (mode for mode in model.process.modes if mode.name == name)
    return next((mode for mode in found if mode.backwards >= _MOSTLY * backwards), None)


class AnomalyDetection(Rule):
    """Anomaly detection of torch.autograd is on.

    **Why it matters.** `torch.autograd.set_detect_anomaly(True)` keeps the stack of Python for each operator of the forward pass, and tests each
    gradient of the backward pass for NaN, which waits for the GPU each time. A step takes several times as long. It is for finding where a NaN
    comes from, and is easily forgotten.

    **What to do.** Remove the call, or switch it on by an option. To notice a NaN look at the loss every 50 steps; then find its origin with
    anomaly detection in a run of its own.

    **Sources.** Whether autograd says that it is on, in each backward pass, and the line that did it; the tests in the profiler's window.
    The prediction assumes that without the stacks and tests an operator costs the host what one of the backward pass does now.
    """

    code = "anomaly-detection"
    title = text("Anomaly detection is on")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the mode, or at what it does in the backward pass."""
        model, mode = case.model, _mode(case.model, "anomaly")
        window = model.gpu.window if model.gpu is not None else None
        tests = _tests_for_nan(model, window) if window is not None else []
        if mode is None and not tests:
            return
        after = _without_anomalies(model, window, tests) if window is not None and tests else None
        cost = model.step_ms - sum(after) / 2 if after is not None else 0.0
        if after is not None and cost < LOWEST_SHARE * model.step_ms:
            return
        backward = next((call.where for call in model.calls("backward") if call.where is not None), None)
        where = mode.where if mode is not None else None
        evidence = []
        if where is not None:
            evidence.append(text("switched on in {where}", where=format_place(where)))
        if window is not None and tests:
            count = sum(each.count for each in tests if each.op == "aten::any") / window.steps
            evidence.append(text("{count:.0f} tests for NaN in the backward pass of a step (sampled)", count=count))
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "Anomaly detection of autograd is on: the backward pass takes {time}, and waits for the GPU at each gradient.",
                time=format_ms(model.phase_ms("backward")),
            ),
            evidence=evidence,
            meaning=text("Each operator keeps its stack, and each gradient is tested for NaN."),
            advice=[text("Remove torch.autograd.set_detect_anomaly(True), and use it only to look for a NaN.")],
            where=where or backward,
            change=case.code.without_line(where) if where is not None and _is_call(case.code.line(where)) else None,
            after=after,
        )


def _is_call(line: str) -> bool:
    """Whether the line only switches the mode on: not the head of a block."""
    return "detect_anomaly(" in line and not line.rstrip().endswith(":")


def _tests_for_nan(model: StepModel, window: KernelWindow) -> list[Operation]:
    """The kernels that test gradients, if there are so many that nothing else makes them, and the host waits for each result."""
    backward = [each for each in window.operations if each.phase == "backward"]
    tests = [each for each in backward if each.op in _TESTS]
    reduced = sum(each.count for each in tests if each.op == "aten::any")
    evidence = model.process.gpu
    waits = (
        sum(line.count for line in evidence.syncs) / evidence.sync_steps if evidence and evidence.sync_steps else 0.0
    )
    if reduced < max(_FEWEST_TESTS * window.steps, _SHARE_OF_TESTS * sum(each.count for each in backward)):
        return []
    return tests if waits >= 0.5 * reduced / window.steps else []


def _without_anomalies(model: StepModel, window: KernelWindow, tests: list[Operation]) -> tuple[float, float]:
    gpu = model.gpu
    assert gpu is not None
    counts = {
        phase: sum(each.count for each in window.operations if each.phase == phase) for phase in ("forward", "backward")
    }
    tested = sum(each.count for each in tests)
    backward = max(0.0, model.phase_ms("backward") - gpu.per_step(window.waits_us.get("sync", 0.0)))
    for_each = backward / max(1, counts["backward"])
    forward_now = sum(model.phase_ms(name) for name in ("forward", "update", "between"))
    forward = min(forward_now, for_each * counts["forward"])
    host = model.step_ms - model.phase_ms("backward") - forward_now + forward + for_each * (counts["backward"] - tested)
    busy = gpu.busy_ms - gpu.per_step(sum(each.us for each in tests))
    return model.band(max(host, busy))


class ProfilerLeftOn(Rule):
    """A profiler of torch is on in most steps.

    **Why it matters.** A profiler notes each operator, with its shapes and stack if it is asked to, and keeps all of it in memory. A step takes
    up to several times as long, and what it says of the time between kernels is partly its own.

    **What to do.** Profile a few steps: `torch.profiler.profile(schedule=torch.profiler.schedule(wait=10, warmup=2, active=3))` with
    `profiler.step()` in the loop, or remove it.

    **Sources.** Whether autograd's profiler is on, in each backward pass, and the line that made it. What it costs is the difference to a run without it, and not
    predicted; `why` itself does not sample kernels then, since there can be one profiler only.
    """

    code = "profiler-on"
    title = text("A profiler is on in most steps")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the mode."""
        mode = _mode(case.model, "profiler")
        if mode is None:
            return
        where = format_place(mode.where) if mode.where is not None else text("a library")
        yield self.finding(
            case,
            cost_ms=0.0,
            headline=text("The script profiles its steps itself: {where}.", where=where),
            evidence=[
                text(
                    "on in {count} of {all} backward passes",
                    count=mode.backwards,
                    all=sum(step[3] for step in case.model.process.steps),
                )
            ],
            meaning=text("The profiler notes each operator, which takes longer than many of them."),
            advice=[text("Profile a few steps by torch.profiler.schedule, or remove the profiler.")],
            where=mode.where,
        )
