"""Functions for notebooks that belong to no single feature: `ownlab.on_end` and `%load_ext ownlab`. Runs in the kernel."""

from __future__ import annotations

from typing import Any

from ownlab_guest.kernel.on_end import on_end

__all__ = ["load_ipython_extension", "on_end"]


def load_ipython_extension(ipython: Any) -> None:
    """Register `%fit`, `%doctor` and `%%train`; IPython calls this for `%load_ext ownlab`."""
    from ownlab.errors import OwnlabError
    from ownlab.instruments.fit.notebook import fit  # on_end must not pay for it
    from ownlab_guest.kernel.magics import register

    register(ipython, fit, (OwnlabError, TypeError, ValueError))
