"""GPM's first samples before all else: NVIDIA's bindings take longer to load than two samples must lie apart.

Only what that takes is called here, through ctypes; the rest is asked by the bindings.
"""

import ctypes
import time
from typing import Dict, Iterator, Tuple

LIBRARY = "libnvidia-ml.so.1"
MOST_CARDS = 64


def samples() -> Dict[int, Tuple[int, float]]:
    """By the number of a card: the address of a sample, and when it was taken. A card that cannot do it is not there."""
    taken: Dict[int, Tuple[int, float]] = {}
    try:
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2() == 0:
            taken.update(take(nvml))
    except (OSError, AttributeError):  # no driver, or one that is older than GPM
        taken.clear()
    return taken


def take(nvml: ctypes.CDLL) -> Iterator[Tuple[int, Tuple[int, float]]]:
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(min(count.value, MOST_CARDS)):
        handle, sample = ctypes.c_void_p(), ctypes.c_void_p()
        failed = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        failed = failed or nvml.nvmlGpmSampleAlloc(ctypes.byref(sample))
        failed = failed or nvml.nvmlGpmSampleGet(handle, sample)
        if not failed and sample.value is not None:
            yield index, (sample.value, time.monotonic())
