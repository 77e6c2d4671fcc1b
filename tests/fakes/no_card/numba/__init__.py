"""numba on a machine without a card."""

from types import SimpleNamespace

__version__ = "0.61.0"
config = SimpleNamespace(ENABLE_CUDASIM=False)
