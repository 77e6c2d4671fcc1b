"""What the operators of a step compute, and how long the card would need for it at its best.

Floating-point operations follow from the shapes that the profiler noted. Rates are those of the catalogue; what good kernels reach
of them was measured on an H200 (`bench`: 93 % of the tensor cores' rate is not reached outside of large square products).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import prod

from ownlab.catalog.cards import Card, find_card
from ownlab.errors import OwnlabError
from ownlab.instruments.why.gpu.records import GpuEvidence, Operation

__all__ = ["CONVOLUTIONS", "HALF", "PRODUCTS", "REACHED", "CardRates", "flops_of", "is_half", "is_product"]

PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_addmm_activation"))
CONVOLUTIONS = frozenset(
    (
        "aten::cudnn_convolution",
        "aten::cudnn_convolution_relu",
        "aten::convolution_backward",
        "aten::_convolution",
        "aten::convolution",
        "aten::conv_depthwise3d",
        "aten::_conv_depthwise2d",
    )
)
HALF = ("c10::BFloat16", "c10::Half")
# The share of the catalogue's rate that large products reach; and that of the memory's bandwidth in elementwise kernels.
REACHED, _BANDWIDTH_REACHED = 0.65, 0.8


def is_product(operation: Operation) -> bool:
    """Whether the operator multiplies matrices, or convolves: what tensor cores are for."""
    return operation.op in PRODUCTS or operation.op in CONVOLUTIONS


def is_half(operation: Operation) -> bool:
    """Whether its tensors have 16 bits."""
    return any(kind in HALF for kind in operation.types)


def flops_of(operation: Operation) -> float:
    """Floating-point operations of one call; 0 where the shapes do not say it."""
    shapes = [shape for shape in operation.shapes if shape]
    name = operation.op
    if name in ("aten::mm", "aten::bmm") and len(shapes) >= 2:
        return 2.0 * prod(shapes[0]) * shapes[1][-1]
    if name in ("aten::addmm", "aten::baddbmm", "aten::_addmm_activation") and len(shapes) >= 3:
        return 2.0 * prod(shapes[1]) * shapes[2][-1]
    if name == "aten::convolution_backward" and len(shapes) >= 3:
        return 4.0 * prod(shapes[0]) * prod(shapes[2][1:])
    return 0.0


class CardRates:
    """The rates of the card of a run, from the catalogue. None where the card is not in it."""

    def __init__(self, evidence: GpuEvidence) -> None:
        self._evidence = evidence

    @cached_property
    def card(self) -> Card | None:
        """The card."""
        try:
            return find_card(self._evidence.card.name, self._evidence.card.memory)
        except OwnlabError:
            return None

    def tflops(self, kind: str) -> float | None:
        """The rate of "fp32", "tf32" or "bf16" products, in 10¹² operations a second."""
        if self.card is None:
            return None
        if kind == "bf16":
            return self.card.value("bf16_tflops") or self.card.value("fp16_tflops")
        return self.card.value("tf32_tflops" if kind == "tf32" else "fp32_tflops")

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second that kernels reach."""
        value = None if self.card is None else self.card.value("bandwidth_gb_s")
        return None if value is None else value * 1e9 * _BANDWIDTH_REACHED

    def faster(self, old: str, new: str) -> float:
        """How many times faster products are in another precision; 1 if it is not known."""
        before, after = self.tflops(old), self.tflops(new)
        return 1.0 if not before or not after else max(1.0, after * REACHED / (before * 0.9))

    def pcie(self) -> float:
        """Bytes per second of copies from pinned memory: by the generation of PCIe that cards of this age have."""
        major = self._evidence.card.capability[0]
        return 50e9 if major >= 9 else 22e9 if major == 8 else 11e9


def achieved_tflops(operations: Iterable[Operation], seconds: float) -> float:
    """10¹² operations per second in so many seconds of kernels."""
    return sum(flops_of(each) * each.count for each in operations) / max(1e-9, seconds) / 1e12
