"""Samples the NVIDIA cards for `ownlab top`: writes one JSON line for each line on stdin, until that closes.

Starting NVML takes hundreds of milliseconds, a query only a few, so one child process serves all queries. It is started
as `launch.py probe.nvml_sampler FD FOLDER`: answers go to the file descriptor FD, and FOLDER has the bindings of NVML.
Each answer has the fields of `CardSample`.
"""

import json
import os
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ownlab_guest.probe.gpm import Gpm, first_samples
from ownlab_guest.probe.nvml import (
    FUNCTION_NOT_FOUND,
    NO_PERMISSION,
    NOT_SUPPORTED,
    any_of,
    as_str,
    attempt,
    code_of,
    error_text,
    memory,
    mig_handles,
    processes,
    start,
    temperature,
    throttle_reasons,
)
from ownlab_guest.text import pack_texts, text

JSON = Dict[str, Any]

# While a driver hangs, no Python code runs: SIGALRM ends the process even then.
ANSWER_SECONDS = 30
REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
LIMITS = ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")
KIB = 1024
# Errors of a working card; None is not a code of NVML: the bindings lack the function.
HARMLESS = (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, None)
# How often facts are read that change seldom or take milliseconds of CPU time, such as the energy counter.
SELDOM_SECONDS = 10.0


def answer(arguments: List[str]) -> JSON:
    """Answer until stdin closes. The return value is not used."""
    sys.path.extend(arguments[1:])
    with os.fdopen(int(arguments[0]), "w") as out:
        signal.alarm(ANSWER_SECONDS)
        early = first_samples()
        nvml, failure = start()
        signal.alarm(0)
        cards = Cards(nvml, early)
        for _ in sys.stdin:
            signal.alarm(ANSWER_SECONDS)
            output = cards.read() if failure is None else {"error": failure["error"]}
            out.write(json.dumps(pack_texts(output)) + "\n")
            out.flush()
            signal.alarm(0)
    return {}


class Cards:
    """All cards, and what is kept of each between two queries."""

    def __init__(self, nvml: Any, early: Optional[Dict[int, Tuple[int, float]]] = None) -> None:
        self.nvml = nvml
        self.early = early or {}  # card number -> its first GPM sample
        self.driver = ""
        self.known: Dict[str, "Card"] = {}
        self.turn = -1  # the card whose PCIe traffic is measured

    def read(self) -> JSON:
        nvml = self.nvml
        count, error = attempt(nvml.nvmlDeviceGetCount)
        if error is not None:
            return {"error": text("NVML: {error}", error=error_text(nvml, error))}
        self.driver = self.driver or as_str(attempt(nvml.nvmlSystemGetDriverVersion)[0] or "")
        self.turn = (self.turn + 1) % max(1, count)
        found: List[JSON] = []
        for index in range(count):
            handle, error = attempt(nvml.nvmlDeviceGetHandleByIndex, index)
            if error is None:
                found.extend(self.read_card(handle, index))
            else:
                found.append({"uuid": "", "index": index, "lost": error_text(nvml, error)})
        return {"cards": found}

    def read_card(self, handle: Any, index: int) -> List[JSON]:
        """Read the card, followed by its MIG instances."""
        nvml = self.nvml
        uuid, error = attempt(nvml.nvmlDeviceGetUUID, handle)
        if error is not None:
            return [{"uuid": "", "index": index, "lost": error_text(nvml, error)}]
        uuid = as_str(uuid)
        card = self.card(uuid, handle, index)
        slices = mig_handles(nvml, handle) if card.seldom(handle)["split"] else []
        if index == self.turn:
            card.measure_pcie(handle)
        found = [card.read(handle, self.driver, slices)]
        for each in slices:
            name, error = attempt(nvml.nvmlDeviceGetUUID, each)
            if error is None:
                found.append(self.card(as_str(name), each, index, uuid, handle).read(each, self.driver, []))
        return found

    def card(self, uuid: str, handle: Any, index: int, parent: str = "", whole: Any = None) -> "Card":
        known = self.known.get(uuid)
        if known is None:
            early = self.early.pop(index, None) if not parent else None
            known = self.known[uuid] = Card(self.nvml, uuid, handle, parent, Gpm(self.nvml, whole, early))
        known.index = index
        return known


def text_or_none(value: Any) -> Optional[str]:
    return as_str(value) if value else None


