"""CuPy on a driver that is too old for it."""

from types import SimpleNamespace


def get_device_count():
    raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")


__version__ = "13.3.0"
cuda = SimpleNamespace(
    runtime=SimpleNamespace(is_hip=False, getDeviceCount=get_device_count),
    driver=SimpleNamespace(get_build_version=lambda: 12060),
)
