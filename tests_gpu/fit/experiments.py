"""Predicts each configuration with all cards hidden, measures it on the card, and runs it again with the prediction as a limit.

`python tests_gpu/fit/experiments.py OUT.json [NAME…]`, with src/ on the path, does it by hand; without a card it only predicts.
OWNLAB_FIT_PART=predict or =measure does one half. Measurements alone are compared with the predictions stored beside this file,
which another torch made; if both are there, they are compared, too. `experiments.py --keep` rewrites the stored predictions.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, Semaphore
from typing import Any, TypeVar

from ownlab.json_encoding import encode_json, to_builtins

sys.path.insert(0, str(Path(__file__).parent))
import msgspec
from configurations import ALL, Configuration
from msgspec import Struct

from ownlab.instruments.fit.guest_client import ask_trace
from ownlab.instruments.fit.measurement import Answer, Settings, ask_measure
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Device, Fit, GuestCard, Request

__all__ = ["MODELS", "PART", "Examined", "Results", "check", "chosen", "look", "table"]

MODELS = Path(__file__).with_name("models.py")
KEPT = Path(__file__).with_name("predicted-2.13.json")
MIB = 1024**2
SECONDS = 200.0
PART = os.environ.get("OWNLAB_FIT_PART", "")  # predict, measure; else both
# Traces beside each other, and processes on the card at once: 20 GiB each at most, and imports take most of the time.
WORKERS = int(os.environ.get("OWNLAB_FIT_WORKERS", "12"))
ON_THE_CARD = Semaphore(int(os.environ.get("OWNLAB_FIT_ON_THE_CARD", "6")))
T = TypeVar("T")


class Prediction(Struct, frozen=True):
    """As much of one as is compared; bytes."""

    torch: str
    allocated: int
    reserved: int
    device: int
    band: tuple[int, int]  # of what is reserved
    parts: dict[str, int]
    parameters: int
    flops: int

    @classmethod
    def of(cls, fit: Fit) -> Prediction:
        return cls(
            fit.torch,
            fit.peak.allocated_bytes,
            fit.peak.reserved_bytes,
            fit.peak.device_bytes,
            (fit.band.reserved_low_bytes, fit.band.reserved_high_bytes),
            {name: getattr(fit.parts, name) for name in fit.parts.__struct_fields__},
            fit.parameters.total,
            fit.flops.total,
        )


class Examined(Struct):
    """One configuration, as far as it has come."""

    configuration: Configuration
    here: Prediction | None = None  # by the torch that measures
    kept: Prediction | None = None  # by another, before
    measured: Answer | None = None
    capped: Answer | None = None
    failures: dict[str, str] = msgspec.field(default_factory=dict)
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.configuration.name

    @property
    def predicted(self) -> Prediction | None:
        """The one that is judged."""
        return self.here or self.kept

    def errors(self, predicted: Prediction | None = None) -> dict[str, float]:
        """Predicted against measured, as shares: allocated, reserved, device."""
        predicted = predicted or self.predicted
        if predicted is None or self.measured is None or self.measured.memory is None:
            return {}
        memory = self.measured.memory
        found = {
            "allocated": predicted.allocated / memory.allocated_bytes - 1,
            "reserved": predicted.reserved / memory.reserved_bytes - 1,
        }
        if memory.device_bytes is not None:
            found["device"] = predicted.device / memory.device_bytes - 1
        return found

    def apart(self) -> dict[str, float]:
        """This torch's prediction against the other's, as shares."""
        if self.here is None or self.kept is None:
            return {}
        return {
            name: getattr(self.here, name) / getattr(self.kept, name) - 1
            for name in ("allocated", "reserved", "flops")
            if getattr(self.kept, name)
        }


def chosen(names: Iterable[str] = ()) -> list[Configuration]:
    """Those that may be looked at; all of them where OWNLAB_FIT_HELD_BACK is set."""
    wanted = set(names)
    every = os.environ.get("OWNLAB_FIT_HELD_BACK", "") not in ("", "0")
    return [
        configuration
        for configuration in ALL
        if (every or not configuration.held_back) and (not wanted or configuration.name in wanted)
    ]


def request_of(configuration: Configuration, device: Device | None) -> Request:
    """The step that is meant, for the card that is here; without one, for the card that kept predictions are for."""
    card = GuestCard() if device is None else device.card
    return Request(target=f"{MODELS}:{configuration.name}", **configuration.request, card=card)


def look(python: str) -> Device:
    """The device that is here."""
    request = Request(target=f"{MODELS}:{ALL[0].name}")
    return ask_measure(request, python, Settings(look=True), deadline=SECONDS)[1]


class Results:
    """The results so far; written after each experiment, so that a later failure loses nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, Lock()
        self._rows: dict[str, dict[str, Any]] = {}
        self._results: dict[str, Any] = {}

    def row(self, examined: Examined) -> None:
        with self._lock:
            self._rows[examined.name] = row(examined)
            self._write()

    def add(self, name: str, value: Any) -> None:
        """Something beside the configurations."""
        with self._lock:
            self._results[name] = to_builtins(value)
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        order = [configuration.name for configuration in ALL]
        rows = [self._rows[name] for name in sorted(self._rows, key=order.index)]
        partial = self._path.with_name(f".{self._path.name}.part")
        partial.write_text(json.dumps({**self._results, "configurations": rows}, indent=1) + "\n")
        partial.replace(self._path)


def check(
    configurations: list[Configuration], device: Device, python: str, results: Results, part: str = PART
) -> list[Examined]:
    """All of them, several at once."""
    # A trace that takes all cores for itself would keep the others waiting.
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    kept = kept_predictions()

    def examined(configuration: Configuration) -> Examined:
        examined = Examined(configuration, kept=kept.get(configuration.name), failures={})
        begin = time.monotonic()
        _examine(examined, device, python, part)
        examined.seconds = time.monotonic() - begin
        results.row(examined)
        return examined

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(examined, configurations))


