"""What an NVIDIA card does beside a measurement: clock, temperature, power, why it slows down. Through ctypes alone.

The interpreter that has torch seldom has NVIDIA's bindings, and a few calls are all that is needed.
"""

import ctypes
from typing import Any, Dict, Optional

from ownlab_guest.probe.nvml import throttle_reasons

NVML, CUDA = "libnvidia-ml.so.1", "libcuda.so.1"
SM_CLOCK, GPU_SENSOR = 1, 0  # NVML_CLOCK_SM, NVML_TEMPERATURE_GPU


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t: what the driver keeps for itself is not counted as used, as it is in the first version."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class Utilization(ctypes.Structure):
    """nvmlUtilization_t, in percent of time."""

    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Watched:
    """One card, by its number among those that CUDA shows here."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle

    def state(self) -> Dict[str, Any]:
        """As it is now; None for what it does not tell."""
        power = self._number("nvmlDeviceGetPowerUsage")
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        return {
            "clock_mhz": self._number("nvmlDeviceGetClockInfo", SM_CLOCK),
            "temperature_c": self._number("nvmlDeviceGetTemperature", GPU_SENSOR),
            "power_w": None if power is None else power / 1000,
            "throttle": throttle_reasons(reasons or 0),
        }

    def used_bytes(self) -> Optional[int]:
        """What programs hold of its memory, ours among them."""
        memory = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        return memory.used if self._ask("nvmlDeviceGetMemoryInfo_v2", memory) else None

    def busy_percent(self) -> Optional[int]:
        """In how much of the last moment any kernel ran."""
        rates = Utilization()
        return rates.gpu if self._ask("nvmlDeviceGetUtilizationRates", rates) else None

    def _number(self, function: str, *arguments: int, kind: Any = ctypes.c_uint) -> Optional[int]:
        value = kind()
        return int(value.value) if self._ask(function, value, *arguments) else None

    def _ask(self, function: str, result: Any, *arguments: int) -> bool:
        try:
            return bool(getattr(self.nvml, function)(self.handle, *arguments, ctypes.byref(result)) == 0)
        except AttributeError:  # a driver that is older than this function
            return False


def watched(number: int) -> Optional[Watched]:
    """None where NVIDIA's driver is not there: AMD's cards, CPUs."""
    bus = bus_id(number)
    if bus is None:
        return None
    try:
        nvml = ctypes.CDLL(NVML)
        handle = ctypes.c_void_p()
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle)) == 0:
            return Watched(nvml, handle)
    except (OSError, AttributeError):  # no such library, or one without these functions
        return None
    return None


def bus_id(number: int) -> Optional[bytes]:
    """Where the card is plugged in. CUDA may count otherwise than the driver, and CUDA_VISIBLE_DEVICES hides some."""
    try:
        cuda = ctypes.CDLL(CUDA)
    except OSError:
        return None
    device, text = ctypes.c_int(), ctypes.create_string_buffer(32)
    failed = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), number)
    failed = failed or cuda.cuDeviceGetPCIBusId(text, len(text), device)
    return None if failed else text.value
