"""Reads the driver and its cards from NVIDIA's management library (NVML).

Runs in a child process: a driver may hang in the kernel or crash its caller. Every fact is read separately, so that a
failure affects only one fact.
"""

import ctypes
import math
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ownlab_guest.text import text

JSON = Dict[str, Any]

# NVML's return codes (nvml.h).
NOT_SUPPORTED = 3
NO_PERMISSION = 4
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
DRIVER_MODELS = {0: "WDDM", 1: "TCC", 2: "MCDM"}
FABRIC_STATES = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}
# What NVML recommends after a fault (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, since driver 570).
RECOVERY_FIELD = 230
RECOVERY_ACTIONS = {
    1: text("reset the GPU"),
    2: text("reboot the node"),
    3: text("drain peer-to-peer traffic"),
    4: text("drain and reset the GPU"),
    5: text("recover the IMEX domain"),
    6: text("reset the bus"),
    7: text("reboot the system"),
}
THROTTLE_BITS = {
    0x1: "gpu-idle",
    0x2: "applications-clocks",
    0x4: "sw-power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "hw-power-brake",
    0x100: "display-clocks",
    0x200: "board-limit",
    0x400: "reliability",
}
# The newest call of these drivers writes longer records than nvidia-ml-py reads, which gives wrong processes (gpustat
# issues 157, 160, 161).
PROCESSES_BROKEN = re.compile(r"535\.(43|54|86)\.")


def answer(arguments: List[str]) -> JSON:
    """Return {"driver": …, "cuda": …, "nvml": …, "cards": […]}, or {"error": …} if NVML does not start."""
    pynvml, failure = start()
    if failure is not None:
        return failure
    system = FactReader(pynvml)
    driver = system.fact(pynvml.nvmlSystemGetDriverVersion)
    return {
        "library": loaded_library(),
        "driver": driver,
        "nvml": system.fact(pynvml.nvmlSystemGetNVMLVersion),
        "cuda": system.fact(lambda: cuda_version(pynvml)),
        "cards": cards(pynvml, str(driver.get("value", ""))),
    }


def start() -> Tuple[Any, Optional[JSON]]:
    """Initialize NVML and return it, or None and the answer with the error."""
    try:
        import pynvml
    except Exception as exc:
        return None, {
            "error": text("nvidia-ml-py cannot be imported: {error}: {reason}", error=type(exc).__name__, reason=exc)
        }
    _, error = attempt(pynvml.nvmlInit)
    if error is None:
        return pynvml, None
    message = text("Failed to initialize NVML: {reason}", reason=error_text(pynvml, error))
    return None, {"error": message, "code": code_of(error), "library": loaded_library()}


def code_of(error: BaseException) -> Optional[int]:
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None


def error_text(nvml: Any, error: BaseException) -> str:
    """Return the library's own message for an error; the bindings have other texts for some."""
    code = code_of(error)
    if code is None:
        return str(error) or type(error).__name__
    try:
        return as_str(nvml.nvmlErrorString(code))
    except Exception:
        return str(error)  # no library is loaded: only the bindings have a message


def as_str(value: Any) -> str:
    """Convert to str: old bindings return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def loaded_library() -> Optional[str]:
    """Return the file that NVML was loaded from; its name contains the version."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if "libnvidia-ml" in line:
                    return line.split(maxsplit=5)[-1].strip()
    except OSError:
        return None  # not Linux
    return None


