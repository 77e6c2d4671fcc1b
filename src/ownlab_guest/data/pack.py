"""The entry point, `launch.py data.pack REQUEST`: packs, and prints one event per line."""

import json
from typing import Any, Dict, Iterator, List

from ownlab_guest.data.event_stream import reported
from ownlab_guest.data.packing import pack, request_of


def stream(arguments: List[str]) -> "Iterator[Dict[str, Any]]":
    """Yield progress and the result, or an error."""
    request = request_of(json.loads(arguments[0]))
    return reported(pack(request), folder=request.out)
