"""The weaker way, for models that cannot be followed without data: the step is really computed, on the processor.

Sizes are then those of this data, with weights as they are at the start. Attention and recurrent layers are the
processor's own: they take other memory than a card's.
"""

import sys
from typing import Any, Dict, Optional

from ownlab_guest.fit.errors import Refused
from ownlab_guest.fit.request import Request

KINDS = ("data-dependent-shape", "data-dependent-value", "cannot-be-traced")
SHARE = 0.7  # of the memory that is free: more is not taken from whoever else works here


def traced_instead(request: Request, why: Refused) -> Dict[str, Any]:
    """The trace of a computed step, which says so; `why` again, where that is no way out, or does not work either."""
    if why.kind not in KINDS or not _limited():
        raise why
    from ownlab_guest.fit import trace

    try:
        found = trace.traced(request, data=True)
    except Refused as exc:
        raise Refused(
            why.kind, f"{why}; computing it on the processor failed as well: {exc}", why.file, why.line
        ) from exc
    place = "" if why.line is None else f" (line {why.line})"
    said = f"computed with data, on the processor, and attention and recurrent layers as there: {why}{place}"
    return {**found, "guesses": [said, *found["guesses"]]}


def _limited() -> bool:
    """Whether this process can be kept from taking all of the computer's memory: then it is."""
    free = _free_bytes()
    if free is None or not sys.platform.startswith("linux"):
        return False
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (data + int(SHARE * free), resource.getrlimit(resource.RLIMIT_DATA)[1]))
    return True


def _free_bytes() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None  # not Linux
    return None
