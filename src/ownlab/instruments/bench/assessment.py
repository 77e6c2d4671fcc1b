"""The assessment of results: medians, limits of the card, measurement errors, and causes of low results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ownlab.catalog import cards as catalogue
from ownlab.catalog.architectures import PCIE_LANE_BYTES, is_datacentre, runs_on
from ownlab.instruments.bench.machine_summary import catalogue_card, describe_disk, find_card, find_torch
from ownlab.instruments.bench.records import Limit, Measure, Result, State, device_kind
from ownlab.instruments.bench.statistics import median_interval, median_of
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Machine
from ownlab.text import sentences, text

__all__ = ["arithmetic_peak", "assess_results", "find_limit", "rate_for_limit"]

# The share of its limit that the best result of a kind reaches on a healthy machine. Products: 78 to 87 % on A100, H100 and B200,
# 61 % on an A6000, 51 % on an MI300X (stas00/ml-engineering 2026-08; mli/transformers-benchmarks). Copies within a card: 90 % on
# an H200. Pinned copies over PCIe: about 85 %, because packets have headers.
_NORMAL_SHARE = {"products": 0.45, "frameworks": 0.45, "memory": 0.7, "copies": 0.6}
# A launch takes 2 to 10 µs on an idle CPU. Other tests of the group wait, or do more.
_LAUNCH = "launch back to back"
_SLOW_LAUNCH = 30e-6
_THROTTLE_CAUSES = {
    "hw-thermal": text("The card was too hot, and the hardware throttled it."),
    "sw-thermal": text("The card was hot, and the driver throttled it."),
    "hw-power-brake": text("The power supply throttled the card."),
    "hw-slowdown": text("The hardware throttled the card because of heat or power."),
    "sw-power-cap": text("The card reached its power limit and reduced its clock."),
    "applications-clocks": text("The clock of the card is limited by hand (nvidia-smi -ac or -lgc)."),
}
# TF32 on tensor cores is at most this many times faster than fp32: 312 to 19.5 TFLOP/s on an A100, with sparsity.
_TF32_SPEEDUP = 16
# Share of the maximum clock; slightly below it is normal under full load.
_LOW_CLOCK = 0.75


def assess_results(results: Iterable[Result], machine: Machine) -> tuple[Measure, ...]:
    """Assess all results. Among results of one kind (several sizes), only the best must come near the limit."""
    measures = [_measure(result, machine) for result in results if _is_valid(result)]
    best: dict[tuple[str, str, str], float] = {}
    for measure in measures:
        key = _kind(measure)
        best[key] = max(best.get(key, 0.0), measure.share_of_peak or 0.0)
    return tuple(_assess(measure, machine, best[_kind(measure)]) for measure in measures)


def _is_valid(result: Result) -> bool:
    return bool(result.seconds) and all(seconds > 0 for seconds in result.seconds) and result.work > 0


def _kind(measure: Measure) -> tuple[str, str, str]:
    return (measure.group, measure.device, _memory_kind(measure) if measure.group == "copies" else measure.dtype)


def _memory_kind(measure: Measure) -> str:
    return "pageable" if "pageable" in measure.name else "pinned"


def _measure(result: Result, machine: Machine) -> Measure:
    is_time = result.unit == "s"
    interval = median_interval(result.seconds if is_time else [result.work / seconds for seconds in result.seconds])
    limit = find_limit(result, find_card(machine, result.device))
    rate = rate_for_limit(result)
    return Measure(
        name=result.name,
        group=result.group,
        device=describe_disk(machine, result.device) if device_kind(result.device) == "disk" else result.device,
        dtype=result.dtype,
        shape=result.shape,
        unit=result.unit,
        median=interval.median,
        low=interval.low,
        high=interval.high,
        confidence=interval.confidence,
        count=len(result.seconds),
        seconds=result.seconds,
        percentiles=result.percentiles,
        share_of_peak=None if limit is None or rate is None else rate / limit.value,
        limit=limit,
        before=result.before,
        after=result.after,
        note=sentences(*result.notes),
    )


def _assess(measure: Measure, machine: Machine, best: float) -> Measure:
    card = find_card(machine, measure.device)
    limit, share = measure.limit, measure.share_of_peak
    if limit is not None and share is not None and share > 1 + limit.slack:
        return replace(measure, verdict="above-limit", why=tuple(_error_causes(measure)))
    if measure.name == _LAUNCH and device_kind(measure.device) == "cuda" and measure.median > _SLOW_LAUNCH:
        return replace(measure, verdict="low", why=tuple(_slow_launch_causes(machine)))
    normal = _NORMAL_SHARE.get(measure.group)
    pageable = measure.group == "copies" and _memory_kind(measure) == "pageable"
    if normal is None or share is None or card is None or pageable:
        return replace(measure, verdict="unjudged" if share is None else "fine")
    if share == best and share < normal:
        return replace(measure, verdict="low", why=tuple(_causes(measure, card, machine)))
    return replace(measure, verdict="fine")


def _error_causes(measure: Measure) -> Iterator[str]:
    assert measure.limit is not None
    assert measure.share_of_peak is not None
    times = f"{measure.share_of_peak:,.0f}" if measure.share_of_peak >= 100 else f"{measure.share_of_peak:.3g}"
    yield text("This is a measurement error: {times} times the {limit}.", times=times, limit=measure.limit.named)
    if measure.group == "memory":
        yield text("The data came from a cache, or the test did not wait for the card.")
    elif measure.group == "copies":
        yield text("The test did not wait for the copy, or the link is wider than reported (virtual machines hide it).")
    elif measure.dtype == "fp32" and measure.share_of_peak < _TF32_SPEEDUP:
        yield text("Tensor cores computed in TF32, or the test did not wait for the card.")
    else:
        yield text("The test did not wait for the card, or the catalogue has the peak of another card.")


def _slow_launch_causes(machine: Machine) -> Iterator[str]:
    virtual = value_of(machine.host.virtualisation)
    if virtual in ("wsl2", "wsl1") or value_of(machine.host.family) == "windows":
        yield text("On Windows each launch passes through the display driver.")
    yield text("The CPU is slow, or busy with other work.")


def _causes(measure: Measure, card: Card, machine: Machine) -> Iterator[str]:
    """Yield causes from the clocks during the test and from the machine; a general one if there are none."""
    causes = [*_clock_causes(measure, card), *_machine_causes(measure, card, machine)]
    yield from causes or [text("The cause is unknown. Try again with nothing else on the card.")]


def _clock_causes(measure: Measure, card: Card) -> Iterator[str]:
    states = [state for state in (measure.before, measure.after) if state is not None]
    reasons = dict.fromkeys(reason for state in states for reason in state.throttle)
    yield from (_THROTTLE_CAUSES[reason] for reason in reasons if reason in _THROTTLE_CAUSES)
    clock, most = _clock(measure.after), value_of(card.clocks.sm_max)
    if measure.group != "copies" and clock is not None and most and clock < _LOW_CLOCK * most:
        yield text("Its clock was {clock:.0f} MHz of {most} MHz.", clock=clock, most=most)


def _clock(state: State | None) -> float | None:
    return None if state is None else state.clock_mhz


def _machine_causes(measure: Measure, card: Card, machine: Machine) -> Iterator[str]:
    if any(process.kind == "compute" for process in value_of(card.processes) or ()):
        yield text("Other processes use the card.")
    if measure.group == "copies":
        yield from _link_causes(card)
        return
    known = catalogue_card(card)
    usual = None if known is None else known.value("power_w")
    power = value_of(card.power_limit)
    if usual and power and power < 0.9 * usual:
        yield text("Its power limit is {power:.0f} W instead of the usual {usual:.0f} W.", power=power, usual=usual)
    if measure.group in ("products", "frameworks"):
        yield from _build_causes(measure, card, machine)


def _link_causes(card: Card) -> Iterator[str]:
    width, widest = value_of(card.pcie.width), value_of(card.pcie.width_max)
    if width and widest and width < widest:
        yield text("The card uses {width} of {widest} PCIe lanes.", width=width, widest=widest)
    generation, most = value_of(card.pcie.generation), value_of(card.pcie.generation_max)
    if generation and most and generation < most:
        yield text(
            "Before the test, the link ran at PCIe {generation}.0 instead of {most}.0 (idle cards reduce it).",
            generation=generation,
            most=most,
        )


def _build_causes(measure: Measure, card: Card, machine: Machine) -> Iterator[str]:
    known = catalogue_card(card)
    plain = None if known is None else known.value("fp32_tflops")
    if plain and measure.dtype in ("tf32", "fp16", "bf16") and measure.median <= 1.1e12 * plain:
        yield text("Tensor cores were not used (sizes that are not multiples of 8, or the build of torch).")
    torch = find_torch(machine)
    built = None if torch is None else value_of(torch.arch_list)
    capability = value_of(card.compute_capability)
    if built and capability and not runs_on([code for code in built if code.startswith("sm_")], capability):
        yield text(
            "This torch has no code for {architecture}: the driver compiles what was made for older cards.",
            architecture=f"sm_{capability.replace('.', '')}",
        )


_PEAKS: dict[str, catalogue.FigureName] = {
    "fp64": "fp64_tflops",
    "fp32": "fp32_tflops",
    "tf32": "tf32_tflops",
    "fp16": "fp16_tflops",
    "bf16": "bf16_tflops",
    "fp8": "fp8_tflops",
}
# Cards without tensor cores compute 16-bit types in other units; that peak is not in the catalogue.
_ARITHMETIC_GROUPS = ("products", "layers", "training", "inference", "frameworks")
# Compute capabilities whose tensor cores do fp64 too, at twice the rate of the FP64 units: 19.5 TFLOP/s on an A100, whose FP64 units reach 9.7 (NVIDIA's white paper,
# after forums.developer.nvidia.com/t/259131); 34 and 67 on an H100 SXM, 26 and 51 on an H100 PCIe (NVIDIA's table, after
# archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html). Both read 2026-11-15.
_FP64_TENSOR = ("8.0", "9.0")
# A data sheet's peak is at the boost clock. Desktop boards exceed it by themselves: an RTX 4090 reached 172 TFLOP/s
# of 165, a 3090 Ti 81 of 80 (mli/transformers-benchmarks). Server boards do not.
_SLACK_SERVER, _SLACK_DESKTOP, _SLACK_LINK = 0.02, 0.2, 0.02
# Not connected by PCIe: cards with Grace CPUs have NVLink to the host.
_WITH_C2C = ("GH200", "GB200", "GB300", "GB10")


def find_limit(result: Result, card: Card | None) -> Limit | None:
    """Return the limit of a result on this card; None if it is unknown, or for a MIG instance."""
    if card is None or value_of(card.mig):
        return None
    if result.group == "copies":
        return _link_limit(card)
    known = catalogue_card(card)
    if known is None:
        return None
    if result.group == "memory" and result.unit == "B/s":
        return _catalogue_limit(known, "bandwidth_gb_s", 1e9, text("memory bandwidth"), _SLACK_SERVER)
    if result.group in _ARITHMETIC_GROUPS and rate_for_limit(result) is not None:
        return arithmetic_peak(known, result.dtype)
    return None


def rate_for_limit(result: Result) -> float | None:
    """Return the rate in the unit of the limit: the images or tokens of a step count as FLOPs."""
    seconds = median_of(result.seconds)
    if result.unit in ("FLOP/s", "B/s"):
        return result.work / seconds
    return None if not result.flops else result.flops / seconds


def arithmetic_peak(card: catalogue.Card, dtype: str) -> Limit | None:
    """Return the arithmetic peak of a card for a type; "amp-bf16" counts as bf16."""
    dtype = dtype.rpartition("-")[2]
    figure = _PEAKS.get(dtype)
    if figure is None:
        return None
    tensor = dtype == "fp64" and card.capability in _FP64_TENSOR
    slack = _SLACK_SERVER if is_datacentre(card.name) else _SLACK_DESKTOP
    what = text("{dtype} tensor peak", dtype=dtype) if tensor else text("{dtype} peak", dtype=dtype)
    return _catalogue_limit(card, figure, 2e12 if tensor else 1e12, what, slack)


def _catalogue_limit(
    card: catalogue.Card, figure: catalogue.FigureName, factor: float, what: str, slack: float
) -> Limit | None:
    value = card.figure(figure)
    if isinstance(value, catalogue.Unstated):
        return None
    source = catalogue.load_sources().get(value.source)
    title = value.source if source is None else source.title
    return Limit(value.value * factor, what, f"{title}, {value.as_of}" if value.as_of else title, card.name, slack)


def _link_limit(card: Card) -> Limit | None:
    """Return the limit at the maximum generation: idle cards reduce the generation, but not the width."""
    generation, width = value_of(card.pcie.generation_max), value_of(card.pcie.width)
    name = value_of(card.name) or ""
    if generation not in PCIE_LANE_BYTES or not width or any(word in name for word in _WITH_C2C):
        return None
    return Limit(
        PCIE_LANE_BYTES[generation] * width,
        f"PCIe {generation}.0 x{width}",
        text("PCI-SIG; the link as NVML reports it"),
        slack=_SLACK_LINK,
    )