def cuda_version(nvml: Any) -> str:
    number = first(
        lambda: nvml.nvmlSystemGetCudaDriverVersion_v2(),
        lambda: nvml.nvmlSystemGetCudaDriverVersion(),
    )
    return "%d.%d" % (number // 1000, number % 1000 // 10)


def attempt(function: Callable[..., Any], *arguments: Any) -> Tuple[Any, Optional[Exception]]:
    """Call a function; return its result and None, or None and its exception."""
    try:
        return function(*arguments), None
    except Exception as exc:
        return None, exc


def first(*calls: Callable[[], Any]) -> Any:
    """Return the result of the first call that succeeds; else raise the most informative error."""
    errors = []
    for call in calls:
        value, error = attempt(call)
        if error is None:
            return value
        errors.append(error)
    raise next((error for error in errors if code_of(error) not in (None, FUNCTION_NOT_FOUND)), errors[0])


class FactReader:
    """Reads facts. A failure becomes a reason and is kept with its code."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.failures: List[Tuple[Optional[int], str]] = []

    def fact(self, call: Callable[[], Any], unit: Optional[str] = None) -> JSON:
        value, error = attempt(call)
        if error is not None:
            message = error_text(self.nvml, error)
            self.failures.append((code_of(error), message))
            return {"state": "unknown", "reason": "NVML: " + message}
        known = {"state": "known", "value": as_str(value) if isinstance(value, bytes) else value, "source": "NVML"}
        if unit is not None:
            known["unit"] = unit
        return known


def cards(nvml: Any, driver: str) -> JSON:
    count, error = attempt(nvml.nvmlDeviceGetCount)
    if error is not None:
        return {"state": "unknown", "reason": "NVML: " + error_text(nvml, error)}
    found = []
    for index in range(count):
        handle, error = attempt(nvml.nvmlDeviceGetHandleByIndex, index)
        if error is None:
            found.append(card(nvml, handle, index, driver))
        else:
            health_fact = {"state": "known", "value": error_text(nvml, error), "source": "NVML"}
            found.append({"vendor": "nvidia", "index": index, "health": health_fact})
    return {"state": "known", "value": found, "source": "NVML"}


def card(nvml: Any, handle: Any, index: int, driver: str) -> JSON:
    reader = FactReader(nvml)
    known: JSON = {"vendor": "nvidia", "index": index}
    known["name"] = reader.fact(lambda: nvml.nvmlDeviceGetName(handle))
    known["uuid"] = reader.fact(lambda: nvml.nvmlDeviceGetUUID(handle))
    known["bus_id"] = reader.fact(lambda: as_str(nvml.nvmlDeviceGetPciInfo(handle).busId))
    known["memory_total"] = reader.fact(lambda: memory(nvml, handle).total, "B")
    known["memory_used"] = reader.fact(lambda: memory(nvml, handle).used, "B")
    basic_failures = list(reader.failures)
    known["architecture"] = reader.fact(lambda: named(ARCHITECTURES, nvml.nvmlDeviceGetArchitecture(handle)))
    known["compute_capability"] = reader.fact(lambda: "%d.%d" % tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle)))
    known.update(load(reader, handle))
    known["clocks"] = clocks(reader, handle)
    known["pcie"] = pcie(reader, handle)
    known["ecc"] = ecc(reader, handle)
    known["persistence"] = reader.fact(lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle)))
    known["compute_mode"] = reader.fact(lambda: named(COMPUTE_MODES, nvml.nvmlDeviceGetComputeMode(handle)))
    known["driver_model"] = reader.fact(lambda: named(DRIVER_MODELS, nvml.nvmlDeviceGetCurrentDriverModel(handle)))
    known["fabric"] = reader.fact(lambda: fabric(nvml, handle))
    known["mig"] = reader.fact(lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]))
    known["mig_instances"] = known["mig"]
    slices: List[Any] = []
    if known["mig"]["state"] == "known":
        slices = mig_handles(nvml, handle) if known["mig"]["value"] else []
        known["mig_instances"] = reader.fact(lambda: [mig_instance(reader, each) for each in slices])
    known["processes"] = reader.fact(lambda: processes(nvml, [handle, *slices], driver))
    known["health"] = {"state": "known", "value": health(reader, handle, basic_failures), "source": "NVML"}
    return known


def named(names: Dict[int, str], number: int) -> str:
    if number not in names:
        raise LookupError(text("NVML reports {number}, which this version of ownlab does not know", number=number))
    return names[number]


def memory(nvml: Any, handle: Any) -> Any:
    """Read the memory; the first version of this call counts the driver's own reserve as used (since driver 510)."""
    return first(
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2),
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle),
    )


def load(reader: FactReader, handle: Any) -> JSON:
    """Read what changes from second to second."""
    nvml = reader.nvml
    reasons = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    limits = ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")
    return {
        "utilisation": reader.fact(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu, "%"),
        "power_draw": reader.fact(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000, "W"),
        "power_limit": reader.fact(lambda: any_of(nvml, limits, handle) / 1000, "W"),
        "temperature": reader.fact(lambda: temperature(nvml, handle), "°C"),
        "throttle_reasons": reader.fact(lambda: throttle_reasons(any_of(nvml, reasons, handle))),
    }


def temperature(nvml: Any, handle: Any) -> int:
    degrees: int = first(
        lambda: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU),
        lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),  # until CUDA 14
    )
    return degrees


def any_of(nvml: Any, names: Sequence[str], handle: Any) -> Any:
    """Call a function that was renamed: the bindings or the driver may have only one of the names."""

    def call(name: str) -> Callable[[], Any]:
        return lambda: getattr(nvml, name)(handle)

    return first(*[call(name) for name in names])


def throttle_reasons(mask: int) -> List[str]:
    return [name for bit, name in THROTTLE_BITS.items() if mask & bit]


def clocks(reader: FactReader, handle: Any) -> JSON:
    nvml = reader.nvml
    return {
        "sm": reader.fact(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM), "MHz"),
        "sm_max": reader.fact(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM), "MHz"),
        "memory": reader.fact(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM), "MHz"),
        "memory_max": reader.fact(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM), "MHz"),
    }


