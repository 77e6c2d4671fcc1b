"""Rules about the card itself: throttled, or shared with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ownlab.instruments.why.formatting import format_share
from ownlab.instruments.why.gpu.records import CardReading
from ownlab.instruments.why.records import Finding
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import facts, text
from ownlab.units import format_bytes

__all__ = ["SharedCard", "Throttled", "readings_of"]

# Reasons for lower clocks that are no normal part of full load, as NVML's names are in ownlab's records.
_FAULTS = {
    "sw-thermal": text("the driver lowers clocks because of heat"),
    "hw-thermal": text("the hardware lowers clocks because of heat"),
    "hw-slowdown": text("the hardware lowers clocks"),
    "hw-power-brake": text("the power supply demands lower clocks"),
}
# A share of the readings below this is a moment.
_OFTEN = 0.2
_FEWEST = 3


def readings_of(model: StepModel, cards: Sequence[CardReading]) -> list[CardReading]:
    """What the driver said of this process's card during its steps."""
    evidence = model.process.gpu
    if evidence is None or not model.steps:
        return []
    begin, end = model.steps[0][0], model.steps[-1][0] + model.steps[-1][1]
    wanted = evidence.card.uuid.lower().removeprefix("gpu-")
    uuids = {reading.uuid for reading in cards}
    within = [reading for reading in cards if begin <= reading.at_ns <= end]
    mine = [reading for reading in within if wanted and reading.uuid.lower().removeprefix("gpu-") == wanted]
    return mine or (within if len(uuids) == 1 else [])


class Throttled(Rule):
    """The card runs at lower clocks than it could: it is hot, or lacks power.

    **Why it matters.** Above its limit of temperature, or if the power supply demands it, a card lowers its clocks, to a third in bad
    cases. Everything takes longer by that.

    **What to do.** Look at fans, dust and the air around the machine; `ownlab top` shows temperature and clocks. Reaching the limit of power
    under full load is normal, and no finding.

    **Sources.** NVML's reasons for lower clocks, and the clocks, each second while the script runs. Not yet tried on a GPU.
    """

    code = "throttled"
    title = text("The card runs at lower clocks")

    def check(self, case: Case) -> Iterable[Finding]:
        """Count readings with a reason that is a fault."""
        model = case.model
        readings = readings_of(model, case.evidence.cards)
        faulty = [reading for reading in readings if any(reason in _FAULTS for reason in reading.throttle)]
        if len(readings) < _FEWEST or len(faulty) < _OFTEN * len(readings):
            return
        reasons = Counter(reason for reading in faulty for reason in reading.throttle if reason in _FAULTS)
        clocks = [reading.clock / reading.clock_most for reading in readings if reading.clock and reading.clock_most]
        lost = 1 - sum(clocks) / len(clocks) if clocks else 0.0
        busy = model.gpu.busy_ms if model.gpu is not None else model.step_ms
        cost = busy * lost
        if cost < LOWEST_SHARE * model.step_ms:
            return
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "The card ran at {clocks} of its clocks: {reason}.",
                clocks=format_share(1 - lost),
                reason=_FAULTS[reasons.most_common(1)[0][0]],
            ),
            evidence=[
                text(
                    "in {count} of {all} readings, {names}", count=len(faulty), all=len(readings), names=facts(*reasons)
                )
            ],
            meaning=text("Nothing in the script is the cause."),
            advice=[text("Look at the cooling; ownlab top shows temperature, power and clocks.")],
            after=model.band(model.step_ms - cost),
        )


class SharedCard(Rule):
    """Other processes compute on the same card.

    **Why it matters.** Kernels of several processes take turns on a card: each gets a part of the time, and its own kernels take longer.

    **What to do.** Use another card (`CUDA_VISIBLE_DEVICES`), or end what is not needed; `ownlab top` names the processes.

    **Sources.** NVML's list of processes on the card with their share of its time, each second while the script runs. How much
    faster the script would be alone follows from their share, and is an estimate. Not yet tried on a GPU.
    """

    code = "shared-card"
    title = text("Other processes compute on the same card")

    def check(self, case: Case) -> Iterable[Finding]:
        """Add up the shares of processes that are none of the script's."""
        model = case.model
        readings = readings_of(model, case.evidence.cards)
        own = {process.pid for process in case.evidence.processes}
        sums: dict[int, list[float]] = {}
        for reading in readings:
            if not any(pid in own for pid, _, _ in reading.processes):
                continue  # numbers of another PID namespace: who is who cannot be said
            for pid, memory, busy in reading.processes:
                if pid not in own and busy:
                    total = sums.setdefault(pid, [0.0, 0.0])
                    total[0] += busy / 100 / len(readings)
                    total[1] = max(total[1], memory or 0)
        share = min(0.9, sum(busy for busy, _ in sums.values()))
        if len(readings) < _FEWEST or share < 2 * LOWEST_SHARE:
            return
        busy_ms = model.gpu.busy_ms if model.gpu is not None else model.step_ms
        cost = busy_ms * share * 0.5
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{count} other process(es) compute on this card {share} of the time.", count=len(sums), share=format_share(share)
            ),
            evidence=[
                text("process {pid}: {share} of the time, {memory}", pid=pid, share=format_share(busy), memory=format_bytes(round(memory)))
                for pid, (busy, memory) in sorted(sums.items(), key=lambda item: -item[1][0])[:3]
            ],
            meaning=text("Kernels of several processes take turns."),
            advice=[text("Use another card, or end what is not needed: ownlab top names the processes.")],
            after=(model.step_ms - busy_ms * share, model.step_ms),
        )  # fmt: skip
