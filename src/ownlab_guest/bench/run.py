"""The entry point, `launch.py bench.run REQUEST.json`: runs the tests and prints one event per line."""

import gc
import signal
import time
import warnings
from typing import Any, Dict, Iterator, List

from ownlab_guest.bench.device import Device, find_device
from ownlab_guest.bench.plan import Test, missing_groups, plan_tests
from ownlab_guest.bench.request import read
from ownlab_guest.bench.timing import Outcome, Skipped
from ownlab_guest.text import text

Event = Dict[str, Any]
# A test with less time left than this is skipped.
LEAST_SECONDS = 0.1


def stream(arguments: List[str]) -> Iterator[Event]:
    """Yield the plan, then for each test its start and its result or why it was skipped, and "done" at the end."""
    # The host keeps all events. There is nothing to clean up, and Python cannot interrupt a running product.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    request = read(arguments[0])
    device = find_device(request)
    deadline = time.monotonic() + request.budget_seconds  # a slow import of torch does not count
    tests, missing = plan_tests(device), missing_groups(device)
    yield {"event": "plan", "tests": [{"name": test.name, "group": test.group} for test in tests], **device.facts()}
    for group in missing:
        yield {
            "event": "skipped",
            "name": group.group,
            "group": group.group,
            "reason": group.reason,
            "message": group.message,
        }
    planned = {test.name for test in tests}
    for test in tests:
        yield from run_test(device, test, deadline, planned)
    yield {"event": "done"}


def run_test(device: Device, test: Test, deadline: float, planned: "set[str]") -> Iterator[Event]:
    """Run one test; without enough memory, also the next smaller one, unless it is planned anyway."""
    yield {"event": "begin", "name": test.name}
    target = device if device.on_card and test.device == device.name else device.host()
    try:
        outcome = _measure(target, test, deadline)
    except Skipped as exc:
        # Do not keep the exception: its traceback holds tensors.
        reason, message = exc.reason, str(exc)
    else:
        yield {"event": "result", **_result(target, test, outcome)}
        return
    yield {"event": "skipped", "name": test.name, "group": test.group, "reason": reason, "message": message}
    smaller = test.smaller[0]._replace(seconds=test.seconds) if test.smaller else None
    if reason == "out-of-memory" and smaller is not None and smaller.name not in planned:
        planned.add(smaller.name)
        yield from run_test(device, smaller, deadline, planned)


def _measure(device: Device, test: Test, deadline: float) -> Outcome:
    remaining = deadline - time.monotonic()
    if remaining < LEAST_SECONDS:
        raise Skipped("budget", text("the time was up before this test"))
    if device.lost:
        raise Skipped("card-lost", device.lost)
    try:
        return test.run(device, min(test.seconds, remaining))
    except Exception as exc:
        failure = device.explain_failure(exc)
    finally:
        gc.collect()
        device.free_memory()
    raise failure


def _result(device: Device, test: Test, outcome: Outcome) -> Event:
    by_host = device.host_notes if test.group in ("launch", "copies") else ()
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
        "notes": [*outcome.notes, *device.notes, *by_host],
    }
