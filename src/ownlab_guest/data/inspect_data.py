"""The entry point, `launch.py data.inspect_data REQUEST`: looks at all files, and prints one event per line."""

import json
from typing import Any, Dict, Iterator, List

from ownlab_guest.data.event_stream import reported
from ownlab_guest.data.inspection import inspect_data


def stream(arguments: List[str]) -> "Iterator[Dict[str, Any]]":
    """Yield progress and the result, or an error."""
    request = json.loads(arguments[0])
    return reported(inspect_data(request["path"], sheet=request.get("sheet")), path=request["path"])
