"""What no measurement on a card can exceed: its peaks and its bandwidth from the catalogue, its link from the driver."""

from __future__ import annotations

from ownlab.catalog import cards as catalogue
from ownlab.catalog.architectures import is_datacentre
from ownlab.catalog.pcie import PCIE_LANE_BYTES
from ownlab.instruments.bench.records import Limit, Result
from ownlab.instruments.bench.statistics import median_of
from ownlab.instruments.bench.summary import known_card
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card

__all__ = ["limit_of", "peak_of", "rate_for_limit"]

_PEAKS: dict[str, catalogue.FigureName] = {
    "fp64": "fp64_tflops",
    "fp32": "fp32_tflops",
    "tf32": "tf32_tflops",
    "fp16": "fp16_tflops",
    "bf16": "bf16_tflops",
    "fp8": "fp8_tflops",
}
# Cards without tensor cores do 16 bits in their plain units; what they reach there is not in the catalogue.
_GROUPS_OF_ARITHMETIC = ("products", "layers", "training", "inference", "frameworks")
# Tensor cores of these do fp64 too, at twice the plain rate: 19.5 TFLOP/s on an A100, whose plain rate is 9.7 (NVIDIA's white paper,
# after forums.developer.nvidia.com/t/259131); 34 and 67 on an H100 SXM, 26 and 51 on an H100 PCIe (NVIDIA's table, after
# archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html). Both read 2026-11-15.
_FP64_TENSOR = ("8.0", "9.0")
# A data sheet's peak is at the boost clock. Boards for desktops go beyond it by themselves: an RTX 4090 did 172 TFLOP/s
# of 165, a 3090 Ti 81 of 80 (mli/transformers-benchmarks); those for servers hold to it.
_SLACK_SERVER, _SLACK_DESKTOP, _SLACK_LINK = 0.02, 0.2, 0.02
# Not by PCIe: Grace's cards have NVLink to the host.
_WITH_C2C = ("GH200", "GB200", "GB300", "GB10")


def limit_of(result: Result, card: Card | None) -> Limit | None:
    """The limit of a result on this card; None where none is known, or where a part of a card was measured."""
    if card is None or value_of(card.mig):
        return None
    if result.group == "copies":
        return _link(card)
    known = known_card(card)
    if known is None:
        return None
    if result.group == "memory" and result.unit == "B/s":
        return _from(known, "bandwidth_gb_s", 1e9, "memory bandwidth", _SLACK_SERVER)
    if result.group in _GROUPS_OF_ARITHMETIC and rate_for_limit(result) is not None:
        return peak_of(known, result.dtype)
    return None


def rate_for_limit(result: Result) -> float | None:
    """Work a second in the limit's own unit: a step's images or tokens count as the FLOPs that they take."""
    seconds = median_of(result.seconds)
    if result.unit in ("FLOP/s", "B/s"):
        return result.work / seconds
    return None if not result.flops else result.flops / seconds


def peak_of(card: catalogue.Card, dtype: str) -> Limit | None:
    """The arithmetic peak of a card for a type; "amp-bf16" is bf16's."""
    dtype = dtype.rpartition("-")[2]
    figure = _PEAKS.get(dtype)
    if figure is None:
        return None
    tensor = dtype == "fp64" and card.capability in _FP64_TENSOR
    slack = _SLACK_SERVER if is_datacentre(card.name) else _SLACK_DESKTOP
    what = f"{dtype}{' tensor' if tensor else ''} peak"
    return _from(card, figure, 2e12 if tensor else 1e12, what, slack)


def _from(card: catalogue.Card, figure: catalogue.FigureName, factor: float, what: str, slack: float) -> Limit | None:
    found = card.figure(figure)
    if isinstance(found, catalogue.Unstated):
        return None
    source = catalogue.load_sources().get(found.source)
    said = found.source if source is None else source.title
    return Limit(found.value * factor, what, f"{said}, {found.as_of}" if found.as_of else said, card.name, slack)


def _link(card: Card) -> Limit | None:
    """The link at the generation that it reaches under load: an idle card lowers it, and its width stays."""
    generation, width = value_of(card.pcie.generation_max), value_of(card.pcie.width)
    name = value_of(card.name) or ""
    if generation not in PCIE_LANE_BYTES or not width or any(word in name for word in _WITH_C2C):
        return None
    return Limit(
        PCIE_LANE_BYTES[generation] * width,
        f"PCIe {generation}.0 x{width}",
        "PCI-SIG; the link as NVML tells it",
        slack=_SLACK_LINK,
    )
