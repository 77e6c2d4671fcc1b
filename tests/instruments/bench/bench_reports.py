"""Results as a guest would send them. The values are invented and plausible for an H200."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ownlab.instruments.bench.assessment import assess_results
from ownlab.instruments.bench.machine_summary import machine_notes, summarise
from ownlab.instruments.bench.records import BenchReport, Event, Result, State
from ownlab.json_encoding import encode_json
from ownlab.machine.machine_file import load_machine
from ownlab.machine.records import Machine

MACHINES = Path(__file__).resolve().parents[2] / "machines"
HOT = State(clock_mhz=1140, temperature_c=88, power_w=690, throttle=("sw-thermal",))
COOL = State(clock_mhz=1755, temperature_c=60, power_w=690, throttle=())


def machine(name: str = "h200") -> Machine:
    return load_machine(MACHINES / f"{name}.json")


def result(name: str, rate: float, work: float, *, spread: float = 0.003, count: int = 9, **values: Any) -> Result:
    """Repetitions around a rate (or a time, if the unit is s); always the same ones."""
    chance = random.Random(f"{name} {rate}")
    seconds = rate if values.get("unit") == "s" else work / rate
    times = tuple(seconds * (1 + spread * chance.uniform(-1, 1)) for _ in range(count))
    return Result(
        **{
            "name": name,
            "group": "products",
            "unit": "FLOP/s",
            "device": "cuda:0",
            "work": work,
            "seconds": times,
            **values,
        }
    )


def product(dtype: str, size: int, rate: float, **values: Any) -> Result:
    return result(f"matmul {dtype} {size}", rate, 2 * size**3, dtype=dtype, shape={"n": size}, **values)


def an_h200(factor: float = 1.0) -> list[Result]:
    """One result of each kind."""
    return [
        result("convolution forward and backward bf16 64x256x56", 5e14, 1e12, group="layers", dtype="bf16"),
        product("fp64", 8192, 60e12 * factor),
        product("fp32", 8192, 51e12 * factor),
        product("bf16", 1024, 190e12 * factor, spread=0.02),
        product("bf16", 8192, 784e12 * factor, before=COOL, after=COOL),
        result("copy 1 GiB", 4.3e12 * factor, 2**31, group="memory", unit="B/s", shape={"bytes": 2**30}),
        result("host to device pinned", 55e9, 2**28, group="copies", unit="B/s"),
        result("host to device pageable", 11e9 * factor, 2**28, group="copies", unit="B/s", spread=0.1),
        result("launch back to back", 4.1e-6, 1, group="launch", unit="s", percentiles={"p50": 4.1e-6, "p99": 9e-6}),
        result("resnet50 training", 2900 * factor, 256, group="training", unit="images/s", dtype="amp-bf16",
               flops=256 * 24.5e9, shape={"batch": 256}),
        result("matmul fp32 2048 cpu", 0.9e12, 2 * 2048**3, group="cpu", device="cpu", dtype="fp32"),
        result("sequential reads", 2.1e9 * factor, 2**30, group="disk", unit="B/s", device="/work", count=3),
    ]  # fmt: skip


def report(results: list[Result], name: str = "h200", **values: Any) -> BenchReport:
    facts = machine(name)
    return BenchReport(
        **{
            "when": "2026-11-15T22:40:03+00:00",
            "ownlab": "0",
            "seconds": 131.0,
            "machine": summarise(facts),
            "notes": machine_notes(facts),
            "results": assess_results(results, facts),
            **values,
        }
    )


def lines(events: list[Event]) -> str:
    """Return events as the guest writes them."""
    return "".join(encode_json(event).decode() + "\n" for event in events)
