"""How well a card is used that hardly waits: what of its rates the step reaches."""

from __future__ import annotations

from collections.abc import Sequence

from ownlab.instruments.why.formatting import format_share
from ownlab.instruments.why.gpu.records import CardReading
from ownlab.instruments.why.gpu.rooflines import CardRates, flops_of, is_half, is_product
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import Text, sentences, text

__all__ = ["card_use", "product_share"]

_WELL_USED = 0.85


def card_use(model: StepModel, readings: Sequence[CardReading]) -> Text | None:
    """One or two sentences about a card that works nearly all of the time; None about others."""
    gpu = model.gpu
    if gpu is None or gpu.busy_ms < _WELL_USED * model.step_ms:
        return None
    first = text("Nothing was found that costs 5 % of it: the card is well used.")
    tensor = _mean([reading.tensor for reading in readings])
    memory = _mean([reading.dram for reading in readings])
    if tensor is not None and memory is not None:
        return sentences(
            first,
            text(
                "Its tensor cores are active {tensor} of the time, and its memory is at {memory} of its bandwidth.",
                tensor=format_share(tensor / 100),
                memory=format_share(memory / 100),
            ),
        )
    reached = product_share(model)
    if reached is None:
        return first
    return sentences(
        first, text("Its products reach {share} of the card's rate in their precision.", share=format_share(reached))
    )


def product_share(model: StepModel) -> float | None:
    """What the matrix products of a step reach of the card's rate; None where their shapes are not known."""
    evidence = model.process.gpu
    if evidence is None or evidence.window is None:
        return None
    rates = CardRates(evidence)
    used = needed = 0.0
    for each in evidence.window.operations:
        half = is_half(each)
        rate = rates.tflops("bf16" if half else "tf32" if evidence.settings.matmul_tf32 else "fp32")
        if rate and is_product(each) and flops_of(each):
            used += each.us
            needed += flops_of(each) * each.count / (rate * 1e6)
    return min(1.0, needed / used) if used else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
