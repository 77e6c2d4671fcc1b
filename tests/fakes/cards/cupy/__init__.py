"""CuPy with two cards that numpy plays. FAKE_CUPY says what is wrong with the second: rounds, elsewhere, nan, raises, segv."""

import os
import signal
from types import SimpleNamespace

import numpy

__version__ = "13.3.0"
CARDS = [{"name": b"Tesla V100-SXM2-16GB", "major": 7, "minor": 0, "totalGlobalMem": 16935682048}] * 2
TROUBLE = os.environ.get("FAKE_CUPY")
current = [0]


class Device:
    def __init__(self, index):
        self.id = index

    def __enter__(self):
        current[0] = self.id

    def __exit__(self, *_):
        current[0] = 0


class Array:
    def __init__(self, values):
        self.values = values
        self.device = Device(0 if TROUBLE == "elsewhere" else current[0])

    def __matmul__(self, other):
        product = (self.values.astype("float32") @ other.values.astype("float32")).astype(self.values.dtype)
        if current[0] == 1:
            product = spoil(product)
        return Array(product)


def spoil(product):
    if TROUBLE == "raises":
        raise RuntimeError("cudaErrorNoKernelImageForDevice: no kernel image is available for execution on the device")
    if TROUBLE == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if TROUBLE == "rounds":  # to steps of 1/128 of the largest element: twice what float16 is allowed
        step = abs(product).max() / 128
        return (product / step).round() * step
    return product * numpy.nan if TROUBLE == "nan" else product


asarray = Array
cuda = SimpleNamespace(
    Device=Device,
    runtime=SimpleNamespace(is_hip=False, getDeviceCount=lambda: 2, getDeviceProperties=CARDS.__getitem__),
    driver=SimpleNamespace(get_build_version=lambda: 12060),
)


def asnumpy(array):
    return array.values
