"""`ownlab fit --measure`: run the real step in the user's Python, on the card if there is one, else on the processor."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ownlab.errors import DeviceUnusable
from ownlab.guest_client import GuestCrashed
from ownlab.instruments.fit.batch_search import run_biggest_batch
from ownlab.instruments.fit.calibration import find_calibration, load_calibrations
from ownlab.instruments.fit.card_fit import compute_floor, count_work
from ownlab.instruments.fit.card_specs import card_of_device, choose_cards
from ownlab.instruments.fit.guest_client import NotTraced, ask_guest, ask_trace, error_of, record_file
from ownlab.instruments.fit.memory_chart import PHASES
from ownlab.instruments.fit.pipeline import Goals, Working, predict_fit
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import (
    BiggestBatch,
    Device,
    Fit,
    GuestCard,
    Measured,
    MeasuredAlone,
    MeasuredDecoding,
    MeasuredMemory,
    OutOfMemoryReport,
    Request,
    Spread,
    Trace,
    Trial,
    Trouble,
)
from ownlab.text import text
from ownlab.units import GIB

__all__ = ["Answer", "Experiment", "Settings", "ask_measure", "make_spread", "summarize"]


class Settings(Struct, frozen=True):
    """How to measure; the guest reads this from a file."""

    device: str | None = None
    look: bool = False  # only describe the device
    seconds: float = 5.0
    parts: bool = True
    cap_bytes: int | None = None  # limit for what torch may reserve
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
    """The answer of the guest."""

    torch: str = ""
    cuda: str | None = None
    cudnn: int | None = None
    device: Device | None = None
    batch: int | None = None
    memory: MeasuredMemory | None = None
    times: Times | None = None
    decoding: TokenTimes | None = None
    out_of_memory: OutOfMemoryReport | None = None
    error: Trouble | None = None


def ask_measure(
    request: Request, python: str, settings: Settings, *, deadline: float, allocator: str = ""
) -> tuple[Answer, Device]:
    """Measure a step, or report that it ran out of memory; also return the device. Raise any other failure."""
    # torch before 2.9 only knows the second name; since then it is deprecated.
    env = {name: allocator for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF") if allocator}
    with record_file(settings) as path:
        answer = ask_guest("fit.measure", request, python, path, answer=Answer, deadline=deadline, env=env)
    if answer.error is not None:
        raise error_of(answer.error)
    if answer.device is None:
        raise error_of(
            Trouble("bad-answer", text("{target}: the guest did not report its device", target=request.target))
        )
    return answer, answer.device


def summarize(answer: Answer, device: Device, floor_seconds: float | None) -> Measured:
    """Compute spreads and rates from the seconds of each repetition."""
    alone, steady = (
        (make_spread(answer.times.alone), make_spread(answer.times.steady)) if answer.times else (None, None)
    )
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
    token = make_spread(answer.decoding.token_seconds)
    if token is None:
        return None
    seconds = sum(answer.decoding.token_seconds)
    rate = (answer.batch or 1) * token.count / seconds
    return MeasuredDecoding(answer.decoding.prompt_seconds, token, rate, answer.decoding.cache_bytes)


def make_spread(seconds: tuple[float, ...]) -> Spread | None:
    """Return percentiles; None without repetitions. Each percentile is one of the repetitions, never interpolated."""
    if not seconds:
        return None
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return ordered[ceil(share * len(ordered)) - 1]

    return Spread(len(ordered), ordered[0], at(0.5), at(0.9), at(0.99), ordered[-1])


_LOOK = Settings(look=True)
# A trial only has to show whether the batch runs.
_TRIAL = Settings(seconds=0, parts=False)


class Experiment(NamedTuple):
    """Runs the real step in `python`, and predicts it for the device that is here. `working` shows progress."""

    python: str
    deadline: float
    working: Working
    decode: int = 0

    def run(self, request: Request, goals: Goals) -> Fit | MeasuredAlone:
        """Measure and predict; with a range of batches, at the biggest batch that runs."""
        if goals.batches is None:
            return self._measure(request, goals)
        predicted, biggest = self._find_biggest_batch(request, goals)
        if biggest.batch is None:
            return replace(predicted, biggest=biggest)
        # The range was searched on this very card: its calibration has nothing to add.
        goals = goals._replace(batches=None, calibrations=())
        fit = self._measure(replace(request, batch=biggest.batch), goals)
        return replace(fit, biggest=biggest) if isinstance(fit, Fit) else fit

    def _find_biggest_batch(self, request: Request, goals: Goals) -> tuple[Fit, BiggestBatch]:
        with self.working(text("Reading the device")):
            _, device = ask_measure(request, self.python, _LOOK, deadline=self.deadline)
        if device.free_bytes is None or goals.batches is None or request.batch is None:
            raise DeviceUnusable(
                text("Finding the biggest batch that runs needs a card, and torch sees none here."),
                hint=text("Without --measure the batch is predicted. `ownlab doctor` reports why torch sees no card."),
            )
        start, batches, request = request.batch, goals.batches, replace(request, card=_card(device))
        here = choose_cards(f"{device.free_bytes / GIB:.3f}GiB")
        goals = goals._replace(cards=here, remedies=False, calibrations=())
        fit = predict_fit(request, self._trace, goals, self.working)
        with self.working(text("Running batches on the card")):
            biggest = run_biggest_batch(
                lambda batch: self._try_batch(replace(request, batch=batch), goals.allocator),
                fit.cards[0].biggest_batch,
                batches,
                start,
            )
        return fit, biggest

    def _try_batch(self, request: Request, allocator: str) -> Trial:
        batch = request.batch or 0
        try:
            answer, _ = ask_measure(request, self.python, _TRIAL, deadline=self.deadline, allocator=allocator)
        except GuestCrashed as exc:
            return Trial(batch, False, why=exc.message)
        if answer.out_of_memory is not None:
            phase, step = answer.out_of_memory.phase, answer.out_of_memory.step
            why = text("out of memory in the {phase} phase of step {step}", phase=PHASES.get(phase, phase), step=step)
            return Trial(batch, False, why=why)
        return Trial(batch, True, None if answer.memory is None else answer.memory.device_bytes)

    def _measure(self, request: Request, goals: Goals) -> Fit | MeasuredAlone:
        with self.working(text("Running the real step")):
            answer, device = ask_measure(
                request, self.python, Settings(decode=self.decode), deadline=self.deadline, allocator=goals.allocator
            )
        request = replace(request, card=_card(device))
        traces: dict[Request, Trace] = {}

        def trace_step(step: Request) -> Trace:
            traces[step] = self._trace(step)
            return traces[step]

        try:
            fit = predict_fit(request, trace_step, goals, self.working)
        except NotTraced as exc:  # sizes that depend on data, for instance; the measurement is still valid
            return MeasuredAlone(request, summarize(answer, device, None), exc.message)
        fit = _with_context(fit, traces[request], device)
        card = card_of_device(device)
        floor = None if card is None else compute_floor(card, count_work(traces[request]), request)
        return replace(fit, measured=summarize(answer, device, None if floor is None else floor.seconds))

    def _trace(self, request: Request) -> Trace:
        return ask_trace(request, self.python, deadline=self.deadline)


def _card(device: Device) -> GuestCard:
    """Return the card as it was calibrated here, else as torch describes it."""
    calibration = find_calibration(device, load_calibrations())
    return device.card if calibration is None else calibration.card


def _with_context(fit: Fit, trace: Trace, device: Device) -> Fit:
    """Use the CUDA context that was measured on this card. Without a calibration the H200's figures stay."""
    calibration = find_calibration(device, load_calibrations())
    if calibration is None:
        return fit
    own = predict(trace, fit.request, fit.allocator, calibration.context)
    return replace(fit, peak=own.peak, band=own.band, parts=own.parts, smallest_bytes=own.smallest_bytes)
