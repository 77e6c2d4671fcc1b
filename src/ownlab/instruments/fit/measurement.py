"""The real step, in a child in the person's Python: on the card where there is one, else on the processor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import ceil
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ownlab.errors import DeviceUnusable
from ownlab.guest_client import GuestCrashed
from ownlab.instruments.fit.batch_search import biggest_running
from ownlab.instruments.fit.calibration import calibration_of, load_calibrations
from ownlab.instruments.fit.card_fit import floor_on, work_of
from ownlab.instruments.fit.card_specs import card_of, choose_cards
from ownlab.instruments.fit.guest_client import NotTraced, ask_guest, ask_trace, refusal, written
from ownlab.instruments.fit.pipeline import Wanted, answer
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import (
    Biggest,
    Device,
    Fit,
    GuestCard,
    Measured,
    MeasuredAlone,
    MeasuredDecoding,
    MeasuredMemory,
    RanOut,
    Request,
    Spread,
    Trace,
    Trial,
    Trouble,
)
from ownlab.units import GIB

__all__ = ["Answer", "Experiment", "Settings", "ask_measure", "conclude", "spread"]


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


_LOOK = Settings(look=True)
# A trial is asked for one thing: whether it runs.
_TRY = Settings(seconds=0, parts=False)


class Experiment(NamedTuple):
    """Who measures, and who is told what is being done."""

    python: str
    deadline: float
    working: Callable[[str], AbstractContextManager[None]]
    decode: int = 0

    def run(self, request: Request, wants: Wanted) -> Fit | MeasuredAlone:
        """Measure on the device that is here, and predict for it; with a range of batches, at the biggest that runs."""
        if wants.within is None:
            return self._measured(request, wants)
        predicted, found = self._biggest(request, wants)
        if found.batch is None:
            return replace(predicted, biggest=found)
        fit = self._measured(replace(request, batch=found.batch), wants._replace(within=None))
        return replace(fit, biggest=found) if isinstance(fit, Fit) else fit

    def _biggest(self, request: Request, wants: Wanted) -> tuple[Fit, Biggest]:
        with self.working("Looking at the device"):
            _, device = ask_measure(request, self.python, _LOOK, deadline=self.deadline)
        if device.free_bytes is None or wants.within is None or request.batch is None:
            raise DeviceUnusable(
                "the biggest batch that runs is found on a card, and torch sees none here",
                hint="Without --measure it is predicted; ownlab doctor says why torch sees no card.",
            )
        start, request = request.batch, replace(request, card=_card(device))
        here = choose_cards(f"{device.free_bytes / GIB:.3f}GiB")
        fit = answer(request, self._traced, wants._replace(cards=here, remedies=False), self.working)
        with self.working("Trying batches on the card"):
            found = biggest_running(
                lambda batch: self._tried(replace(request, batch=batch), wants.allocator),
                fit.cards[0].biggest_batch,
                wants.within,
                start,
            )
        return fit, found

    def _tried(self, request: Request, allocator: str) -> Trial:
        batch = request.batch or 0
        try:
            said, _ = ask_measure(request, self.python, _TRY, deadline=self.deadline, allocator=allocator)
        except GuestCrashed as exc:
            return Trial(batch, False, why=exc.message)
        if said.out_of_memory is not None:
            return Trial(
                batch, False, why=f"out of memory in the {said.out_of_memory.phase} of step {said.out_of_memory.step}"
            )
        return Trial(batch, True, None if said.memory is None else said.memory.device_bytes)

    def _measured(self, request: Request, wants: Wanted) -> Fit | MeasuredAlone:
        with self.working("Running the real step"):
            said, device = ask_measure(
                request, self.python, Settings(decode=self.decode), deadline=self.deadline, allocator=wants.allocator
            )
        request = replace(request, card=_card(device))
        traces: dict[Request, Trace] = {}

        def traced(asked: Request) -> Trace:
            traces[asked] = self._traced(asked)
            return traces[asked]

        try:
            fit = answer(request, traced, wants, self.working)
        except NotTraced as exc:  # sizes that depend on data, for instance: all the better that it ran
            return MeasuredAlone(request, conclude(said, device, None), exc.message)
        fit = _with_context(fit, traces[request], device)
        card = card_of(device)
        floor = None if card is None else floor_on(card, work_of(traces[request]), request)
        return replace(fit, measured=conclude(said, device, None if floor is None else floor.seconds))

    def _traced(self, request: Request) -> Trace:
        return ask_trace(request, self.python, deadline=self.deadline)


def _card(device: Device) -> GuestCard:
    """As it was calibrated here, or as torch describes it."""
    calibration = calibration_of(device, load_calibrations())
    return device.card if calibration is None else calibration.card


def _with_context(fit: Fit, trace: Trace, device: Device) -> Fit:
    """What CUDA itself takes, as it was measured on this card; where it never was, the H200's stays."""
    calibration = calibration_of(device, load_calibrations())
    if calibration is None:
        return fit
    own = predict(trace, fit.request, fit.allocator, calibration.context)
    return replace(fit, peak=own.peak, band=own.band, parts=own.parts, smallest_bytes=own.smallest_bytes)
