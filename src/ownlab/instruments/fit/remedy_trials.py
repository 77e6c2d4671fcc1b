"""What would make it need less, tried on the model itself: each remedy is traced and priced in memory and arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ownlab.instruments.fit.guest_client import NotTraced
from ownlab.instruments.fit.records import Fit, Price, Request
from ownlab.instruments.fit.remedies import remedy_named

__all__ = ["price_remedies", "variants"]


_NOTES = {"eight-bit-optimizer": "computed by bitsandbytes' rules, not run"}


def price_remedies(fit: Fit, predicted: Callable[[Request], Fit]) -> tuple[Price, ...]:
    """All that apply to this step, what saves most first; those that this model cannot do come last, with the reason."""
    prices = [_price(fit, code, option, request, predicted) for code, option, request in variants(fit.request)]
    return tuple(sorted(prices, key=lambda price: (price.device_bytes is None, -(price.saved_bytes or 0))))


def variants(request: Request) -> Iterator[tuple[str, str, Request]]:
    """A remedy's code, the options that try it, and the step that they ask for."""
    if request.precision in ("fp32", "tf32"):
        yield "mixed-precision", "--precision amp-bf16", replace(request, precision="amp-bf16")
    if request.batch is not None and request.batch >= 4 and request.train:
        part, times = request.batch // 4, request.accumulate * 4
        yield "smaller-batch", f"--batch {part} --accumulate {times}", replace(request, batch=part, accumulate=times)
    if request.seq is not None and request.seq >= 2:
        yield "shorter", f"--seq {request.seq // 2}", replace(request, seq=request.seq // 2)
    if request.train and not request.checkpointing:
        yield "checkpointing", "--checkpointing", replace(request, checkpointing=True)
    if request.train and request.optimizer in ("adam", "adamw"):
        small = replace(request, optimizer="adamw-8bit", fused=False, foreach=None)
        yield "eight-bit-optimizer", "--optimizer adamw-8bit", small
        yield (
            "small-optimizer",
            "--optimizer adafactor",
            replace(request, optimizer="adafactor", fused=False, foreach=None),
        )
    if request.precision not in ("bf16", "fp16"):
        yield "smaller-weights", "--precision bf16", replace(request, precision="bf16")


def _price(fit: Fit, code: str, option: str, request: Request, predicted: Callable[[Request], Fit]) -> Price:
    title = remedy_named(code).title
    try:
        found = predicted(request)
    except NotTraced as exc:
        return Price(code, title, option, refused=exc.message)
    return Price(
        code,
        title,
        option,
        device_bytes=found.band.device_high_bytes,
        saved_bytes=fit.band.device_high_bytes - found.band.device_high_bytes,
        arithmetic=found.flops.total / max(1, fit.flops.total),
        note=_NOTES.get(code, ""),
        fits=tuple(card.name for card in fit.cards if card.memory_bytes >= found.band.device_high_bytes),
    )
