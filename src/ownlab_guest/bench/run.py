"""Measures one thing after another: `launch.py bench.run REQUEST.json`; one event a line, as soon as it is known."""

import gc
import signal
import time
import warnings
from typing import Any, Dict, Iterator, List

from ownlab_guest.bench import device as places
from ownlab_guest.bench.plan import Test, missing_of, tests_of
from ownlab_guest.bench.request import read
from ownlab_guest.bench.timing import Outcome, Skipped

Event = Dict[str, Any]
# A test that would have less than this is not begun.
LEAST_SECONDS = 0.1


def stream(arguments: List[str]) -> Iterator[Event]:
    """The plan, then for each test that it begins and its result, or why there is none; "done" at the end."""
    # The host keeps what was said. There is nothing to clean up here, and a product cannot be interrupted in Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    request = read(arguments[0])
    place = places.find(request)
    deadline = time.monotonic() + request.seconds  # a slow import of torch takes no test away
    tests, missing = tests_of(place), missing_of(place)
    yield {"event": "plan", "tests": [{"name": one.name, "group": one.group} for one in tests], **place.facts()}
    for gone in missing:
        yield {
            "event": "skipped",
            "name": gone.group,
            "group": gone.group,
            "reason": gone.reason,
            "message": gone.message,
        }
    planned = {test.name for test in tests}
    for test in tests:
        yield from performed(place, test, deadline, planned)
    yield {"event": "done"}


def performed(place: places.Place, test: Test, deadline: float, planned: "set[str]") -> Iterator[Event]:
    """One test; where memory does not suffice, the next smaller one that is not planned anyway."""
    yield {"event": "begin", "name": test.name}
    here = place if place.on_card and test.device == place.device else place.host()
    try:
        outcome = _measured(here, test, deadline)
    except Skipped as exc:
        # Of the exception nothing is kept: its traceback holds the tensors.
        reason, message = exc.reason, str(exc)
    else:
        yield {"event": "result", **_told(here, test, outcome)}
        return
    yield {"event": "skipped", "name": test.name, "group": test.group, "reason": reason, "message": message}
    smaller = test.smaller[0]._replace(seconds=test.seconds) if test.smaller else None
    if reason == "out-of-memory" and smaller is not None and smaller.name not in planned:
        planned.add(smaller.name)
        yield from performed(place, smaller, deadline, planned)


def _measured(place: places.Place, test: Test, deadline: float) -> Outcome:
    left = deadline - time.monotonic()
    if left < LEAST_SECONDS:
        raise Skipped("budget", "the time that was given was up before its turn came")
    if place.lost:
        raise Skipped("card-lost", place.lost)
    try:
        return test.run(place, min(test.seconds, left))
    except Exception as exc:
        failure = place.failure(exc)
    finally:
        gc.collect()
        place.tidy()
    raise failure


def _told(place: places.Place, test: Test, outcome: Outcome) -> Event:
    by_host = place.host_note if test.group in ("launch", "copies") else ""
    notes = [note for note in (outcome.note, place.note, by_host) if note]
    return {
        "name": test.name,
        "group": test.group,
        "device": test.device,
        "dtype": test.dtype,
        "shape": outcome.shape or test.shape or {},
        "unit": test.unit,
        "work": outcome.work,
        "seconds": outcome.seconds,
        "percentiles": outcome.percentiles or {},
        "flops": outcome.flops,
        "before": outcome.before,
        "after": outcome.after,
        "note": "; ".join(notes),
    }
