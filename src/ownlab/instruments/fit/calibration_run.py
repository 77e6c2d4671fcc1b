"""`ownlab fit --calibrate`: measure what CUDA and its libraries take on this card, and check predictions of small models."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ownlab import guest_client
from ownlab.instruments.fit.calibration import Calibration, Check, Context
from ownlab.instruments.fit.guest_client import ask_trace, error_of
from ownlab.instruments.fit.measurement import Settings, ask_measure
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Device, Request, Trouble
from ownlab.text import text

__all__ = ["calibrate", "context_from_stages"]

# The small models (calibration_models.py) that are predicted and measured, and their precision.
CHECKED_MODELS = (
    ("convolutions", "fp32"),
    ("convolutions", "amp-bf16"),
    ("products", "fp32"),
    ("attention", "bf16"),
    ("recurrent", "fp32"),
    ("embeddings", "fp32"),
)
_MODELS_FILE = Path(__file__).resolve().parents[3] / "ownlab_guest" / "fit" / "calibration_models.py"


class Stage(Struct, frozen=True):
    """Memory that the process held after a stage besides tensors, and that libraries kept of torch's memory."""

    name: str
    context_bytes: int
    kept_bytes: int


class Stages(Struct, frozen=True):
    """The answer of the guest."""

    torch: str = ""
    cuda: str | None = None
    cudnn: int | None = None
    device: Device | None = None
    stages: tuple[Stage, ...] = ()
    error: Trouble | None = None


def calibrate(python: str, *, deadline: float) -> Calibration:
    """Measure on the first card that this Python sees."""
    images = _ask(python, "convolutions", deadline)
    products = _ask(python, "products", deadline)
    assert products.device is not None
    calibration = Calibration(
        device=products.device,
        torch=products.torch,
        cuda=products.cuda,
        cudnn=products.cudnn,
        when=time.strftime("%Y-%m-%d"),
        context=context_from_stages(images.stages, products.stages),
        workspace_bytes=products.stages[0].kept_bytes,
    )
    checks = tuple(_check(name, precision, calibration, python, deadline) for name, precision in CHECKED_MODELS)
    return replace(calibration, checks=checks)


def context_from_stages(images: tuple[Stage, ...], products: tuple[Stage, ...]) -> Context:
    """Compute what each stage adds; together they are what was measured last."""
    held = {stage.name: stage.context_bytes for stage in (*images, *products)}
    return Context(
        start=held["start"],
        matmul=max(0, held["matmul"] - held["start"]),
        matmul_backward=max(0, held["matmul_backward"] - max(held["matmul"], held["start"])),
        more_kernels=max(0, held["more_kernels"] - held["matmul_backward"]),
    )


def _ask(python: str, part: str, deadline: float) -> Stages:
    answer = guest_client.ask(python, "fit.calibrate", [part], answer=Stages, deadline=deadline)
    if answer.error is not None:
        raise error_of(answer.error)
    if answer.device is None or not answer.stages:
        raise error_of(Trouble("bad-answer", text("the guest did not report what it measured")))
    return answer


def _check(name: str, precision: str, calibration: Calibration, python: str, deadline: float) -> Check:
    request = Request(target=f"{_MODELS_FILE}:{name}", precision=precision, card=calibration.card)
    predicted = predict(ask_trace(request, python, deadline=deadline), request)
    answer, _ = ask_measure(request, python, Settings(seconds=0, parts=False), deadline=deadline)
    if answer.memory is None:
        raise error_of(
            Trouble("out-of-memory", text("{model} did not run: the card is too full to be calibrated", model=name))
        )
    return Check(name, precision, predicted.peak.allocated_bytes, answer.memory.allocated_bytes)
