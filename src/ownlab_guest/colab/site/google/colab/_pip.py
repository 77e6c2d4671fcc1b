"""Notices commands that install packages, however their text came about: cells are searched for such words before they run."""

import re
from typing import Any

from ownlab_guest.shell import packages

__all__ = ["watch"]

_INSTALLS = re.compile(
    r"\b(pip|pip3|uv|conda|mamba|micromamba)\b.*\b(install|uninstall|sync|update|upgrade)\b", re.DOTALL
)


def watch(shell: Any, command: str) -> None:
    """Called before a command. After the cell, the packages that it changed are reported."""
    if _INSTALLS.search(command):
        packages.watch(shell)
