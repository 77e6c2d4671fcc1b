"""JAX without a plug-in, on the CPU."""

from types import SimpleNamespace


def devices(backend=None):
    if backend is not None:
        raise RuntimeError(
            f"Unknown backend: '{backend}' requested, but no platforms that are instances of {backend} are present. "
            "Platforms present are: cpu"
        )
    return [SimpleNamespace(platform="cpu", device_kind="cpu")]


__version__ = "0.6.0"
