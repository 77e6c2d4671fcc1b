"""`ownlab fit --calibrate`: what CUDA and its libraries take on the present card; kept for predictions of that card."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ownlab import guest_client
from ownlab.config.paths import state_folder
from ownlab.errors import RecordError
from ownlab.files import write_file
from ownlab.instruments.fit.calibration import Calibration, Check
from ownlab.instruments.fit.card_fit import judge
from ownlab.instruments.fit.card_specs import Card
from ownlab.instruments.fit.cuda_context import Context
from ownlab.instruments.fit.guest_client import ask_trace, refusal
from ownlab.instruments.fit.measurement import Settings, ask_measure, card_of
from ownlab.instruments.fit.predict import predict
from ownlab.instruments.fit.records import Device, Fit, Request, Trace, Trouble
from ownlab.instruments.fit.roofline import work_of
from ownlab.json_encoding import encode_json

__all__ = ["calibrate", "calibration_of", "context_of", "load_calibrations", "save", "with_calibrations"]

# Which probes are predicted and measured, and in which precision.
PROBES = (
    ("convolutions", "fp32"),
    ("convolutions", "amp-bf16"),
    ("products", "fp32"),
    ("attention", "bf16"),
    ("recurrent", "fp32"),
    ("embeddings", "fp32"),
)
_PROBES_FILE = Path(__file__).resolve().parents[3] / "ownlab_guest" / "fit" / "calibration_models.py"


class Stage(Struct, frozen=True):
    """What the process held after it, beside tensors; and what libraries kept of torch's memory."""

    name: str
    context_bytes: int
    kept_bytes: int


class Stages(Struct, frozen=True):
    """The guest's answer."""

    torch: str = ""
    cuda: str | None = None
    cudnn: int | None = None
    device: Device | None = None
    stages: tuple[Stage, ...] = ()
    error: Trouble | None = None


def calibrate(python: str, *, deadline: float) -> Calibration:
    """Measure on the card that this Python sees first."""
    images = _ask(python, "convolutions", deadline)
    products = _ask(python, "products", deadline)
    assert products.device is not None
    calibration = Calibration(
        device=products.device,
        torch=products.torch,
        cuda=products.cuda,
        cudnn=products.cudnn,
        when=time.strftime("%Y-%m-%d"),
        context=context_of(images.stages, products.stages),
        workspace_bytes=products.stages[0].kept_bytes,
    )
    checks = tuple(_check(name, precision, calibration, python, deadline) for name, precision in PROBES)
    return replace(calibration, checks=checks)


def context_of(images: tuple[Stage, ...], products: tuple[Stage, ...]) -> Context:
    """Each stage by what it adds; all of them together are what was measured last."""
    held = {stage.name: stage.context_bytes for stage in (*images, *products)}
    return Context(
        start=held["start"],
        matmul=max(0, held["matmul"] - held["start"]),
        matmul_backward=max(0, held["matmul_backward"] - max(held["matmul"], held["start"])),
        more_kernels=max(0, held["more_kernels"] - held["matmul_backward"]),
    )


def _ask(python: str, part: str, deadline: float) -> Stages:
    said = guest_client.ask(python, "fit.calibrate", [part], answer=Stages, deadline=deadline)
    if said.error is not None:
        raise refusal(said.error)
    if said.device is None or not said.stages:
        raise refusal(Trouble("bad-answer", "the guest does not say what it measured"))
    return said


def _check(name: str, precision: str, calibration: Calibration, python: str, deadline: float) -> Check:
    request = Request(target=f"{_PROBES_FILE}:{name}", precision=precision, card=calibration.card)
    predicted = predict(ask_trace(request, python, deadline=deadline), request)
    answer, _ = ask_measure(request, python, Settings(seconds=0, parts=False), deadline=deadline)
    if answer.memory is None:
        raise refusal(Trouble("out-of-memory", f"{name} did not run: the card is too full to be calibrated"))
    return Check(name, precision, predicted.peak.allocated_bytes, answer.memory.allocated_bytes)


# -- kept in the state folder --------------------------------------------------------------------------------------------


def save(calibration: Calibration, environ: Mapping[str, str] = os.environ) -> Path:
    """Write it where predictions find it; one for each card's name replaces the one before."""
    folder = state_folder(environ) / "calibrations"
    folder.mkdir(exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", calibration.device.name.lower()).strip("-")
    path = folder / f"{slug}.json"
    write_file(path, msgspec.json.format(encode_json(calibration), indent=1))
    return path


def load_calibrations(environ: Mapping[str, str] = os.environ) -> tuple[Calibration, ...]:
    """All that this person has made."""
    folder = state_folder(environ, make=False) / "calibrations"
    return tuple(_read(path) for path in sorted(folder.glob("*.json")))


def _read(path: Path) -> Calibration:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.DecodeError) as exc:
        raise RecordError(
            f"the calibration {path} cannot be read: {exc}", hint="Remove it, or make it anew: ownlab fit --calibrate"
        ) from exc
    if found.version != 1:
        raise RecordError(f"the calibration {path} is of a newer ownlab (format {found.version})")
    return found


def calibration_of(device: Device, known: tuple[Calibration, ...]) -> Calibration | None:
    """The one that was made on such a card."""
    return next((one for one in known if one.device.name == device.name), None)


# -- used ----------------------------------------------------------------------------------------------------------------


def with_calibrations(
    fit: Fit, cards: tuple[Card, ...], traced: Callable[[Request], Trace], known: tuple[Calibration, ...]
) -> Fit:
    """Cards that were calibrated here are judged by a trace for their own kernels, and by their own context."""
    by_name = {card.name: one for one in known if (card := card_of(one.device)) is not None}
    judged = list(fit.cards)
    for place, card in enumerate(cards):
        calibration = by_name.get(card.name)
        if calibration is None:
            continue
        request = replace(fit.request, card=calibration.card)
        trace = traced(request)
        own = predict(trace, request, fit.allocator, calibration.context)
        found = judge(own, card, work_of(trace))
        judged[place] = replace(found, calibrated=True, biggest_batch=fit.cards[place].biggest_batch)
    return replace(fit, cards=tuple(judged))
