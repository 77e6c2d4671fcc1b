"""The running IPython and its kernel, under the names of Colab's own module."""

from typing import Any

import IPython

__all__ = ["get_ipython", "get_kernel", "get_kernelapp"]


def get_ipython() -> Any:
    """Return the shell."""
    return IPython.get_ipython()  # type: ignore[no-untyped-call,unused-ignore]


def get_kernel() -> Any:
    """Return the kernel."""
    return get_ipython().kernel


def get_kernelapp() -> Any:
    """Return the kernel's application."""
    return get_ipython().kernel.parent
