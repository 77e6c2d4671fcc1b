"""The state of an NVIDIA card during a measurement: clock, temperature, power, throttling. With ctypes only.

The interpreter that has torch seldom has NVIDIA's bindings, and only a few calls are needed.
"""

import ctypes
from typing import Any, Dict, Optional

from ownlab_guest.probe.nvml import throttle_reasons

NVML, CUDA = "libnvidia-ml.so.1", "libcuda.so.1"
SM_CLOCK, GPU_SENSOR = 1, 0  # NVML_CLOCK_SM, NVML_TEMPERATURE_GPU


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t, which does not count the driver's reserved memory as used, unlike version 1."""

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


class CardState:
    """One card, opened with NVML."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle

    def read(self) -> Dict[str, Any]:
        """Return the current state; None for unknown values."""
        power = self._number("nvmlDeviceGetPowerUsage")
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        return {
            "clock_mhz": self._number("nvmlDeviceGetClockInfo", SM_CLOCK),
            "temperature_c": self._number("nvmlDeviceGetTemperature", GPU_SENSOR),
            "power_w": None if power is None else power / 1000,
            "throttle": throttle_reasons(reasons or 0),
        }

    def used_bytes(self) -> Optional[int]:
        """Return the memory in use by all programs, including this one."""
        memory = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        return memory.used if self._call("nvmlDeviceGetMemoryInfo_v2", memory) else None

    def busy_percent(self) -> Optional[int]:
        """Return the share of the last moment in which any kernel ran."""
        rates = Utilization()
        return rates.gpu if self._call("nvmlDeviceGetUtilizationRates", rates) else None

    def _number(self, function: str, *arguments: int, kind: Any = ctypes.c_uint) -> Optional[int]:
        value = kind()
        return int(value.value) if self._call(function, value, *arguments) else None

    def _call(self, function: str, result: Any, *arguments: int) -> bool:
        try:
            return bool(getattr(self.nvml, function)(self.handle, *arguments, ctypes.byref(result)) == 0)
        except AttributeError:  # an older driver without this function
            return False


def open_card(number: int) -> Optional[CardState]:
    """Open a card by its CUDA number; None without NVIDIA's driver (AMD cards, CPUs)."""
    bus = pci_bus_id(number)
    if bus is None:
        return None
    try:
        nvml = ctypes.CDLL(NVML)
        handle = ctypes.c_void_p()
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle)) == 0:
            return CardState(nvml, handle)
    except (OSError, AttributeError):  # no such library, or one without these functions
        return None
    return None


def pci_bus_id(number: int) -> Optional[bytes]:
    """Return the PCI bus id. CUDA may number cards differently from the driver, and CUDA_VISIBLE_DEVICES hides some."""
    try:
        cuda = ctypes.CDLL(CUDA)
    except OSError:
        return None
    device, buffer = ctypes.c_int(), ctypes.create_string_buffer(32)
    failed = cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), number)
    failed = failed or cuda.cuDeviceGetPCIBusId(buffer, len(buffer), device)
    return None if failed else buffer.value
