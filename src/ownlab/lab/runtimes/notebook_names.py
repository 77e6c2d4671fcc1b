"""Which runtime a person means who names a notebook."""

from __future__ import annotations

import os
import re

__all__ = ["is_notebook", "is_run_of"]


def is_notebook(path: str, name: str) -> bool:
    """Return whether a notebook is the one that was named, by its path or the end of it."""
    return bool(path) and (path == name or path.endswith("/" + name) or path == os.path.abspath(name))


def is_run_of(path: str, name: str) -> bool:
    """Return whether a notebook is what `ownlab run` writes for the named one: NAME-run.ipynb, NAME-run-2.ipynb …"""
    stem = name.removesuffix(".ipynb")
    run = re.fullmatch(r"(.*)-run(?:-\d+)?\.ipynb", path, re.DOTALL)
    return bool(stem) and run is not None and is_notebook(run[1], stem)
