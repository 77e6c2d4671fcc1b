"""The entry point. For one look by `ownlab top`, NVML is queried first, since it takes longest; the rest loads meanwhile.

The language is chosen before anything is imported that makes a Text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from ownlab.languages import command_language, translations
from ownlab.text import use_translations

__all__ = ["main"]

# One of these exists where NVIDIA's driver is loaded.
_DRIVER_PATHS = ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg")
# Options of `ownlab top` that print one sample, and those that query no driver.
_ONE_SAMPLE = {"--once", "--json", "--query", "--query-gpu"}
_NO_DRIVER = {"--help", "-h", "--replay", "report"}


def main() -> NoReturn:
    """`ownlab`."""
    if _wants_one_sample(sys.argv[1:], os.environ):
        from ownlab.instruments.top.nvml_child import prestart

        prestart()
    use_translations(translations(command_language(sys.argv[1:], os.environ)))
    from ownlab.cli.main import main as run

    run()


def _wants_one_sample(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the command prints one sample of this machine's cards."""
    options = {word.partition("=")[0] for word in arguments[1:]}
    wanted = arguments[:1] == ["top"] and bool(options & _ONE_SAMPLE) and not options & _NO_DRIVER
    recorded = environ.get("OWNLAB_STREAM") or environ.get("OWNLAB_MACHINE")
    return wanted and not recorded and any(os.path.exists(path) for path in _DRIVER_PATHS)
