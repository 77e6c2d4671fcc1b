"""The entry point: for `ownlab top` the driver is asked first, since it takes longest; all else is loaded meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

__all__ = ["main"]

# Where a driver of NVIDIA's is loaded, one of these is there.
_DRIVER = ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg")
# What prints once, and what asks no driver.
_AT_ONCE = {"--once", "--json", "--query", "--query-gpu"}
_OTHERWISE = {"--help", "-h", "--replay", "report"}


def main() -> NoReturn:
    """`ownlab`."""
    if _is_in_a_hurry(sys.argv[1:], os.environ):
        from ownlab.instruments.top.nvml_child import prestart

        prestart()
    from ownlab.cli.main import main as run

    run()


def _is_in_a_hurry(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether somebody waits for one look at this machine's cards."""
    options = {word.partition("=")[0] for word in words[1:]}
    wanted = words[:1] == ["top"] and bool(options & _AT_ONCE) and not options & _OTHERWISE
    recorded = environ.get("OWNLAB_STREAM") or environ.get("OWNLAB_MACHINE")
    return wanted and not recorded and any(os.path.exists(path) for path in _DRIVER)
