"""What CUDA itself takes on a card beside all tensors: its context, the kernels it loads, the handles of its libraries.

Measured on one card and one torch; elsewhere it is a guess, and said to be one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ownlab.config.paths import state_folder
from ownlab.errors import RecordError
from ownlab.files import write_file
from ownlab.instruments.fit.records import Device, GuestCard, Request, Trace
from ownlab.json_encoding import encode_json
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

# The sums of these lay as near to what was measured.
CONTEXT_ERROR = 4 * MIB


class Context(Struct, frozen=True):
    """Bytes of one card, with one torch."""

    start: int  # the context and torch's own kernels; convolutions alone take no more
    matmul: int  # cuBLAS: a handle for the thread of the forward pass
    matmul_backward: int  # and one for that of the backward pass
    more_kernels: int  # where matrices are multiplied in 16 bits, or beside convolutions and recurrent layers


# NVML's figure of a process on an H200, less what torch had reserved, after three steps of 25 models; torch 2.11.0+cu130,
# driver 580, 2026-11-15. After torch.zeros(1) alone it is 610 MiB.
H200 = Context(start=632 * MIB, matmul=54 * MIB, matmul_backward=56 * MIB, more_kernels=18 * MIB)


def predict_context(trace: Trace, request: Request, context: Context = H200) -> int:
    """What the step's libraries take."""
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
    """A small model: predicted for this card, and measured."""

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
    workspace_bytes: int  # that cuBLAS keeps of torch's memory, for one thread
    checks: tuple[Check, ...] = ()
    version: int = 1

    @property
    def card(self) -> GuestCard:
        """The card as traces for it ask."""
        return replace(self.device.card, cublas_bytes=self.workspace_bytes or None)

    @property
    def worst(self) -> float:
        """How far the worst of the predictions is off, as a share of what was measured."""
        return max((abs(one.predicted_bytes / one.measured_bytes - 1) for one in self.checks), default=0.0)


# -- kept in the state folder --------------------------------------------------------------------------------------------


def save_calibration(calibration: Calibration, environ: Mapping[str, str] = os.environ) -> Path:
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


def find_calibration(device: Device, known: tuple[Calibration, ...]) -> Calibration | None:
    """The one that was made on such a card."""
    return next((one for one in known if one.device.name == device.name), None)
