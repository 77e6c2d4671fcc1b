"""Results as measures: what they add up to, against what is possible; above it is a measuring error, far below has causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ownlab.catalog.architectures import runs_on
from ownlab.instruments.bench.limits import limit_of, rate_for_limit
from ownlab.instruments.bench.records import Measure, Result, State, device_kind
from ownlab.instruments.bench.statistics import middle
from ownlab.instruments.bench.summary import card_of, disk_of, known_card, torch_of
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Machine

__all__ = ["judge_all"]

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