class Card:
    """One card or MIG instance. What never changes is read once."""

    def __init__(self, nvml: Any, uuid: str, handle: Any, parent: str, gpm: Gpm) -> None:
        self.nvml = nvml
        self.index = 0
        self.uuid = uuid
        self.parent = parent
        self.gpm = gpm
        self.seen = 0  # NVML's time of the newest process sample that was counted, in microseconds
        limit = getattr(nvml, "NVML_CLOCK_SM", 1), getattr(nvml, "NVML_CLOCK_MEM", 2)
        self.constant = {
            "name": as_str(self.ask(nvml.nvmlDeviceGetName, handle) or ""),
            "bus_id": as_str(getattr(self.ask(nvml.nvmlDeviceGetPciInfo, handle), "busId", "") or ""),
            # A MIG instance has none of its own, and GeForce cards have none at all.
            "serial": text_or_none(self.ask(lambda: nvml.nvmlDeviceGetSerial(handle))),
            "clock_sm_max": self.ask(nvml.nvmlDeviceGetMaxClockInfo, handle, limit[0]),
            "clock_memory_max": self.ask(nvml.nvmlDeviceGetMaxClockInfo, handle, limit[1]),
        }
        self.pcie: JSON = {}
        self.rare: JSON = {}
        self.rare_at = float("-inf")

    def seldom(self, handle: Any) -> JSON:
        """Read what changes seldom, at intervals."""
        now = time.monotonic()
        if now - self.rare_at >= SELDOM_SECONDS:
            nvml = self.nvml
            self.rare_at = now
            self.rare = {
                "split": bool((self.ask(nvml.nvmlDeviceGetMigMode, handle) or [0])[0]),
                "power_limit": thousandth(self.ask(any_of, nvml, LIMITS, handle)),
                "power_limit_default": thousandth(
                    self.ask(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))
                ),
                "energy": thousandth(self.ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))),
                "fan": self.ask(lambda: nvml.nvmlDeviceGetFanSpeed(handle)),
            }
        return self.rare

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return NVML's answer, or None if it fails."""
        return attempt(function, *arguments)[0]

    def read(self, handle: Any, driver: str, slices: List[Any]) -> JSON:
        nvml = self.nvml
        store, error = attempt(memory, nvml, handle)
        if error is not None and code_of(error) not in HARMLESS:
            return {
                "uuid": self.uuid,
                "index": self.index,
                "name": self.constant["name"],
                "lost": error_text(nvml, error),
            }
        known: JSON = {"uuid": self.uuid, "index": self.index, "parent": self.parent, "driver": driver, **self.constant}
        rates = self.ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        reasons = self.ask(any_of, nvml, REASONS, handle)
        rare = self.seldom(handle)
        known.update({name: rare[name] for name in ("power_limit", "power_limit_default", "energy", "fan")})
        known.update(
            memory_total=None if store is None else store.total,
            memory_used=None if store is None else store.used,
            memory_free=None if store is None else store.free,
            utilisation=None if rates is None else rates.gpu,
            memory_utilisation=None if rates is None else rates.memory,
            power=thousandth(self.ask(nvml.nvmlDeviceGetPowerUsage, handle)),
            temperature=self.ask(temperature, nvml, handle),
            clock_sm=self.ask(nvml.nvmlDeviceGetClockInfo, handle, 1),
            clock_memory=self.ask(nvml.nvmlDeviceGetClockInfo, handle, 2),
            pstate=self.ask(lambda: nvml.nvmlDeviceGetPerformanceState(handle)),
            throttle=None if reasons is None else throttle_reasons(reasons),
            pcie_generation=self.ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            pcie_width=self.ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            processes=self.processes(handle, driver, slices, None if rates is None else rates.gpu),
        )
        known.update(self.saturation(handle))
        return known

    def saturation(self, handle: Any) -> JSON:
        """Read GPM's figures since the last query; without GPM, the PCIe rates that NVML measures itself."""
        figures, why = self.gpm.read(handle)
        if figures is not None:
            return {
                "saturation": figures["saturation"],
                "pcie_sent": figures["pcie_sent"],
                "pcie_received": figures["pcie_received"],
            }
        return {"no_saturation": why, **({} if self.gpm.works else self.pcie)}

    def measure_pcie(self, handle: Any) -> None:
        """Measure PCIe traffic without GPM. This takes 20 ms in each direction, so only one card is measured per query."""
        if not self.gpm.asked or self.gpm.works:
            return
        sent, received = (
            self.ask(lambda way=way: self.nvml.nvmlDeviceGetPcieThroughput(handle, way)) for way in (0, 1)
        )
        self.pcie = {"pcie_sent": times(sent, KIB), "pcie_received": times(received, KIB)}

    def processes(
        self, handle: Any, driver: str, slices: List[Any], utilisation: Optional[float]
    ) -> Optional[List[JSON]]:
        running, error = attempt(processes, self.nvml, [handle, *slices], driver)
        if error is not None:
            return None
        # A process that is alone on its card has all of the card's time; a query of the shares takes milliseconds.
        alone = len(running) == 1 and utilisation is not None
        shares = {running[0]["pid"]: utilisation} if alone else self.shares(handle) if running else {}
        return [
            {
                "pid": each["pid"],
                "kind": each["kind"],
                "memory": each["memory"].get("value"),
                "sm": shares.get(each["pid"]),
            }
            for each in running
        ]

    def shares(self, handle: Any) -> Dict[int, float]:
        """Return each process's mean share of time with running kernels, from the driver's samples since the last query."""
        samples = self.ask(lambda: self.nvml.nvmlDeviceGetProcessUtilization(handle, self.seen)) or []
        by_pid: Dict[int, List[int]] = {}
        newest = self.seen
        for each in samples:
            newest = max(newest, each.timeStamp)
            by_pid.setdefault(each.pid, []).append(each.smUtil)
        self.seen = newest or int(time.time() * 1e6)
        return {pid: sum(each) / len(each) for pid, each in by_pid.items()}


def thousandth(value: Optional[float]) -> Optional[float]:
    return None if value is None else value / 1000


def times(value: Optional[float], factor: int) -> Optional[float]:
    return None if value is None else value * factor
