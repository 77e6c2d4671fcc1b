"""Rules about the host and the GPU waiting for each other: synchronisation and copies."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_place
from ownlab.instruments.why.gpu.records import SyncLine
from ownlab.instruments.why.gpu.rooflines import CardRates
from ownlab.instruments.why.records import Call, Finding, Place
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.rules.metric_names import is_metric
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["BlockingCopies", "Synchronisation", "synchronising_functions"]


# Who does more in Python between two waits does not only fetch values.
_BETWEEN_WAITS_MS = 1.0
# What a GPU is idle between two kernels that are both there already: no wait of the host's is the cause of that.
_GAP_MS = 0.001


def _calls_evidence(calls: Iterable[Call], steps: int) -> list[str]:
    return [
        text(
            "{what} in {where}: {count:.3g} times a step, {each} each",
            what=call.what,
            where=format_place(call.where) if call.where else text("a library"),
            count=call.count / steps,
            each=format_ms(call.ns / call.count / 1e6),
        )
        for call in list(calls)[:3]
    ]


def _lines_of_window(model: StepModel) -> list[SyncLine]:
    """Lines that wait, most often first, as torch's debug mode has named them. Copies, saving and logging are other rules'."""
    evidence = model.process.gpu
    if evidence is None or not evidence.sync_steps:
        return []
    by_phase = {
        phase: {(call.where.file, call.where.line) for call in model.calls(phase) if call.where is not None}
        for phase in ("copy", "log", "save", "sync")
    }
    others = by_phase["copy"] | (by_phase["log"] | by_phase["save"]) - by_phase["sync"]
    lines = [line for line in evidence.syncs if line.where is None or (line.where.file, line.where.line) not in others]
    return sorted(lines, key=lambda line: -line.count)


def _in_steps(model: StepModel) -> tuple[Call, ...]:
    """Calls that wait, without those before the first step: compilers and benchmarks wait hundreds of times there."""
    return tuple(call for call in model.calls("sync") if call.last_step > 0)


def synchronising_functions(model: StepModel) -> set[tuple[str, str]]:
    """The functions with lines that wait for the GPU in most steps, and do little between two waits: what runs there gets values of it.

    A function that waits once and then computes for long is work of its own.
    """
    steps = len(model.process.steps)
    waits: dict[tuple[str, str], float] = {}
    for call in _in_steps(model):
        if call.where is not None and call.count >= 0.5 * steps:
            function = (call.where.file, call.where.function)
            waits[function] = waits.get(function, 0.0) + call.count / steps
    sampled = _lines_of_window(model) if model.gpu is not None and model.process.gpu is not None else []
    seen: dict[tuple[str, str], float] = {}
    for line in sampled:
        if line.where is not None and model.process.gpu is not None:
            function = (line.where.file, line.where.function)
            seen[function] = seen.get(function, 0.0) + line.count / model.process.gpu.sync_steps
    work: dict[tuple[str, str], float] = {}
    for each in model.work:
        function = (each.where.file, each.where.function)
        work[function] = work.get(function, 0.0) + each.ms
    loop = next((call.where for call in model.calls("backward") if call.where is not None), None)
    own = (loop.file, loop.function) if loop is not None else None
    return {
        function
        for function in {*waits, *seen} - {own}
        if work.get(function, 0.0) <= _BETWEEN_WAITS_MS * max(waits.get(function, 0.0), seen.get(function, 0.0))
    }


class Synchronisation(Rule):
    """The host waits for the GPU at each step.

    **Why it matters.** PyTorch sends work to the GPU ahead of time. `.item()`, `.cpu()`, `print(tensor)`, `if tensor:` or `tensor[mask]`
    wait until everything before them is computed; then the GPU has nothing to do until the host has sent more.

    **What to do.** Keep losses and metrics as tensors (`total += loss.detach()`), and convert them every 50 steps or at the end. Instead of
    selecting by a mask, whose number of elements the host has to know, compute with `torch.where`.

    **Sources.** The time of calls that synchronise, by the line that makes them; `torch.cuda.set_sync_debug_mode` in a window of a few
    steps, for the lines that no hook sees; and the GPU's own clock, which says how long it is idle: waiting for a GPU that works costs
    nothing, and a value that is fetched every 10 steps is no finding. The prediction is the longer
    of what the host and the GPU need without waiting for each other. Without a measured GPU the band reaches from a full overlap to none.
    """

    code = "synchronisation"
    title = text("The host waits for the GPU at each step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Let host and GPU overlap, and see what is left."""
        model = case.model
        calls, lines = _in_steps(model), _lines_of_window(model)
        steps = max(1, len(model.process.steps))
        per_step = max(
            sum(call.count for call in calls) / steps,
            sum(line.count for line in lines) / model.process.gpu.sync_steps if lines and model.process.gpu else 0.0,
        )
        if per_step < 0.5:
            return
        waits = model.waits_ms("sync")
        if model.gpu is not None:
            functions = synchronising_functions(model)
            waits += sum(
                work.ms
                for work in model.work
                if (work.where.file, work.where.function) in functions and not work.library and not is_metric(work)
            )
        waits = min(waits, model.step_ms)
        rest = max(0.0, model.step_ms - waits)
        if model.gpu is None:
            cost = min(waits, rest) / 2
            after = (max(waits, rest), model.step_ms)
        else:
            # While the host waits for a GPU that works, nothing is lost; only what the GPU is idle afterwards.
            window = model.gpu.window
            gaps = window.launches / max(1, window.steps) * _GAP_MS if window is not None else 0.0
            least = min(model.step_ms, max(rest, model.gpu.busy_ms + gaps))
            cost = model.step_ms - least
            after = model.band(least)
        if cost < LOWEST_SHARE * model.step_ms:
            return
        where, what = _most(calls, lines)
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "The host waits {waits} for the GPU in each step: {what} in {where}.",
                waits=format_ms(waits),
                what=what,
                where=format_place(where) if where else text("a library"),
            ),
            evidence=[*_calls_evidence(calls, steps), *_lines_evidence(lines, calls, model)],
            meaning=text("While the host waits, it sends no work; then the GPU waits for the host."),
            advice=_advice(what),
            where=where,
            after=after,
        )


