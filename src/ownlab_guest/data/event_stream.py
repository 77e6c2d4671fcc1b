"""What all commands on data do with their events: errors become an event, and the result says where and how long."""

import time
from typing import Any, Dict, Iterable, Iterator

from ownlab_guest.data.errors import DataError
from ownlab_guest.text import text

Event = Dict[str, Any]


def reported(events: Iterable[Event], **more: Any) -> Iterator[Event]:
    """Yield the events; the result with `more` and its seconds. What a person can act on becomes an error event."""
    begun = time.monotonic()
    try:
        for event in events:
            if event["event"] == "result":
                yield {**event, **more, "seconds": round(time.monotonic() - begun, 3)}
            else:
                yield event
    except DataError as exc:
        yield {"event": "error", "message": exc.message, "hint": exc.hint}
    except OSError as exc:
        yield {"event": "error", "message": text("{reason}.", reason=exc)}
