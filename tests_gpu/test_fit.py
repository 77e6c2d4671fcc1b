"""`ownlab fit` on a real NVIDIA card: predictions made with all cards hidden, against the real run; and what --measure says.

Plain functions without fixtures. Needs msgspec beside torch, torchvision and transformers. All that is found is written as it
comes into the folder $OUT (fit.json; fit.txt is the table, which is printed, too). Held-back configurations are among them only
with OWNLAB_FIT_HELD_BACK=1. OWNLAB_FIT_PART=predict needs no card; =measure takes predictions that are kept, and makes none.
Six minutes at most on 16 cores. torch.compile is not followed yet.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "fit"))
from experiments import MODELS, PART, Examined, Results, check, chosen, look, table

from ownlab.instruments.fit.batch_search import BatchRange
from ownlab.instruments.fit.calibration import H200, Calibration, load_calibrations, save_calibration
from ownlab.instruments.fit.calibration_run import calibrate
from ownlab.instruments.fit.measurement import Experiment
from ownlab.instruments.fit.pipeline import parse_goals, with_decoding
from ownlab.instruments.fit.records import Device, Fit, Request

MIB = 1024**2
SECONDS = 200.0
GPT2 = Request(target=f"{MODELS}:gpt2_amp_b8_s1024_adamw", precision="amp-bf16")
PYTHON = os.environ.get("OWNLAB_TORCH_PYTHON", sys.executable)
OUT = Path(os.environ["OUT"]) if os.environ.get("OUT") else None
RESULTS = Results(OUT and OUT / "fit.json")

pytestmark = pytest.mark.timeout(580)  # the first test waits for all that runs side by side
needs_card = pytest.mark.skipif(PART == "predict", reason="predictions alone")
needs_traces = pytest.mark.skipif(PART in ("predict", "measure"), reason="one half alone")


@contextlib.contextmanager
def as_people_have_it() -> Iterator[None]:
    """Without our own search path: guests see the libraries of their Python, and not those that these tests run with."""
    before = os.environ.pop("PYTHONPATH", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["PYTHONPATH"] = before


@contextlib.contextmanager
def quietly(_: str) -> Iterator[None]:
    yield


@lru_cache(maxsize=1)
def device() -> Device:
    if PART == "predict":
        return Device("cpu", "", 1)
    device = look(PYTHON)
    assert device.kind == "cuda", "no card is seen by this Python's torch"
    return device


@lru_cache(maxsize=1)
def side_by_side() -> dict[str, Future[Any]]:
    """Run everything that may share the card at once: starting programs takes most of the time, and memory is counted by process."""
    tasks: dict[str, Callable[[], Any]] = {"examined": lambda: check(chosen(), device(), PYTHON, RESULTS)}
    if not PART:
        tasks |= {"decoded": decoded, "calibrated": lambda: calibrate(PYTHON, deadline=SECONDS)}
    device()
    with as_people_have_it(), ThreadPoolExecutor(len(tasks)) as pool:
        return {name: pool.submit(task) for name, task in tasks.items()}


@lru_cache(maxsize=1)
def examined() -> list[Examined]:
    examined: list[Examined] = side_by_side()["examined"].result()
    atexit.register(lambda: sys.stderr.write(f"\n{table(examined)}\n"))  # when pytest no longer catches what is printed
    if OUT is not None:
        (OUT / "fit.txt").write_text(table(examined) + "\n")
    return examined


def errors(what: str) -> dict[str, float]:
    return {each.name: abs(each.errors()[what]) for each in examined() if what in each.errors()}


def experiment(decode: int = 0) -> Experiment:
    return Experiment(PYTHON, SECONDS, quietly, decode)


def predicted_and_run(request: Request, within: BatchRange | None = None, decode: int = 0) -> Fit:
    measured = experiment(decode).run(request, parse_goals(None, within))
    assert isinstance(measured, Fit), measured
    return measured


def test_every_configuration_is_predicted_and_runs() -> None:
    assert {each.name: each.failures for each in examined() if each.failures} == {}
    assert [each.name for each in examined() if each.measured and each.measured.out_of_memory] == []
    assert len(examined()) >= 25


@needs_card
def test_allocated() -> None:
    off = errors("allocated")
    assert statistics.median(off.values()) <= 0.005, off
    assert {name: error for name, error in off.items() if error > 0.05} == {}


@needs_card
def test_reserved() -> None:
    off = errors("reserved")
    assert statistics.median(off.values()) <= 0.02, off
    assert {name: error for name, error in off.items() if error > 0.10} == {}


@needs_card
def test_on_the_card() -> None:
    off = errors("device")
    assert len(off) == len(errors("reserved")), "NVML does not tell what each process holds"
    assert statistics.median(off.values()) <= 0.02, off


@needs_card
def test_the_band_holds_what_was_reserved() -> None:
    missed, wide = {}, {}
    for each in examined():
        if each.predicted is None or each.measured is None or each.measured.memory is None:
            continue
        (low, high), reserved = each.predicted.band, each.measured.memory.reserved_bytes
        if not low <= reserved <= high:
            missed[each.name] = (low // MIB, reserved // MIB, high // MIB)
        if high > 1.15 * low:
            wide[each.name] = high / low
    assert missed == {}
    assert wide == {}


@needs_card
def test_as_a_cap_the_prediction_suffices() -> None:
    """The upper end of the band is all that torch may reserve: no run fails."""
    ran = {each.name: each.capped.out_of_memory for each in examined() if each.capped is not None}
    assert {name: why for name, why in ran.items() if why is not None} == {}
    assert len(ran) >= 25


@needs_card
def test_parts_at_the_peak_are_those_of_the_prediction() -> None:
    """The parts that the allocator's history separates add up to the counters."""
    off: dict[str, object] = {}
    for each in examined():
        memory = each.measured.memory if each.measured else None
        if each.predicted is None or memory is None:
            continue
        if memory.parts is None:
            off[each.name] = memory.parts_reason
            continue
        if abs(sum(memory.parts.values()) / memory.allocated_bytes - 1) > 0.03:
            off[each.name] = (memory.parts, memory.allocated_bytes)
        for kind in ("weights", "optimizer"):
            predicted, found = each.predicted.parts[kind], memory.parts.get(kind, 0)
            if abs(found - predicted) > max(4 * MIB, 0.02 * predicted):
                off[f"{each.name} {kind}"] = (predicted, found)
    assert off == {}


