"""JAX on a TPU of two chips."""

from types import SimpleNamespace

__version__ = "0.6.0"


def devices(backend=None):
    return [SimpleNamespace(platform="tpu", device_kind="TPU v5 lite")] * 2
