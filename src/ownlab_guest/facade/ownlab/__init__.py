"""What notebooks may call of ownlab where ownlab itself is not installed in their environment."""

from typing import Any

from ownlab_guest.kernel.fit import fit
from ownlab_guest.kernel.on_end import on_end
from ownlab_guest.kernel.watch import watch

__all__ = ["fit", "load_ipython_extension", "on_end", "watch"]


def load_ipython_extension(ipython: Any) -> None:
    """IPython calls it for `%load_ext ownlab`: `%fit` and `%doctor` are there from then on."""
    from ownlab_guest.kernel.magics import register

    register(ipython, fit, (RuntimeError, TypeError, ValueError))
