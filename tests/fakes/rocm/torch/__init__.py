"""torch 2.5 for ROCm 6.2 on two cards; the second cannot be queried."""

from types import SimpleNamespace


def get_device_properties(index):
    if index == 1:
        raise RuntimeError("HIP error: invalid device ordinal")
    # ROCm's builds give a "compute capability" too: it is not an NVIDIA one.
    return SimpleNamespace(name="AMD Instinct MI300X", major=9, minor=4, total_memory=206141652992)


__version__ = "2.5.1+rocm6.2"
version = SimpleNamespace(cuda=None, hip="6.2.41133-dd7f95766")
cuda = SimpleNamespace(
    is_available=lambda: True, init=lambda: None, device_count=lambda: 2, get_device_properties=get_device_properties
)
_C = SimpleNamespace(_cuda_getArchFlags=lambda: "gfx90a gfx942")
