"""The entry point, `launch.py data.pack REQUEST`: packs, and prints one event per line."""

import json
from typing import Any, Dict, Iterator, List

from ownlab_guest.data.event_stream import reported
from ownlab_guest.data.packing import Request, pack


def stream(arguments: List[str]) -> "Iterator[Dict[str, Any]]":
    """Yield progress and the result, or an error."""
    request = Request(**json.loads(arguments[0]))
    return reported(pack(request), folder=request.out)
