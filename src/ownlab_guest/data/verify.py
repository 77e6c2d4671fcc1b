"""The entry point, `launch.py data.verify REQUEST`: checks a packed data set, and prints one event per line."""

import json
from typing import Any, Dict, Iterator, List

from ownlab_guest.data.event_stream import reported
from ownlab_guest.data.sources.source import archive_of
from ownlab_guest.data.verification import verify


def stream(arguments: List[str]) -> "Iterator[Dict[str, Any]]":
    """Yield progress and the result, or an error."""
    request = json.loads(arguments[0])
    folder = request["folder"]
    archive = archive_of(request)
    events = verify(folder, full=request["full"], repair_from=request["repair_from"], archive=archive)
    return reported(events, folder=folder)
