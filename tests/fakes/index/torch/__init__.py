"""A stand-in for torch, small enough for a local package index: what a proof needs, computed by numpy.

STAND_IN_CARDS says how many cards it sees.
"""

import os
import types

import numpy

__version__ = "VERSION"  # replaced when the wheel is made
float16, bfloat16, float32, float64 = "float16", "float16", "float32", "float64"
version = types.SimpleNamespace(hip=None)
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True)))


class Tensor:
    def __init__(self, values, device="cpu"):
        self.values, self.device = values, device

    def to(self, where):
        if where in ("float16", "float32", "float64"):
            return Tensor(self.values.astype(where), self.device)
        return Tensor(self.values, where)

    def double(self):
        return self.to(float64)

    def cpu(self):
        return self.to("cpu")

    def abs(self):
        return Tensor(abs(self.values), self.device)

    def max(self):
        return Tensor(self.values.max(), self.device)

    def item(self):
        return float(self.values)

    def __matmul__(self, other):
        wide = self.values.dtype if self.values.dtype == "float64" else "float32"
        product = self.values.astype(wide) @ other.values.astype(wide)
        return Tensor(product.astype(self.values.dtype), self.device)

    def __sub__(self, other):
        return Tensor(self.values - other.values, self.device)

    def __truediv__(self, other):
        return Tensor(self.values / other.values, self.device)


class Generator:
    def manual_seed(self, seed):
        self.random = numpy.random.RandomState(seed)
        return self


def randn(rows, columns, generator):
    return Tensor(generator.random.standard_normal((rows, columns)).astype("float32"))


def zeros(*shape):
    return Tensor(numpy.zeros(shape, "float32"))


cuda = types.SimpleNamespace(
    device_count=lambda: int(os.environ.get("STAND_IN_CARDS", "0")),
    get_device_name=lambda index: "a stand-in",
    get_device_capability=lambda index: (6, 1),
)
