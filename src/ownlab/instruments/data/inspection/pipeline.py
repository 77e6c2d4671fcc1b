"""`ownlab data inspect`: request -> guest -> record. For the command line and `ownlab.data`."""

from __future__ import annotations

import os
from collections.abc import Callable

from ownlab.instruments.data.archives.member_stream import stream_request
from ownlab.instruments.data.guest_events import Progress, run_guest
from ownlab.instruments.data.inspection.records import Inspection

__all__ = ["inspect_data"]


def inspect_data(
    path: str, sheet: str | None, only: str | None, python: str, on_progress: Callable[[Progress], None]
) -> Inspection:
    """Look at everything behind a path. Raises DataUnusable and other OwnlabErrors."""
    absolute = os.path.abspath(path)
    fields = {
        "path": absolute,
        "sheet": None if sheet is None else os.path.abspath(sheet),
        "only": only,
        "archive": stream_request(absolute),
    }
    return run_guest(python, "data.inspect_data", fields, Inspection, on_progress)
