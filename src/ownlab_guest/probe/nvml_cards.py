"""Lists the NVIDIA cards and MIG instances and the processes on them. Reads only that, because it runs often."""

from typing import Any, Dict, List

from ownlab_guest.probe.nvml import (
    COMPUTE_MODES,
    FactReader,
    as_str,
    attempt,
    error_text,
    health,
    memory,
    mig_handles,
    mig_profile,
    named,
    processes,
    start,
)
from ownlab_guest.text import text

JSON = Dict[str, Any]


def answer(arguments: List[str]) -> JSON:
    """Return {"cards": [{"card": …, "instances": […]}]}, each in the form of the host's Card; or {"error": …}."""
    nvml, failure = start()
    if failure is not None:
        return {"error": failure["error"]}
    count, error = attempt(nvml.nvmlDeviceGetCount)
    if error is not None:
        return {"error": text("NVML: {error}", error=error_text(nvml, error))}
    driver = as_str(attempt(nvml.nvmlSystemGetDriverVersion)[0] or "")
    return {"cards": [card(nvml, index, driver) for index in range(count)]}


def card(nvml: Any, index: int, driver: str) -> JSON:
    handle, error = attempt(nvml.nvmlDeviceGetHandleByIndex, index)
    if error is not None:
        health_fact = {"state": "known", "value": error_text(nvml, error), "source": "NVML"}
        return {"card": {"vendor": "nvidia", "index": index, "health": health_fact}}
    reader = FactReader(nvml)
    known = device(reader, handle, index)
    known["name"] = reader.fact(lambda: nvml.nvmlDeviceGetName(handle))
    failures = list(reader.failures)
    known["compute_mode"] = reader.fact(lambda: named(COMPUTE_MODES, nvml.nvmlDeviceGetComputeMode(handle)))
    known["mig"] = reader.fact(lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]))
    slices = mig_handles(nvml, handle) if known["mig"].get("value") else []
    known["processes"] = reader.fact(lambda: processes(nvml, [handle, *slices], driver))
    known["health"] = {"state": "known", "value": health(reader, handle, failures), "source": "NVML"}
    return {"card": known, "instances": [instance(nvml, each, index, driver) for each in slices]}


def instance(nvml: Any, handle: Any, index: int, driver: str) -> JSON:
    """Read a MIG instance as a card whose name is its profile."""
    reader = FactReader(nvml)
    known = device(reader, handle, index)
    known["name"] = reader.fact(lambda: mig_profile(nvml, handle))
    known["processes"] = reader.fact(lambda: processes(nvml, [handle], driver))
    return known


def device(reader: FactReader, handle: Any, index: int) -> JSON:
    nvml = reader.nvml
    return {
        "vendor": "nvidia",
        "index": index,
        "uuid": reader.fact(lambda: nvml.nvmlDeviceGetUUID(handle)),
        "memory_total": reader.fact(lambda: memory(nvml, handle).total, "B"),
        "memory_used": reader.fact(lambda: memory(nvml, handle).used, "B"),
        "utilisation": reader.fact(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu, "%"),
    }
