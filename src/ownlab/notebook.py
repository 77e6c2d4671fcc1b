"""Functions for notebooks that belong to no single feature: `ownlab.on_end`, `ownlab.why` and `%load_ext ownlab`. Runs in the kernel."""

from __future__ import annotations

from typing import Any

import ownlab.errors  # noqa: F401  # whose classes `ownlab.why` raises
from ownlab_guest.kernel.on_end import on_end
from ownlab_guest.kernel.why import why

__all__ = ["load_ipython_extension", "on_end", "why"]


def load_ipython_extension(ipython: Any) -> None:
    """Register `%fit`, `%doctor`, `%%train` and `%%why`; IPython calls this for `%load_ext ownlab`."""
    from ownlab.errors import OwnlabError
    from ownlab.instruments.fit.notebook import fit  # on_end must not pay for it
    from ownlab_guest.kernel.magics import register

    register(ipython, fit, (OwnlabError, TypeError, ValueError))
