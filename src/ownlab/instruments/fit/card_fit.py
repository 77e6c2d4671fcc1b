"""A prediction against cards: whether it fits, how much memory remains, and the least time of a step (roofline).

The time is a lower bound, not a forecast. It counts only what is certain: all FLOPs at the card's highest rate for the
precision; activations kept for the backward pass are written and read again, long after caches have lost them; the optimizer
reads and writes its state.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from ownlab.catalog.cards import FigureName
from ownlab.instruments.fit.card_specs import CardSpecs
from ownlab.instruments.fit.records import CardFit, Fit, Request, Trace, Work
from ownlab.text import text
from ownlab.units import MIB

__all__ = ["Floor", "Work", "compute_floor", "count_work", "judge_card", "missing_precision", "with_cards"]

# Larger than the L2 cache of any card (B200: 126 MB; data sheets, 2026-11).
_BEYOND_CACHES = 128 * MIB
# Products of bytes are up to four times as fast as those of 16 bits (int8 of GeForce cards; twice on others): a bound must allow it.
_BYTE_FACTOR = 4
_UNITS: dict[str, FigureName] = {"tf32": "tf32_tflops", "fp16": "fp16_tflops", "bf16": "bf16_tflops"}
_LAYERS = {"convolution": ("convolution",), "attention": ("attention", "bmm"), "recurrent": ("rnn", "lstm", "gru")}
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "attention", "lstm", "gru", "rnn")


class Floor(NamedTuple):
    """The least time of a step, and what bounds it."""

    seconds: float
    bound_by: Literal["arithmetic", "memory"]


def count_work(trace: Trace) -> Work:
    """Count the work of the last step."""
    begin = trace.marks[-2] if len(trace.marks) > 1 else 0
    end = trace.marks[-1] if trace.marks else 0
    serial = overlapped = 0
    kept = {"weights": 0, "optimizer": 0, "gradients": 0}
    for number, (size, index) in enumerate(zip(trace.events.bytes[:end], trace.events.tag[:end], strict=True)):
        tag = trace.tags[index]
        if size > 0 and tag.kind in ("weights", "optimizer"):
            kept[tag.kind] += size
        if number < begin or size <= 0:
            continue
        if tag.kind == "gradients":
            kept["gradients"] += size
            continue
        kept_long = tag.kind == "activations" and trace.flops.backward > 0
        if kept_long or (tag.kind in ("activations", "temporary") and size > _BEYOND_CACHES):
            multiplied = any(word in tag.op for word in _PRODUCTS)
            serial += 0 if multiplied else size
            overlapped += size if multiplied else 0
            overlapped += size if kept_long else 0  # read again in the backward pass
    serial, overlapped = _with_weights(trace, kept, serial, overlapped)
    kinds = tuple(kind for kind, words in _LAYERS.items() if _has(trace, words))
    return Work(trace.flops.total, serial, overlapped, convolves=_has(trace, ("convolution", "rnn")), kinds=kinds)


def _with_weights(trace: Trace, kept: dict[str, int], serial: int, overlapped: int) -> tuple[int, int]:
    trained = kept["weights"] * trace.parameters.trainable // max(1, trace.parameters.total)
    update = 2 * trained + kept["gradients"] + 2 * kept["optimizer"]
    if trace.flops.backward and update > _BEYOND_CACHES:
        serial += update
    if kept["weights"] > _BEYOND_CACHES:
        overlapped += kept["weights"] * (2 if trace.flops.backward else 1)
    return serial, overlapped


def _has(trace: Trace, words: tuple[str, ...]) -> bool:
    return any(word in tag.op for tag in trace.tags for word in words)


def compute_floor(card: CardSpecs, work: Work, request: Request) -> Floor | None:
    """Compute the least time of a step; None if the card's rates are unknown."""
    rate = _rate(card, work, request)
    if rate is None or card.bandwidth_gb_s is None:
        return None
    bandwidth = card.bandwidth_gb_s * 1e9
    arithmetic, serial = work.flops / rate, work.serial_bytes / bandwidth
    moving = (work.serial_bytes + work.overlapped_bytes) / bandwidth
    seconds = max(arithmetic + serial, moving)
    return Floor(seconds, "arithmetic" if arithmetic >= max(serial, moving - arithmetic) else "memory")


def _rate(card: CardSpecs, work: Work, request: Request) -> float | None:
    """Return the highest FLOP/s. cuDNN computes fp32 in TF32 by default in torch."""
    tera = card.fp32_tflops
    if request.precision in ("fp16", "amp-fp16"):
        tera = card.fp16_tflops
    elif request.precision in ("bf16", "amp-bf16"):
        tera = card.bf16_tflops
    elif request.precision == "tf32" or work.convolves:
        tera = card.tf32_tflops
    return None if tera is None else tera * 1e12 * (_BYTE_FACTOR if _in_bytes(request) else 1)


def _in_bytes(request: Request) -> bool:
    return request.weights.partition(":")[0] in ("int8", "fp8")


def with_cards(fit: Fit, trace: Trace, cards: tuple[CardSpecs, ...]) -> Fit:
    """Add the verdict for each card to a prediction."""
    work = count_work(trace)
    return msgspec.structs.replace(fit, work=work, cards=tuple(judge_card(fit, card, work) for card in cards))


def judge_card(fit: Fit, card: CardSpecs, work: Work) -> CardFit:
    """Judge one card."""
    floor = compute_floor(card, work, fit.request)
    high = card.memory_high_bytes
    return CardFit(
        name=card.name,
        memory_bytes=card.memory_bytes,
        fits=_fits(fit, card.memory_bytes, high),
        spare_bytes=card.memory_bytes - fit.band.device_high_bytes,
        calibrated=card.calibrated,
        floor_seconds=None if floor is None else floor.seconds,
        bound_by=None if floor is None else floor.bound_by,
        source=card.source,
        as_of=card.as_of,
        memory_high_bytes=high if card.inferred_why else None,
        precision=missing_precision(card, fit.request.precision),
    )


def missing_precision(card: CardSpecs, precision: str) -> str:
    """Say that a card has no units for a precision, and what to use instead; "" where it has them, or nobody knows.

    torch runs bf16 on such cards by converting to fp32 and back, so the memory is the same and the speed is not.
    """
    name = _UNITS.get(precision.removeprefix("amp-"))
    if name is None or name not in card.lacking:
        return ""
    if name == "bf16_tflops":
        if "fp16_tflops" in card.lacking:
            return text("no bf16 units: it runs in steps of fp32; use fp32, or fp16 to save memory")
        return text("no bf16 units: use {precision}", precision=precision.replace("bf16", "fp16"))
    if name == "tf32_tflops":
        return text("no TF32 units: it computes in fp32")
    return text("no fast fp16 units: fp16 saves memory, not time")


def _fits(fit: Fit, memory: int, high: int) -> Literal["yes", "tight", "no", "unknown"]:
    """Tight: it fits only with a good order of allocations, or if the allocator releases its cache."""
    if fit.band.device_high_bytes <= memory:
        return "yes"
    if fit.band.device_high_bytes <= high:
        return "unknown"
    least = min(fit.smallest_bytes, fit.band.device_low_bytes)
    if least <= memory:
        return "tight"
    return "unknown" if least <= high else "no"
