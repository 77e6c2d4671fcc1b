"""The device of a measurement: its properties, free memory, the driver's figure for this process, and the timing of steps."""

import ctypes
import os
import platform
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ownlab_guest.fit.errors import FitError
from ownlab_guest.probe.nvml import PROCESSES_BROKEN
from ownlab_guest.text import text

NVML = "libnvidia-ml.so.1"
MAX_PROCESSES = 512
NOT_AVAILABLE = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE: Windows' own driver model


def choose_device(wanted: Optional[str]) -> str:
    """Return the device by torch's name: a card if there is one, else the processor."""
    if wanted == "cpu" or (wanted is None and not torch.cuda.is_available()):
        return "cpu"
    device = torch.device(wanted or "cuda:0")
    if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
        raise FitError(
            "no-card", text("This torch ({version}) sees no {device}", version=torch.__version__, device=wanted)
        )
    return f"cuda:{device.index or 0}"


def describe_device(device: str) -> Dict[str, Any]:
    """Describe the device. On a card this creates the CUDA context."""
    if device == "cpu":
        return {"kind": "cpu", "name": _processor(), "multiprocessors": os.cpu_count() or 1}
    properties = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    own, _ = process_bytes()  # the context belongs to this process: count it as free
    return {
        "kind": "rocm" if torch.version.hip else "cuda",
        "name": properties.name,
        "memory_bytes": total,
        "free_bytes": free + (own or 0),
        "capability": properties.major + properties.minor / 10,
        "multiprocessors": properties.multi_processor_count,
        "threads": getattr(properties, "max_threads_per_multi_processor", 2048),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux: use the less specific name below
    return platform.processor() or platform.machine()


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of versions 2 and 3."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def process_bytes() -> Tuple[Optional[int], str]:
    """Return what nvidia-smi shows for this process, and the source; or None, and the reason.

    Uses ctypes: the Python that has torch may lack the bindings of NVML.
    """
    try:
        library = ctypes.CDLL(NVML)
    except OSError as exc:
        return None, text("NVML cannot be loaded: {reason}", reason=exc)
    code = library.nvmlInit_v2()
    if code != 0:
        return None, text("NVML does not start (code {code})", code=code)
    seen: List[Tuple[int, int]] = []
    for handle in _handles(library):
        processes, code = _processes(library, handle)
        if code != 0:
            return None, text("NVML does not list the processes on the card (code {code})", code=code)
        seen += processes
    return find_own_bytes(seen, os.getpid())


def find_own_bytes(seen: List[Tuple[int, int]], pid: int) -> Tuple[Optional[int], str]:
    """Return the memory of this process on all cards."""
    own = [used for number, used in seen if number == pid]
    if not own and len(seen) == 1:
        own = [seen[0][1]]  # a container has its own process numbers: the only process must be this one
    if not own:
        return None, text(
            "NVML lists {count} processes, and not this one: a container has its own process numbers", count=len(seen)
        )
    if NOT_AVAILABLE in own:
        return None, text("the driver does not report the memory of a process")
    return sum(own), "NVML"


def _handles(library: Any) -> List[Any]:
    count = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    handles = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) == 0:
            handles.append(handle)
    return handles


def _processes(library: Any, handle: Any) -> Tuple[List[Tuple[int, int]], int]:
    driver = ctypes.create_string_buffer(96)
    library.nvmlSystemGetDriverVersion(driver, ctypes.c_uint(len(driver)))
    broken = PROCESSES_BROKEN.match(driver.value.decode(errors="replace"))
    code = -1
    for version in ("_v2",) if broken else ("_v3", "_v2"):
        ask = getattr(library, f"nvmlDeviceGetComputeRunningProcesses{version}", None)
        if ask is None:
            continue
        count, rows = ctypes.c_uint(MAX_PROCESSES), (_Process * MAX_PROCESSES)()
        code = ask(handle, ctypes.byref(count), rows)
        if code == 0:
            return [(row.pid, row.used) for row in rows[: count.value]], 0
    return [], code


WARM_UP_STEPS = 2


def time_step(step: Callable[[], None], device: str, seconds: float, least: int, most: int) -> Dict[str, Any]:
    """Return two lists of seconds, measured after a warm-up.

    `alone`: each repetition from the call until the device has finished: the latency.
    `steady`: back to back without waiting, as in training; on a card by CUDA events.
    """
    for _ in range(WARM_UP_STEPS):
        step()
    alone: List[float] = []
    while len(alone) < least or (len(alone) < most and sum(alone) < seconds / 2):
        alone.append(_alone(step, device))
    return {"alone": alone, "steady": _on_card(step, device, len(alone)) if device != "cpu" else []}


def _alone(step: Callable[[], None], device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    step()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def _on_card(step: Callable[[], None], device: str, count: int) -> List[float]:
    """From the end of one step to the end of the next: includes the time that the card waits for launches."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda.synchronize(device)
    step()  # the first counted step must follow another one
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize(device)
    return [first.elapsed_time(second) / 1e3 for first, second in zip(marks, marks[1:])]
