"""The entry point, `launch.py data.inspect_data REQUEST`: looks at all files, and prints one event per line."""

import json
from typing import Any, Dict, Iterator, List

from ownlab_guest.data.event_stream import reported
from ownlab_guest.data.inspection import inspect_data
from ownlab_guest.data.sources.source import Options, archive_of


def stream(arguments: List[str]) -> "Iterator[Dict[str, Any]]":
    """Yield progress and the result, or an error."""
    request = json.loads(arguments[0])
    options = Options(only=request.get("only"), archive=archive_of(request))
    path, thumbnails = request["path"], request.get("thumbnails", False)
    events = inspect_data(path, sheet=request.get("sheet"), thumbnails=thumbnails, options=options)
    return reported(events, path=path)
