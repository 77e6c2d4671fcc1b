"""The part of ownlab that a notebook can call where ownlab is not installed in its environment."""

from typing import Any

from ownlab_guest.kernel.fit import fit
from ownlab_guest.kernel.host_records import OwnlabError
from ownlab_guest.kernel.on_end import on_end
from ownlab_guest.kernel.watch import watch
from ownlab_guest.kernel.why import why

# `ownlab.data` is a module of its own: kernels that read no data do not load it.
__all__ = ["OwnlabError", "fit", "load_ipython_extension", "on_end", "watch", "why"]


def load_ipython_extension(ipython: Any) -> None:
    """Register `%fit`, `%doctor`, `%%train` and `%%why`; IPython calls this for `%load_ext ownlab`."""
    from ownlab_guest.kernel.magics import register

    register(ipython, fit, (OwnlabError, TypeError, ValueError))


def __getattr__(name: str) -> Any:
    if name != "data":
        raise AttributeError("module 'ownlab' has no attribute " + repr(name))
    import importlib

    return importlib.import_module("ownlab.data")
