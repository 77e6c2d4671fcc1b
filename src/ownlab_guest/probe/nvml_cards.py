"""Which NVIDIA cards and MIG instances there are, and who is on them: NVML asked for that alone, since it is asked often."""

from typing import Any, Dict, List

from ownlab_guest.probe.nvml import (
    COMPUTE_MODES,
    Questions,
    attempt,
    health,
    memory,
    mig_handles,
    mig_profile,
    named,
    processes,
    start,
    text,
    words,
)

JSON = Dict[str, Any]


def answer(arguments: List[str]) -> JSON:
    """{"cards": [{"card": …, "instances": […]}]}, each in the form of the host's Card; or {"error": …}."""
    nvml, failure = start()
    if failure is not None:
        return {"error": failure["error"]}
    count, error = attempt(nvml.nvmlDeviceGetCount)
    if error is not None:
        return {"error": "NVML: " + words(nvml, error)}
    driver = text(attempt(nvml.nvmlSystemGetDriverVersion)[0] or "")
    return {"cards": [card(nvml, index, driver) for index in range(count)]}


def card(nvml: Any, index: int, driver: str) -> JSON:
    handle, error = attempt(nvml.nvmlDeviceGetHandleByIndex, index)
    if error is not None:
        said = {"state": "known", "value": words(nvml, error), "source": "NVML"}
        return {"card": {"vendor": "nvidia", "index": index, "health": said}}
    ask = Questions(nvml)
    known = device(ask, handle, index)
    known["name"] = ask.fact(lambda: nvml.nvmlDeviceGetName(handle))
    failures = list(ask.failures)
    known["compute_mode"] = ask.fact(lambda: named(COMPUTE_MODES, nvml.nvmlDeviceGetComputeMode(handle)))
    known["mig"] = ask.fact(lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]))
    slices = mig_handles(nvml, handle) if known["mig"].get("value") else []
    known["processes"] = ask.fact(lambda: processes(nvml, [handle, *slices], driver))
    known["health"] = {"state": "known", "value": health(ask, handle, failures), "source": "NVML"}
    return {"card": known, "instances": [instance(nvml, each, index, driver) for each in slices]}


def instance(nvml: Any, handle: Any, index: int, driver: str) -> JSON:
    """A MIG instance as a card whose name is its profile."""
    ask = Questions(nvml)
    known = device(ask, handle, index)
    known["name"] = ask.fact(lambda: mig_profile(nvml, handle))
    known["processes"] = ask.fact(lambda: processes(nvml, [handle], driver))
    return known


def device(ask: Questions, handle: Any, index: int) -> JSON:
    nvml = ask.nvml
    return {
        "vendor": "nvidia",
        "index": index,
        "uuid": ask.fact(lambda: nvml.nvmlDeviceGetUUID(handle)),
        "memory_total": ask.fact(lambda: memory(nvml, handle).total, "B"),
        "memory_used": ask.fact(lambda: memory(nvml, handle).used, "B"),
        "utilisation": ask.fact(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu, "%"),
    }
