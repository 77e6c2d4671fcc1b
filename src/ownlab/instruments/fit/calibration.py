"""Calibrations: the memory that CUDA takes on a card besides tensors (context, loaded kernels, library handles).

The built-in figures were measured on an H200. `ownlab fit --calibrate` (calibration_run.py) measures them on the user's own
card; calibrations are stored in the state folder, and every prediction for that card uses them (pipeline.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ownlab.atomic_files import write_file
from ownlab.config.paths import state_folder
from ownlab.errors import RecordError
from ownlab.input_files import read_bytes
from ownlab.instruments.fit.records import Device, GuestCard, Request, Trace
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import text
from ownlab.units import MIB

__all__ = [
    "CONTEXT_ERROR",
    "H200",
    "Calibration",
    "Check",
    "Context",
    "find_calibration",
    "load_calibrations",
    "predict_context",
    "save_calibration",
]

# The sums of these figures were at most this far from the measurements.
CONTEXT_ERROR = 4 * MIB


class Context(Struct, frozen=True):
    """Bytes that CUDA takes on one card, with one torch."""

    start: int  # the context and torch's own kernels; enough for convolutions
    matmul: int  # the cuBLAS handle of the forward thread
    matmul_backward: int  # the cuBLAS handle of the backward thread
    more_kernels: int  # for 16-bit matrix products, or products besides convolutions and recurrent layers


# The process's memory according to NVML on an H200, minus what torch had reserved, after three steps of 25 models;
# torch 2.11.0+cu130, driver 580, 2026-11-15. After torch.zeros(1) alone it is 610 MiB.
H200 = Context(start=632 * MIB, matmul=54 * MIB, matmul_backward=56 * MIB, more_kernels=18 * MIB)


def predict_context(trace: Trace, request: Request, context: Context = H200) -> int:
    """Predict what CUDA and the libraries of the step take."""
    operations = {(tag.op.removeprefix("aten.").partition(".")[0], tag.phase) for tag in trace.tags}
    products = {phase for op, phase in operations if op in ("mm", "addmm", "bmm", "baddbmm")}
    more = any("convolution" in op or "rnn" in op for op, _ in operations)
    size = context.start
    if products:
        size += context.matmul
        size += context.matmul_backward if "backward" in products else 0
        half = request.precision not in ("fp32", "tf32")
        size += context.more_kernels if request.train and (half or more) else 0
    return size


class Check(Struct, frozen=True):
    """A small model, predicted for this card and measured on it."""

    name: str
    precision: str
    predicted_bytes: int  # allocated
    measured_bytes: int


class Calibration(Struct, frozen=True):
    """`ownlab fit --calibrate --json`: one card with one torch."""

    device: Device
    torch: str
    cuda: str | None
    cudnn: int | None
    when: str
    context: Context
    workspace_bytes: int  # what cuBLAS keeps of torch's memory for one thread
    checks: tuple[Check, ...] = ()
    version: int = 1

    @property
    def card(self) -> GuestCard:
        """The card as requests for traces describe it."""
        return replace(self.device.card, cublas_bytes=self.workspace_bytes or None)

    @property
    def worst(self) -> float:
        """The largest relative error of the checks."""
        return max((abs(check.predicted_bytes / check.measured_bytes - 1) for check in self.checks), default=0.0)


# -- stored in the state folder ------------------------------------------------------------------------------------------


def save_calibration(calibration: Calibration, environ: Mapping[str, str] = os.environ) -> Path:
    """Write a calibration where predictions find it; it replaces the previous one for a card of this name."""
    folder = state_folder(environ) / "calibrations"
    folder.mkdir(exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", calibration.device.name.lower()).strip("-")
    path = folder / f"{slug}.json"
    write_file(path, msgspec.json.format(encode_json(calibration), indent=1))
    return path


def load_calibrations(environ: Mapping[str, str] = os.environ) -> tuple[Calibration, ...]:
    """Return all calibrations of this user."""
    folder = state_folder(environ, make=False) / "calibrations"
    return tuple(_read(path) for path in sorted(folder.glob("*.json")))


def _read(path: Path) -> Calibration:
    hint = text("Remove it, or calibrate again: ownlab fit --calibrate")
    data = read_bytes(path, hint=hint)
    try:
        calibration = decode_json(data, Calibration)
    except msgspec.DecodeError as exc:
        message = text("The calibration {path} cannot be read: {reason}.", path=path, reason=exc)
        raise RecordError(message, hint=hint) from exc
    if calibration.version != 1:
        raise RecordError(
            text(
                "The calibration {path} was made by a newer ownlab (format {format}).",
                path=path,
                format=calibration.version,
            )
        )
    return calibration


def find_calibration(device: Device, known: tuple[Calibration, ...]) -> Calibration | None:
    """Return the calibration that was made on such a card."""
    return next((calibration for calibration in known if calibration.device.name == device.name), None)
