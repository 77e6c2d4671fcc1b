"""Rules about a device beside the host, seen from the host alone: synchronisation and copies. Not yet measured on a GPU."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_place
from ownlab.instruments.why.records import Call, Finding
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.text import text

__all__ = ["BlockingCopies", "Synchronisation"]


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


class Synchronisation(Rule):
    """The host waits for the GPU at each step.

    **Why it matters.** PyTorch sends work to the GPU ahead of time. `.item()`, `.cpu()`, `print(tensor)` or `if tensor:` wait until
    everything before them is computed; then the GPU has nothing to do until the host has sent more.

    **What to do.** Keep losses and metrics as tensors (`total += loss.detach()`), and convert them every 50 steps or at the end.

    **Sources.** The time of calls that synchronise, on tensors of a GPU, by the line that makes them. How long the GPU is idle because of
    them cannot be seen from the host: the band reaches from a full overlap of both to none. Not yet measured on a GPU.
    """

    code = "synchronisation"
    title = text("The host waits for the GPU at each step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Bound what overlapping host and device could save."""
        model = case.model
        waits, calls = model.phase_ms("sync"), model.calls("sync")
        steps = max(1, len(model.process.steps))
        if not calls or sum(call.count for call in calls) < 0.5 * steps:
            return
        rest = model.step_ms - waits
        most = min(waits, rest)
        if most < LOWEST_SHARE * model.step_ms:
            return
        call = calls[0]
        where = format_place(call.where) if call.where else text("a library")
        yield self.finding(
            case,
            cost_ms=most / 2,
            headline=text(
                "The host waits {waits} for the GPU in each step: {what} in {where}.",
                waits=format_ms(waits),
                what=call.what,
                where=where,
            ),
            evidence=_calls_evidence(calls, steps),
            meaning=text("While the host waits, it sends no work; then the GPU waits for the host."),
            advice=[text("Keep the value as a tensor (.detach()), and convert it every 50 steps.")],
            where=call.where,
            after=(max(waits, rest), model.step_ms),
        )


class BlockingCopies(Rule):
    """Batches are copied to the GPU from pageable memory, or the host waits for the copy.

    **Why it matters.** A copy from ordinary (pageable) memory goes through a buffer of the driver, at about half the speed, and the
    host waits for it. From pinned memory, with `non_blocking=True`, it runs beside the computation.

    **What to do.** Set `pin_memory=True` in the DataLoader, and copy with `.to(device, non_blocking=True)`.

    **Sources.** Calls of `Tensor.to` and `Tensor.cuda` on tensors of the host, with their memory and arguments. Not yet measured on
    a GPU.
    """

    code = "blocking-copies"
    title = text("Copies to the GPU are not pinned, or block")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at copies from pageable memory, and at blocking ones."""
        model, loader = case.model, case.model.loader
        calls = [call for call in model.calls("copy") if call.detail and call.detail != "pinned, not blocking"]
        cost = sum(call.ns for call in calls) / 1e6 / max(1, len(model.process.steps))
        if not calls or cost < LOWEST_SHARE * model.step_ms:
            return
        call = calls[0]
        where = format_place(call.where) if call.where else text("a library")
        change = None
        if loader is not None and not loader.pin_memory:
            change = case.code.with_arguments(loader.where, "DataLoader", {"pin_memory": "True"})
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{cost} of each step copy to the GPU ({how}): {where}.",
                cost=format_ms(cost),
                how=call.detail,
                where=where,
            ),
            evidence=_calls_evidence(calls, max(1, len(model.process.steps))),
            meaning=text("The host waits for the copy, which could run beside the computation."),
            advice=[text("Set pin_memory=True in the DataLoader, and copy with .to(device, non_blocking=True).")],
            where=call.where,
            change=change,
            after=(model.without(cost)[0], model.step_ms),
        )