def pcie(reader: FactReader, handle: Any) -> JSON:
    nvml = reader.nvml
    return {
        "generation": reader.fact(lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "generation_max": reader.fact(lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        "width": reader.fact(lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "width_max": reader.fact(lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
    }


def ecc(reader: FactReader, handle: Any) -> JSON:
    nvml = reader.nvml

    def errors(kind: int) -> JSON:
        return reader.fact(lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, kind, nvml.NVML_VOLATILE_ECC))

    return {
        "enabled": reader.fact(lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0])),
        "corrected": errors(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        "uncorrected": errors(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        # Cards before Ampere retire pages instead of remapping rows.
        "remap_pending": reader.fact(
            lambda: first(
                lambda: bool(nvml.nvmlDeviceGetRemappedRows(handle)[2]),
                lambda: bool(nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)),
            )
        ),
        "remap_failed": reader.fact(lambda: bool(nvml.nvmlDeviceGetRemappedRows(handle)[3])),
    }


def fabric(nvml: Any, handle: Any) -> str:
    """Read the state of the NVSwitch fabric; CUDA does not start before it is completed."""

    def ask(function: str, record: str) -> Any:
        info = getattr(nvml, record)()
        getattr(nvml, function)(handle, ctypes.byref(info))
        return info

    info = first(
        lambda: ask("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
        lambda: ask("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
    )
    state = named(FABRIC_STATES, info.state)
    if state == "completed" and info.status != 0:
        return text("completed with an error: {error}", error=as_str(nvml.nvmlErrorString(info.status)))
    return state


def mig_handles(nvml: Any, handle: Any) -> List[Any]:
    """Return the handles of the MIG instances. NVML has no list, so every number is tried."""
    count, _ = attempt(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)
    found = [attempt(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index) for index in range(count or 0)]
    return [each for each, error in found if error is None]


def mig_instance(reader: FactReader, handle: Any) -> JSON:
    nvml = reader.nvml
    return {
        "uuid": as_str(nvml.nvmlDeviceGetUUID(handle)),
        "profile": reader.fact(lambda: mig_profile(nvml, handle)),
        "memory_total": reader.fact(lambda: memory(nvml, handle).total, "B"),
        "memory_used": reader.fact(lambda: memory(nvml, handle).used, "B"),
    }


def mig_profile(nvml: Any, handle: Any) -> str:
    """Read the profile at the end of an instance's name ("NVIDIA H200 MIG 1g.18gb"); old drivers report only its parts."""
    match = re.search(r" MIG (\S+)$", as_str(nvml.nvmlDeviceGetName(handle)))
    if match is not None:
        return match.group(1)
    parts = nvml.nvmlDeviceGetAttributes(handle)
    profile = "%dg.%dgb" % (parts.gpuInstanceSliceCount, math.ceil(parts.memorySizeMB / 1024))
    if parts.computeInstanceSliceCount != parts.gpuInstanceSliceCount:
        profile = "%dc.%s" % (parts.computeInstanceSliceCount, profile)
    return profile


def processes(nvml: Any, handles: Sequence[Any], driver: str) -> List[JSON]:
    """List the processes on the card. A container with a MIG instance may query only the instances, not the card."""
    versions = ("_v2",) if PROCESSES_BROKEN.match(driver) else ("_v3", "_v2", "")

    def running(kind: str, handle: Any) -> List[Any]:
        return list(any_of(nvml, ["nvmlDeviceGet%sRunningProcesses%s" % (kind, v) for v in versions], handle))

    def everyone(kind: str) -> List[Any]:
        whole, error = attempt(running, kind, handles[0])
        if error is None:
            return list(whole)
        if not handles[1:]:
            raise error
        return [each for handle in handles[1:] for each in running(kind, handle)]

    found: Dict[int, JSON] = {}
    for each in everyone("Compute"):
        found[each.pid] = process(each, "compute")
    for kind in ("MPSCompute", "Graphics"):
        others, _ = attempt(
            everyone, kind
        )  # a card or driver may not have this kind; compute processes are known already
        for each in others or ():  # a process that computes and draws counts as compute
            found.setdefault(each.pid, process(each, "graphics" if kind == "Graphics" else "compute"))
    return list(found.values())


def process(each: Any, kind: str) -> JSON:
    used = each.usedGpuMemory
    if used is None or used >= 2**64 - 1:
        fact = {"state": "unknown", "reason": text("NVML does not report the memory of this process (Windows, WSL)")}
    else:
        fact = {"state": "known", "value": used, "source": "NVML", "unit": "B"}
    return {"pid": each.pid, "kind": kind, "memory": fact}


def health(reader: FactReader, handle: Any, basic_failures: Sequence[Tuple[Optional[int], str]]) -> str:
    """Return "OK", or the message of a failure that a working card does not have."""
    for code, message in reader.failures:
        if code in (GPU_IS_LOST, RESET_REQUIRED):
            return message
    for code, message in basic_failures:
        if code not in (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND):
            return message
    fields, _ = attempt(lambda: reader.nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_FIELD]))
    # Older drivers and bindings do not have this field.
    action = fields[0].value.uiVal if fields is not None and fields[0].nvmlReturn == 0 else 0
    return "OK" if action == 0 else "recovery action: " + RECOVERY_ACTIONS.get(action, str(action))