def test_another_torch_predicts_the_same() -> None:
    """Parameters are the model's own; memory may differ by what another version computes otherwise.

    T5 is left out: transformers 5.17 hands attention a bias of positions that no fused kernel takes; 5.22, one that they take.
    """
    both = [(each.name, each.here, each.kept) for each in examined() if each.here is not None and each.kept is not None]
    assert [name for name, here, kept in both if here.parameters != kept.parameters] == []
    far = {each.name: each.apart() for each in examined() if abs(each.apart().get("allocated", 0)) > 0.05}
    assert {name: apart for name, apart in far.items() if not name.startswith("t5_")} == {}


@needs_traces
def test_measured_beside_predicted() -> None:
    side_by_side()  # they have ended then: times are taken with nobody beside
    with as_people_have_it():
        fit = predicted_and_run(GPT2)
    RESULTS.add("gpt2", {"peak": fit.peak, "parts": fit.parts, "measured": fit.measured})
    measured = fit.measured
    assert measured is not None
    assert measured.memory is not None
    assert measured.steady is not None
    assert measured.alone is not None
    assert measured.steady.least <= measured.steady.median <= measured.steady.p90 <= measured.steady.most
    assert set(measured.memory.phases) >= {"forward", "backward", "optimizer"}
    assert max(measured.memory.phases.values()) == measured.memory.allocated_bytes
    if measured.floor_seconds is not None:  # None: a card that the catalogue does not have
        assert measured.floor_seconds <= measured.steady.median, "faster than the card can be"


@needs_traces
def test_the_biggest_batch_that_runs() -> None:
    """From the prediction on, in few trials; and the card is as free as before."""
    side_by_side()  # they have ended then: this one takes all of the card
    before = look(PYTHON).free_bytes
    request = Request(target=f"{MODELS}:grows", batch=1024, optimizer="sgd-plain", steps=2)
    with as_people_have_it():
        fit = predicted_and_run(request, BatchRange(1, 1 << 20))
    after = look(PYTHON).free_bytes
    RESULTS.add("biggest", {"found": fit.biggest, "free_before": before, "free_after": after})
    assert fit.biggest is not None
    assert fit.biggest.batch is not None
    assert fit.biggest.fails is not None, fit.biggest
    assert fit.biggest.predicted is not None
    # The prediction is the batch that is sure to run: by as much below the biggest as its band is wide.
    assert 0.9 <= fit.biggest.predicted / fit.biggest.batch <= 1.0, fit.biggest
    assert len(fit.biggest.trials) <= 10
    assert fit.measured is not None
    assert fit.measured.out_of_memory is None
    assert before is not None
    assert after is not None
    assert abs(after - before) <= 64 * MIB


def decoded() -> Fit:
    request = Request(target=f"{MODELS}:speaks", train=False, precision="bf16", batch=4, seq=512)
    return with_decoding(predicted_and_run(request, decode=64), 64, parse_goals(None), PYTHON, deadline=SECONDS)


@needs_traces
def test_the_cache_of_decoding_is_as_large_as_predicted() -> None:
    fit: Fit = side_by_side()["decoded"].result()
    RESULTS.add("decoding", {"predicted": fit.decoding, "measured": fit.measured})
    assert fit.decoding is not None
    assert fit.measured is not None
    assert fit.measured.decoding is not None
    assert fit.measured.decoding.cache_bytes == fit.decoding.cache_bytes
    # 12 layers, keys and values, 4 heads of 64, 2 bytes
    assert fit.decoding.bytes_per_token == 12 * 2 * 4 * 64 * 2
    assert fit.measured.decoding.token.count == 64


@needs_traces
def test_calibration() -> None:
    """Measurements on an H200 equal what predictions assume; small models that show hidden memory agree."""
    calibration: Calibration = side_by_side()["calibrated"].result()
    RESULTS.add("calibration", calibration)
    with tempfile.TemporaryDirectory() as folder:
        save_calibration(calibration, {"OWNLAB_HOME": folder})
        assert load_calibrations({"OWNLAB_HOME": folder}) == (calibration,)
    if calibration.device.capability == 9.0:
        assert abs(calibration.workspace_bytes - 32 * MIB) <= 2 * MIB, "what traces take cuBLAS's workspace to be"
    if "H200" in calibration.device.name:
        ours, here = H200, calibration.context
        assert abs(here.start - ours.start) <= 24 * MIB
        assert abs(here.start + here.matmul - ours.start - ours.matmul) <= 24 * MIB
        whole = sum(getattr(here, name) for name in here.__struct_fields__)
        assert abs(whole - sum(getattr(ours, name) for name in ours.__struct_fields__)) <= 32 * MIB
    assert calibration.worst <= 0.05, calibration.checks