def _most(calls: tuple[Call, ...], lines: list[SyncLine]) -> tuple[Place | None, str]:
    """The line that waits most."""
    if calls and (not lines or calls[0].count * 3 > lines[0].count):
        return calls[0].where, calls[0].what
    return lines[0].where, text("a call that synchronises")


def _lines_evidence(lines: list[SyncLine], calls: tuple[Call, ...], model: StepModel) -> list[str]:
    known = {(call.where.file, call.where.line) for call in calls if call.where is not None}
    steps = model.process.gpu.sync_steps if model.process.gpu is not None else 1
    return [
        text(
            "{where} synchronises {count:.3g} times a step (sampled in {steps} steps)",
            where=format_place(line.where) if line.where else text("a library"),
            count=line.count / steps,
            steps=steps,
        )
        for line in lines[:4]
        if line.where is None or (line.where.file, line.where.line) not in known
    ]


def _advice(what: str) -> list[str]:
    if what.startswith("Tensor."):
        return [text("Keep the value as a tensor (.detach()), and convert it every 50 steps.")]
    return [
        text("Compute with torch.where or a multiplication instead of selecting elements by a mask."),
        text("Make tensors on the GPU (device=…) instead of moving Python values there."),
    ]


class BlockingCopies(Rule):
    """Batches are copied to the GPU from pageable memory, or the host waits for the copy.

    **Why it matters.** A copy from ordinary (pageable) memory goes through a buffer of the driver, at a fraction of the speed, and the
    host waits for it. From pinned memory, with `non_blocking=True`, the host goes on and sends the work that follows.

    **What to do.** Set `pin_memory=True` in the DataLoader, and copy with `.to(device, non_blocking=True)`. Copy the smallest type that
    holds the data (uint8 for images), and convert it on the GPU.

    **Sources.** Calls of `Tensor.to` and `Tensor.cuda` on tensors of the host, with their memory and arguments; the bytes copied in
    the profiler's window, and the rate that pinned memory reaches on PCIe.
    """

    code = "blocking-copies"
    title = text("Copies to the GPU are not pinned, or block")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at copies from pageable memory, and at blocking ones."""
        model, loader = case.model, case.model.loader
        steps = max(1, len(model.process.steps))
        blocking = [call for call in model.calls("copy") if call.detail and call.detail != "pinned, not blocking"]
        calls = [call for call in blocking if call.last_step > 1]  # not the model's, before the first step
        cost = sum(call.ns for call in calls) / 1e6 / steps
        copied = _copied(model)
        if model.gpu is None:
            after = (model.without(cost)[0], model.step_ms)
        else:
            # Pinned copies run in the stream of the computation, without the host.
            rest = max(model.step_ms - model.wait_ms, model.gpu.busy_ms + copied[1], model.step_ms - cost)
            cost = min(cost, model.step_ms - rest)
            after = model.band(rest)
        if not calls or cost < LOWEST_SHARE * model.step_ms:
            return
        call = calls[0]
        change = None
        if loader is not None and not loader.pin_memory:
            change = case.code.with_arguments(loader.where, "DataLoader", {"pin_memory": "True"})
        elif call.detail == "pinned, blocking":
            change = case.code.with_arguments(call.where, call.what.rpartition(".")[2], {"non_blocking": "True"})
        evidence = _calls_evidence(calls, steps)
        if copied[0]:
            evidence.append(text("{size} are copied in each step (sampled)", size=format_bytes(round(copied[0]))))
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{cost} of each step copy to the GPU ({how}): {where}.",
                cost=format_ms(sum(each.ns for each in calls) / 1e6 / steps),
                how=call.detail,
                where=format_place(call.where) if call.where else text("a library"),
            ),
            evidence=evidence,
            meaning=text("The host waits for the copy, and sends no work meanwhile."),
            advice=[text("Set pin_memory=True in the DataLoader, and copy with .to(device, non_blocking=True).")],
            where=call.where,
            change=change,
            after=after,
        )


def _copied(model: StepModel) -> tuple[float, float]:
    """Bytes that a step copies to the GPU, and the milliseconds that this takes from pinned memory."""
    evidence = model.process.gpu
    if evidence is None or evidence.window is None:
        return 0.0, 0.0
    size = sum(copy.bytes for copy in evidence.window.copies if "HtoD" in copy.kind) / evidence.window.steps
    return size, size / CardRates(evidence).pcie() * 1e3
