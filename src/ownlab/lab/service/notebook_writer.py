"""A notebook that a lab may have open is written by that lab: its pages are not asked what to do about a changed file."""

from __future__ import annotations

import json
import os

from ownlab.lab.service.http_client import call
from ownlab.lab.service.labs import is_up, labs

__all__ = ["written_by_lab"]

# A notebook with much in it takes a while to write.
_SECONDS = 60.0


def written_by_lab(notebook: str) -> bool:
    """Let the labs in whose folders a notebook lies bring its file up to date; False where none did."""
    real, done = os.path.realpath(notebook), False
    for lab in labs():
        if real.startswith(os.path.join(os.path.realpath(lab.folder), "")) and is_up(lab):
            body = json.dumps({"notebook": real})
            done = call(lab, "POST", "ownlab/api/notebooks/catch-up", body, timeout=_SECONDS) == 200 or done
    return done
