"""GPM: how busy the parts of a card were between two samples (NVML, Hopper and newer; nvml.h of driver 580 and later).

The previous sample is kept, and each reading is the difference to it: a figure is the mean of the whole interval, and
only the first reading has to wait. According to the header, two samples must be more than 100 ms apart; until then the older
one is kept.
"""

import ctypes
import time
from typing import Any, Dict, Iterator, Optional, Tuple

from ownlab_guest.probe.nvml import attempt, error_text
from ownlab_guest.text import text

APART_SECONDS = 0.101
PENDING = "pending"  # the reason for a first reading, as a code: `ownlab top` has the sentence
AGAIN_SECONDS = 60.0
MIB = 1024**2

# Number of NVML_GPM_METRIC_… -> its name here. Percentages from 0 to 100.
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
# MiB per second that the card sends and receives.
RATES = {20: "pcie_sent", 21: "pcie_received", 61: "nvlink_sent", 60: "nvlink_received"}
WANTED = {**SHARES, **RATES}
# There is always some traffic over PCIe, even on an idle card.
TRAFFIC = (20, 21)
LOOK_SECONDS = 0.005


class Gpm:
    """The GPM of one card with its last sample or, if `whole` is the card it is on, of a MIG instance."""

    def __init__(self, nvml: Any, whole: Any = None, early: Optional[Tuple[int, float]] = None) -> None:
        self.nvml = nvml
        self.whole = whole
        self.early = early  # a sample taken earlier by `first_samples`: its address and its time
        self.works = True
        self.asked = False
        self.again_at = float("inf")  # when to try again after a failure
        self.why = ""
        self.before: Any = None
        self.spare: Any = None
        self.at = 0.0
        self.latest: Optional[Dict[str, Any]] = None

    def read(self, handle: Any) -> Tuple[Optional[Dict[str, Any]], str]:
        """Return the figures since the previous reading, or None and the reason."""
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
            return (None, PENDING) if error is None else self.give_up(error)
        self.spare = before
        figures, error = attempt(self.difference, before, self.before)
        if error is not None:
            return self.give_up(error)
        self.latest = figures
        return figures, ""

    def await_tick(self, handle: Any) -> None:
        """Wait until there is a difference to the only sample: the driver counts every 100 ms (seen on an H200)."""
        while time.monotonic() - self.at <= APART_SECONDS and self.fill_spare(handle) is None:
            moved, error = attempt(self.values, self.before, self.spare, TRAFFIC)
            if error is not None or any(moved.values()):
                return
            time.sleep(LOOK_SECONDS)

    def fill_spare(self, handle: Any) -> Optional[Exception]:
        """Take a sample. For a MIG instance, older drivers need the card's handle and the instance's number."""
        _, error = attempt(self.nvml.nvmlGpmSampleGet, handle, self.spare)
        if error is None or self.whole is None:
            return error
        number, unnumbered = attempt(self.nvml.nvmlDeviceGetGpuInstanceId, handle)
        return unnumbered or attempt(self.nvml.nvmlGpmMigSampleGet, self.whole, number, self.spare)[1]

    def begin(self, handle: Any) -> None:
        """Ask the card whether it has GPM, and prepare the samples."""
        self.asked, self.again_at = True, float("inf")
        self.before = self.latest = None
        self.works = hasattr(self.nvml, "nvmlGpmSampleGet")
        if not self.works:
            self.why = text("this version of nvidia-ml-py has no GPM")
            return
        support, error = attempt(self.nvml.nvmlGpmQueryDeviceSupport, handle if self.whole is None else self.whole)
        if error is not None or not support.isSupportedDevice:
            self.works = False
            self.why = text("this card does not measure it (GPM needs a data-center card of Hopper or newer)")
            return
        self.spare, error = attempt(self.nvml.nvmlGpmSampleAlloc)
        if error is not None:
            self.give_up(error)
        elif self.early is not None:
            (address, self.at), self.early = self.early, None
            self.before = ctypes.cast(address, self.nvml.c_nvmlGpmSample_t)

    def give_up(self, error: Exception) -> Tuple[None, str]:
        """Stop for a while: a card may be reset or repartitioned."""
        self.works, self.why = False, text("GPM: {error}", error=error_text(self.nvml, error))
        self.again_at = time.monotonic() + AGAIN_SECONDS
        return None, self.why

    def difference(self, before: Any, after: Any) -> Dict[str, Any]:
        figures: Dict[str, Any] = {"saturation": {}, "pcie_sent": None, "pcie_received": None}
        for number, value in self.values(before, after, tuple(WANTED)).items():
            name = WANTED[number]
            figure = round(value, 4) if number in SHARES else value * MIB
            group = figures if name.startswith("pcie") else figures["saturation"]
            group[name] = max(figure, group.get(name) or 0.0)
        return figures

    def values(self, before: Any, after: Any, numbers: Tuple[int, ...]) -> Dict[int, float]:
        """Compute the metrics between two samples by number, without those that this driver does not know."""
        nvml = self.nvml
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(numbers)
        request.sample1, request.sample2 = before, after
        for position, number in enumerate(numbers):
            request.metrics[position].metricId = number
        nvml.nvmlGpmMetricsGet(request)
        metrics = [request.metrics[position] for position in range(len(numbers))]
        return {number: metric.value for number, metric in zip(numbers, metrics) if metric.nvmlReturn == 0}


LIBRARY = "libnvidia-ml.so.1"
MOST_CARDS = 64


# --- the first samples ------------------------------------------------------------------------------------------------


def first_samples() -> Dict[int, Tuple[int, float]]:
    """Take a sample of each card that has GPM: card number -> its address and its time.

    This uses ctypes and comes before all else, because loading NVIDIA's bindings takes longer than the time that two
    samples must be apart.
    """
    taken: Dict[int, Tuple[int, float]] = {}
    try:
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2() == 0:
            taken.update(take_samples(nvml))
    except (OSError, AttributeError):  # no driver, or one without GPM
        taken.clear()
    return taken


def take_samples(nvml: ctypes.CDLL) -> Iterator[Tuple[int, Tuple[int, float]]]:
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(min(count.value, MOST_CARDS)):
        handle, sample = ctypes.c_void_p(), ctypes.c_void_p()
        failed = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        failed = failed or nvml.nvmlGpmSampleAlloc(ctypes.byref(sample))
        failed = failed or nvml.nvmlGpmSampleGet(handle, sample)
        if not failed and sample.value is not None:
            yield index, (sample.value, time.monotonic())
