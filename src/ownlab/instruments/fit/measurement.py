"""The real step, in a child in the person's Python: on the card where there is one, else on the processor."""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from ownlab.catalog.cards import find_card
from ownlab.instruments.fit.card_specs import Card
from ownlab.instruments.fit.guest_client import ask_guest, refusal, written
from ownlab.instruments.fit.records import (
    Device,
    Measured,
    MeasuredDecoding,
    MeasuredMemory,
    RanOut,
    Request,
    Spread,
    Trouble,
)

__all__ = ["Answer", "Settings", "ask_measure", "card_of", "conclude", "spread"]


class Settings(Struct, frozen=True):
    """How it is measured; the guest reads it from a file."""

    device: str | None = None
    look: bool = False  # only say what the device is
    seconds: float = 5.0
    parts: bool = True
    cap_bytes: int | None = None  # torch may reserve no more
    decode: int = 0


class Times(Struct, frozen=True):
    """Seconds of each repetition."""

    alone: tuple[float, ...]
    steady: tuple[float, ...]


class TokenTimes(Struct, frozen=True):
    """Seconds of a prompt and of each token after it."""

    prompt_seconds: float
    token_seconds: tuple[float, ...]
    cache_bytes: int


class Answer(Struct, frozen=True):
    """What the guest says."""

    torch: str = ""
    cuda: str | None = None
    cudnn: int | None = None
    device: Device | None = None
    batch: int | None = None
    memory: MeasuredMemory | None = None
    times: Times | None = None
    decoding: TokenTimes | None = None
    out_of_memory: RanOut | None = None
    error: Trouble | None = None


def ask_measure(
    request: Request, python: str, settings: Settings, *, deadline: float, allocator: str = ""
) -> tuple[Answer, Device]:
    """What a step took, or that it ran out of memory; and where. What else is wrong is raised."""
    # Before torch 2.9 the first of these is not known, and since then the second is an old name of it.
    env = {name: allocator for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF") if allocator}
    with written(settings) as path:
        answer = ask_guest("fit.measure", request, python, path, answer=Answer, deadline=deadline, env=env)
    if answer.error is not None:
        raise refusal(answer.error)
    if answer.device is None:
        raise refusal(Trouble("bad-answer", f"{request.target}: the guest does not say where it measured"))
    return answer, answer.device


def card_of(device: Device) -> Card | None:
    """The device in our catalogue; None where it is not there for sure."""
    found = None if device.kind == "cpu" else find_card(device.name, device.memory_bytes)
    return None if found is None else Card.of(found)


def conclude(answer: Answer, device: Device, floor_seconds: float | None) -> Measured:
    """Spreads and rates from the seconds of each repetition."""
    alone, steady = (spread(answer.times.alone), spread(answer.times.steady)) if answer.times else (None, None)
    step = steady or alone
    return Measured(
        device=device,
        torch=answer.torch,
        cuda=answer.cuda,
        batch=answer.batch,
        memory=answer.memory,
        alone=alone,
        steady=steady,
        per_second=answer.batch / step.median if step and answer.batch else None,
        floor_seconds=floor_seconds,
        decoding=_decoding(answer),
        out_of_memory=answer.out_of_memory,
    )


def _decoding(answer: Answer) -> MeasuredDecoding | None:
    if answer.decoding is None:
        return None
    token = spread(answer.decoding.token_seconds)
    if token is None:
        return None
    seconds = sum(answer.decoding.token_seconds)
    rate = (answer.batch or 1) * token.count / seconds
    return MeasuredDecoding(answer.decoding.prompt_seconds, token, rate, answer.decoding.cache_bytes)


def spread(seconds: tuple[float, ...]) -> Spread | None:
    """None of no repetitions. Percentiles are repetitions that were: no figure lies between two."""
    if not seconds:
        return None
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return ordered[ceil(share * len(ordered)) - 1]

    return Spread(len(ordered), ordered[0], at(0.5), at(0.9), at(0.99), ordered[-1])
