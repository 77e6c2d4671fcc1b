"""The entry point, `launch.py data.bench REQUEST`: measures reading and decoding, and prints one event per line."""

import json
from typing import Any, Dict, Iterator, List

from ownlab_guest.data.event_stream import reported
from ownlab_guest.data.rates import measure


def stream(arguments: List[str]) -> "Iterator[Dict[str, Any]]":
    """Yield progress and the result, or an error."""
    request = json.loads(arguments[0])
    return reported(measure(request["path"], request.get("scratch")), path=request["path"])
