"""GPM: how much of a card worked between two moments (NVML, Hopper and newer; nvml.h of driver 580 and later).

The sample before is kept, and each reading is the difference to it: so a figure is the mean of the whole interval, and
nobody waits but for the first. Two samples must lie more than 100 ms apart, as the header says; until then the older one is
kept.
"""

import ctypes
import time
from typing import Any, Dict, Iterator, Optional, Tuple

from ownlab_guest.probe.nvml import attempt, words

APART_SECONDS = 0.101
LATER = "the first figures come with the second sample"
AGAIN_SECONDS = 60.0
MIB = 1024**2

# NVML_GPM_METRIC_…: our name for it. Percentages of 0 to 100.
SHARES = {
    1: "graphics",
    2: "sm",
    3: "occupancy",
    4: "integer",
    5: "tensor",
    6: "tensor_fp64",  # DFMA, and DMMA: the greater of the two
    8: "tensor_fp64",
    10: "dram",
    11: "fp64",
    12: "fp32",
    13: "fp16",
}
# MiB a second, as the card sends and receives.
RATES = {20: "pcie_sent", 21: "pcie_received", 61: "nvlink_sent", 60: "nvlink_received"}
WANTED = {**SHARES, **RATES}
# Whatever a card does or does not do, it is spoken to: over PCIe something passes always.
TRAFFIC = (20, 21)
LOOK_SECONDS = 0.005


class Gpm:
    """One card's, with the sample that was taken last; or, given the card that it is on, a MIG instance's."""

    def __init__(self, nvml: Any, whole: Any = None, early: Optional[Tuple[int, float]] = None) -> None:
        self.nvml = nvml
        self.whole = whole
        self.early = early  # a sample that was taken before this was made: its address, and when
        self.works = True
        self.asked = False
        self.again_at = float("inf")  # when one that failed is tried anew
        self.why = ""
        self.before: Any = None
        self.spare: Any = None
        self.at = 0.0
        self.latest: Optional[Dict[str, Any]] = None

    def read(self, handle: Any) -> Tuple[Optional[Dict[str, Any]], str]:
        """The figures since the reading before, or None and why there are none."""
        if not self.asked or time.monotonic() >= self.again_at:
            self.begin(handle)
        if not self.works:
            return None, self.why
        now = time.monotonic()
        if self.before is not None and now - self.at <= APART_SECONDS:
            if self.latest is not None:
                return self.latest, ""
            self.await_tick(handle)
            now = time.monotonic()
        error = self.fill_spare(handle)
        if error is not None:
            return self.give_up(error)
        before, self.before, self.at = self.before, self.spare, now
        if before is None:
            self.spare, error = attempt(self.nvml.nvmlGpmSampleAlloc)
            return (None, LATER) if error is None else self.give_up(error)
        self.spare = before
        figures, error = attempt(self.difference, before, self.before)
        if error is not None:
            return self.give_up(error)
        self.latest = figures
        return figures, ""

    def await_tick(self, handle: Any) -> None:
        """Until there is a difference to the only sample so far: the driver counts every tenth of a second (seen on an H200)."""
        while time.monotonic() - self.at <= APART_SECONDS and self.fill_spare(handle) is None:
            moved, error = attempt(self.values, self.before, self.spare, TRAFFIC)
            if error is not None or any(moved.values()):
                return
            time.sleep(LOOK_SECONDS)

    def fill_spare(self, handle: Any) -> Optional[Exception]:
        """Older drivers take no handle of a MIG instance, but the card's, and the instance's number."""
        _, error = attempt(self.nvml.nvmlGpmSampleGet, handle, self.spare)
        if error is None or self.whole is None:
            return error
        number, unnumbered = attempt(self.nvml.nvmlDeviceGetGpuInstanceId, handle)
        return unnumbered or attempt(self.nvml.nvmlGpmMigSampleGet, self.whole, number, self.spare)[1]

    def begin(self, handle: Any) -> None:
        """Whether this card has GPM: it says so itself. Its name does not."""
        self.asked, self.again_at = True, float("inf")
        self.before = self.latest = None
        self.works = hasattr(self.nvml, "nvmlGpmSampleGet")
        if not self.works:
            self.why = "this version of nvidia-ml-py has no GPM"
            return
        support, error = attempt(self.nvml.nvmlGpmQueryDeviceSupport, handle if self.whole is None else self.whole)
        if error is not None or not support.isSupportedDevice:
            self.works = False
            self.why = "this card does not measure it (GPM: data-centre cards of Hopper and newer)"
            return
        self.spare, error = attempt(self.nvml.nvmlGpmSampleAlloc)
        if error is not None:
            self.give_up(error)
        elif self.early is not None:
            (address, self.at), self.early = self.early, None
            self.before = ctypes.cast(address, self.nvml.c_nvmlGpmSample_t)

    def give_up(self, error: Exception) -> Tuple[None, str]:
        """For a while: a card may be reset, or divided anew."""
        self.works, self.why = False, "GPM: " + words(self.nvml, error)
        self.again_at = time.monotonic() + AGAIN_SECONDS
        return None, self.why

    def difference(self, before: Any, after: Any) -> Dict[str, Any]:
        figures: Dict[str, Any] = {"saturation": {}, "pcie_sent": None, "pcie_received": None}
        for number, value in self.values(before, after, tuple(WANTED)).items():
            name = WANTED[number]
            told = round(value, 4) if number in SHARES else value * MIB
            into = figures if name.startswith("pcie") else figures["saturation"]
            into[name] = max(told, into.get(name) or 0.0)
        return figures

    def values(self, before: Any, after: Any, numbers: Tuple[int, ...]) -> Dict[int, float]:
        """What the library makes of two samples, by its numbers; without those that this driver does not know."""
        nvml = self.nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(numbers)
        asked.sample1, asked.sample2 = before, after
        for place, number in enumerate(numbers):
            asked.metrics[place].metricId = number
        nvml.nvmlGpmMetricsGet(asked)
        told = [asked.metrics[place] for place in range(len(numbers))]
        return {number: each.value for number, each in zip(numbers, told) if each.nvmlReturn == 0}


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
