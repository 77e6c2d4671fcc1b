"""Results as measures: what they add up to, against what is possible; above it is a measuring error, far below has causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ownlab.catalog import cards as catalogue
from ownlab.catalog.architectures import PCIE_LANE_BYTES, is_datacentre, runs_on
from ownlab.instruments.bench.machine_summary import card_of, disk_of, known_card, torch_of
from ownlab.instruments.bench.records import Limit, Measure, Result, State, device_kind
from ownlab.instruments.bench.statistics import median_of, middle
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Machine

__all__ = ["judge_all", "limit_of", "peak_of", "rate_for_limit"]

# The share of its limit that the best result of a kind reaches where all is well. Products: 78 to 87 % on A100, H100 and B200,
# 61 % on an A6000, 51 % on an MI300X (stas00/ml-engineering 2026-08; mli/transformers-benchmarks). Copies within a card: 90 % on
# an H200. Pinned copies over PCIe: packets have headers, about 85 %.
_FAIR = {"products": 0.45, "frameworks": 0.45, "memory": 0.7, "copies": 0.6}
# A launch takes 2 to 10 µs where the CPU is free; others of the group wait, or do more.
_LAUNCH = "launch back to back"
_SLOW_LAUNCH = 30e-6
_SLOWED = {
    "hw-thermal": "it was too hot, and the hardware slowed it down",
    "sw-thermal": "it was hot, and the driver slowed it down",
    "hw-power-brake": "the power supply told it to slow down",
    "hw-slowdown": "the hardware slowed it down, for heat or power",
    "sw-power-cap": "it reached its power limit, and its clock went down",
    "applications-clocks": "its clock is set lower by hand (nvidia-smi -ac or -lgc)",
}
# What tensor cores do in TF32 is at most so many times the plain rate: 312 to 19.5 TFLOP/s on an A100, with sparsity.
_TF32_GAINS = 16
# Of its greatest clock; a little less than it is usual under full load.
_LOW_CLOCK = 0.75


def judge_all(results: Iterable[Result], machine: Machine) -> tuple[Measure, ...]:
    """All results as measures. Of results of one kind (sizes, say) only the best must come near to the limit."""
    pairs = [(result, _measure(result, machine)) for result in results if _is_usable(result)]
    best: dict[tuple[str, str, str], float] = {}
    for _, measure in pairs:
        key = _kind(measure)
        best[key] = max(best.get(key, 0.0), measure.share_of_peak or 0.0)
    return tuple(_judged(measure, machine, best[_kind(measure)]) for _, measure in pairs)


def _is_usable(result: Result) -> bool:
    return bool(result.seconds) and all(each > 0 for each in result.seconds) and result.work > 0


def _kind(measure: Measure) -> tuple[str, str, str]:
    return (measure.group, measure.device, _direction(measure) if measure.group == "copies" else measure.dtype)


def _direction(measure: Measure) -> str:
    return "pageable" if "pageable" in measure.name else "pinned"


def _measure(result: Result, machine: Machine) -> Measure:
    is_time = result.unit == "s"
    found = middle(result.seconds if is_time else [result.work / each for each in result.seconds])
    limit = limit_of(result, card_of(machine, result.device))
    rate = rate_for_limit(result)
    return Measure(
        name=result.name,
        group=result.group,
        device=disk_of(machine, result.device) if device_kind(result.device) == "disk" else result.device,
        dtype=result.dtype,
        shape=result.shape,
        unit=result.unit,
        median=found.median,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        count=len(result.seconds),
        seconds=result.seconds,
        percentiles=result.percentiles,
        share_of_peak=None if limit is None or rate is None else rate / limit.value,
        limit=limit,
        before=result.before,
        after=result.after,
        note=result.note,
    )


def _judged(measure: Measure, machine: Machine, best: float) -> Measure:
    card = card_of(machine, measure.device)
    limit, share = measure.limit, measure.share_of_peak
    if limit is not None and share is not None and share > 1 + limit.slack:
        return replace(measure, verdict="above-limit", why=tuple(_errors(measure)))
    if measure.name == _LAUNCH and device_kind(measure.device) == "cuda" and measure.median > _SLOW_LAUNCH:
        return replace(measure, verdict="low", why=tuple(_slow_launch(machine)))
    fair = _FAIR.get(measure.group)
    pageable = measure.group == "copies" and _direction(measure) == "pageable"
    if fair is None or share is None or card is None or pageable:
        return replace(measure, verdict="unjudged" if share is None else "fine")
    if share == best and share < fair:
        return replace(measure, verdict="low", why=tuple(_causes(measure, card, machine)))
    return replace(measure, verdict="fine")


def _errors(measure: Measure) -> Iterator[str]:
    assert measure.limit is not None
    assert measure.share_of_peak is not None
    times = f"{measure.share_of_peak:,.0f}" if measure.share_of_peak >= 100 else f"{measure.share_of_peak:.3g}"
    yield f"a measuring error: {times} times the {measure.limit.named}"
    if measure.group == "memory":
        yield "the data came out of a cache, or nobody waited for the card"
    elif measure.group == "copies":
        yield "nobody waited for the copy, or the link is wider than the driver says (virtual machines hide it)"
    elif measure.dtype == "fp32" and measure.share_of_peak < _TF32_GAINS:
        yield "tensor cores did it in TF32, or nobody waited for the card"
    else:
        yield "nobody waited for the card, or the catalogue's figure is of another card"


def _slow_launch(machine: Machine) -> Iterator[str]:
    virtual = value_of(machine.host.virtualisation)
    if virtual in ("wsl2", "wsl1") or value_of(machine.host.family) == "windows":
        yield "under Windows each launch passes its display driver"
    yield "the CPU is slow, or busy with other work"


def _causes(measure: Measure, card: Card, machine: Machine) -> Iterator[str]:
    """What the clocks beside the figure and the machine tell; where that is nothing, that too."""
    said = [*_from_clocks(measure, card), *_from_machine(measure, card, machine)]
    yield from said or ["neither clocks nor machine tell why: try again with nothing else on the card"]


def _from_clocks(measure: Measure, card: Card) -> Iterator[str]:
    states = [state for state in (measure.before, measure.after) if state is not None]
    reasons = dict.fromkeys(reason for state in states for reason in state.throttle)
    yield from (_SLOWED[reason] for reason in reasons if reason in _SLOWED)
    clock, most = _clock(measure.after), value_of(card.clocks.sm_max)
    if measure.group != "copies" and clock is not None and most and clock < _LOW_CLOCK * most:
        yield f"its clock was {clock:.0f} MHz of {most}"


def _clock(state: State | None) -> float | None:
    return None if state is None else state.clock_mhz


def _from_machine(measure: Measure, card: Card, machine: Machine) -> Iterator[str]:
    if any(process.kind == "compute" for process in value_of(card.processes) or ()):
        yield "others use the card"
    if measure.group == "copies":
        yield from _from_link(card)
        return
    known = known_card(card)
    usual = None if known is None else known.value("power_w")
    power = value_of(card.power_limit)
    if usual and power and power < 0.9 * usual:
        yield f"its power limit is {power:.0f} W, where such a card has {usual:.0f} W"
    if measure.group in ("products", "frameworks"):
        yield from _from_build(measure, card, machine)


def _from_link(card: Card) -> Iterator[str]:
    width, widest = value_of(card.pcie.width), value_of(card.pcie.width_max)
    if width and widest and width < widest:
        yield f"the card sits on x{width} of x{widest} lanes"
    generation, most = value_of(card.pcie.generation), value_of(card.pcie.generation_max)
    if generation and most and generation < most:
        yield f"when it was looked at, the link ran at PCIe {generation}.0 of {most}.0 (an idle card lowers it)"


def _from_build(measure: Measure, card: Card, machine: Machine) -> Iterator[str]:
    known = known_card(card)
    plain = None if known is None else known.value("fp32_tflops")
    if plain and measure.dtype in ("tf32", "fp16", "bf16") and measure.median <= 1.1e12 * plain:
        yield "no faster than its plain units: tensor cores were not used (sizes no multiple of 8, or the build)"
    torch = torch_of(machine)
    built = None if torch is None else value_of(torch.arch_list)
    capability = value_of(card.compute_capability)
    if built and capability and not runs_on([code for code in built if code.startswith("sm_")], capability):
        yield f"this torch has no code for sm_{capability.replace('.', '')}: it runs what the driver makes of older code"


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
