"""`--decode N`: the cache of keys and values after a prompt and N new tokens, and the memory of the last token's step."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ownlab.instruments.fit.card_fit import with_cards
from ownlab.instruments.fit.guest_client import accepted, ask_guest, refusal
from ownlab.instruments.fit.pipeline import Wanted
from ownlab.instruments.fit.predict import predict
from ownlab.instruments.fit.records import Decoding, Fit, Request, Trace, Trouble

__all__ = ["with_decoding"]


class Answer(Struct, frozen=True):
    """What the guest says: the last token's step, and sizes of the cache."""

    trace: Trace = Trace()
    batch: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    prompt_bytes: int = 0
    cache_bytes: int = 0
    error: Trouble | None = None


def with_decoding(fit: Fit, count: int, wants: Wanted, python: str, *, deadline: float) -> Fit:
    """Of prompt and last token the one that takes more; and the cache."""
    request: Request = fit.request
    hidden = {"CUDA_VISIBLE_DEVICES": ""}  # as with any trace
    answer = ask_guest("fit.kv_cache", request, python, str(count), answer=Answer, deadline=deadline, env=hidden)
    if answer.error is not None:
        raise refusal(answer.error)
    trace = accepted(answer.trace, request)
    last = with_cards(predict(trace, request, wants.allocator), trace, wants.cards)
    decoding = Decoding(
        batch=answer.batch,
        prompt_tokens=answer.prompt_tokens,
        new_tokens=answer.new_tokens,
        prompt_bytes=answer.prompt_bytes,
        cache_bytes=answer.cache_bytes,
        device_bytes=last.band.device_high_bytes,
    )
    greater = last if last.band.device_high_bytes > fit.band.device_high_bytes else fit
    return replace(greater, decoding=decoding, flops=fit.flops, measured=fit.measured, biggest=fit.biggest)
