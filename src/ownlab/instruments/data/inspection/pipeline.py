"""`ownlab data inspect`: request -> guest -> record, and the contact sheet. For the command line and `ownlab.data`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from ownlab.atomic_files import replace_file
from ownlab.errors import InputError
from ownlab.instruments.data.archives.member_stream import stream_request
from ownlab.instruments.data.guest_events import Progress, run_guest
from ownlab.instruments.data.inspection.html_page import inspection_page
from ownlab.instruments.data.inspection.records import Illustrated
from ownlab.text import text

__all__ = ["InspectRequest", "inspect_data"]

_PAGES = (".html", ".htm")


class InspectRequest(NamedTuple):
    """What to look at."""

    path: str
    sheet: str | None = None  # where small pictures are saved: an image, or an HTML page with the report
    only: str | None = None  # a folder in it
    thumbnails: bool = False  # in the result


def inspect_data(request: InspectRequest, python: str, on_progress: Callable[[Progress], None]) -> Illustrated:
    """Look at everything behind a path. Raises DataUnusable and other OwnlabErrors."""
    absolute = os.path.abspath(request.path)
    sheet = None if request.sheet is None else os.path.abspath(request.sheet)
    is_page = sheet is not None and sheet.lower().endswith(_PAGES)
    fields = {
        "path": absolute,
        "sheet": None if is_page else sheet,
        "thumbnails": is_page or request.thumbnails,
        "only": request.only,
        "archive": stream_request(absolute),
    }
    inspection = run_guest(python, "data.inspect_data", fields, Illustrated, on_progress)
    if is_page and sheet is not None:
        try:
            replace_file(sheet, inspection_page(inspection).encode(), mode=0o644)
        except OSError as exc:
            raise InputError(text("Cannot write {path}: {reason}.", path=sheet, reason=exc.strerror)) from exc
    return inspection