def _examine(examined: Examined, device: Device, python: str, part: str) -> None:
    """Each of the three by itself: one that breaks does not keep the others from being known."""
    request = request_of(examined.configuration, device)
    if part != "measure":
        examined.here = _tried(
            examined,
            "prediction",
            lambda: Prediction.of(predict(ask_trace(request, python, deadline=SECONDS), request)),
        )
    if part == "predict" or device.kind == "cpu":
        return
    examined.measured = _measured(examined, "measurement", request, python, Settings(seconds=0))
    if examined.predicted is not None:
        cap = Settings(seconds=0, parts=False, cap_bytes=examined.predicted.band[1])
        examined.capped = _measured(examined, "capped run", request, python, cap)


def _measured(examined: Examined, what: str, request: Request, python: str, settings: Settings) -> Answer | None:
    with ON_THE_CARD:
        return _tried(examined, what, lambda: ask_measure(request, python, settings, deadline=SECONDS)[0])


def _tried(examined: Examined, what: str, run: Callable[[], T]) -> T | None:
    try:
        return run()
    except Exception as exc:  # noqa: BLE001  # whatever it is, it is reported in this configuration's row
        examined.failures[what] = f"{type(exc).__name__}: {exc}"[:2000]
        return None


def kept_predictions() -> dict[str, Prediction]:
    """Those of another torch."""
    return msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Prediction]) if KEPT.exists() else {}


def row(examined: Examined) -> dict[str, Any]:
    """Return the row that is written for it."""
    answer: dict[str, Any] = {"name": examined.name, "held_back": examined.configuration.held_back}
    answer |= {"failures": examined.failures, "seconds": round(examined.seconds, 1)}
    if examined.here is not None:
        answer["predicted"] = to_builtins(examined.here)
    if examined.kept is not None:
        answer["kept"] = to_builtins(examined.kept)
    if examined.measured is not None:
        answer |= {"torch": examined.measured.torch, "cudnn": examined.measured.cudnn}
        answer["card"] = examined.measured.device.name if examined.measured.device else ""
        answer["measured"] = to_builtins(examined.measured.memory)
        answer["out_of_memory"] = to_builtins(examined.measured.out_of_memory)
        answer["errors"] = examined.errors()
        answer["errors_of_kept"] = examined.errors(examined.kept) if examined.kept is not None else {}
    answer["predictions_apart"] = examined.apart()
    if examined.capped is not None:
        answer["capped"] = "ran" if examined.capped.out_of_memory is None else examined.capped.out_of_memory.message
    return answer


def table(all_of_them: list[Examined]) -> str:
    """Errors, configuration by configuration, and their medians and worst."""
    lines = [f"{'':32}{'allocated':>18}{'reserved':>18}{'device':>18}  band   as a cap  torches apart  s"]
    lines += [_line(examined) for examined in all_of_them]
    for what in ("allocated", "reserved", "device"):
        off = [100 * abs(examined.errors()[what]) for examined in all_of_them if what in examined.errors()]
        if off:
            lines.append(f"{what}: median {statistics.median(off):.2f} %, worst {max(off):.2f} %, of {len(off)}")
    return "\n".join(lines)


def _line(examined: Examined) -> str:
    memory = None if examined.measured is None else examined.measured.memory
    predicted, errors = examined.predicted, examined.errors()
    answer = "; ".join(f"{what}: {why}" for what, why in examined.failures.items())[:300]
    apart = " ".join(f"{100 * share:+.2f}" for share in examined.apart().values())
    if predicted is None or memory is None:
        out = examined.measured and examined.measured.out_of_memory
        return f"{examined.name:32} {answer or (out.message[:200] if out else 'predicted only')}  {apart}  {examined.seconds:.0f}"
    sizes = {"allocated": memory.allocated_bytes, "reserved": memory.reserved_bytes, "device": memory.device_bytes}
    cells = [
        f"{size / MIB:9.0f} {100 * errors[name]:+7.2f}%" if size is not None else "?" for name, size in sizes.items()
    ]
    inside = predicted.band[0] <= memory.reserved_bytes <= predicted.band[1]
    ran = examined.capped is not None and examined.capped.out_of_memory is None
    end = f"{'holds' if inside else 'MISSES':6} {'ran' if ran else 'FAILED':9}  {apart:13}  {examined.seconds:.0f} {answer}"
    return f"{examined.name:32}{''.join(cell.rjust(18) for cell in cells)}  {end}"


def main(*arguments: str) -> None:
    """Run experiments by hand."""
    python = os.environ.get("OWNLAB_TORCH_PYTHON", sys.executable)
    if arguments[0] == "--keep":
        keep(python)
        return
    results = check(chosen(arguments[1:]), look(python), python, Results(Path(arguments[0])))
    sys.stdout.write(table(results) + "\n")


def keep(python: str) -> None:
    """Predictions of all, for those who measure later with another torch."""
    os.environ["OWNLAB_FIT_HELD_BACK"] = "1"
    device = Device("cpu", "", 1)
    results = check(chosen(), device, python, Results(None), "predict")
    kept = {examined.name: examined.here for examined in results if examined.here is not None}
    KEPT.write_bytes(msgspec.json.format(encode_json(kept), indent=1) + b"\n")
    sys.stdout.write("".join(f"{examined.name}: {examined.failures}\n" for examined in results if examined.failures))


if __name__ == "__main__":
    main(*sys.argv[1:])
