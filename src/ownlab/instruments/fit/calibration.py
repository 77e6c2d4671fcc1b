"""What was measured of a card itself, as it is kept and shown."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ownlab.instruments.fit.cuda_context import Context
from ownlab.instruments.fit.records import Device, GuestCard

__all__ = ["Calibration", "Check"]


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
