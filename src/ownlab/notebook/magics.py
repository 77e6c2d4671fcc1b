"""`%load_ext ownlab`: what it gives to a notebook."""

from __future__ import annotations

from typing import Any

from ownlab.errors import OwnlabError
from ownlab.notebook.fit import fit
from ownlab_guest.kernel.magics import register

__all__ = ["load_ipython_extension"]


def load_ipython_extension(ipython: Any) -> None:
    """IPython calls it: `%fit` and `%doctor` are there from then on."""
    register(ipython, fit, (OwnlabError, TypeError, ValueError))
