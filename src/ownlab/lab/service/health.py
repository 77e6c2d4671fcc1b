"""Whether a server answers: asked of its own status route, with its token."""

from __future__ import annotations

import time
from collections.abc import Callable

from ownlab.errors import DeadlineError, LabError
from ownlab.lab.service.http_client import call
from ownlab.lab.service.labs import Lab

__all__ = ["READY_SECONDS", "answers", "wait_until"]

# From start to first answer: two seconds are usual, a cold network disk may need twenty.
READY_SECONDS = 60.0


def answers(lab: Lab, *, timeout: float = 5.0) -> bool:
    """Whether the lab's server is there and knows its token."""
    status = call(lab, "GET", "api/status", timeout=timeout)
    if status in (401, 403):
        raise LabError(
            f"what answers on port {lab.port} is not this lab: it refused the lab's token",
            hint="Give another port with --port.",
        )
    return status == 200


def wait_until(
    found: Callable[[], Lab | None], alive: Callable[[], bool], *, seconds: float = READY_SECONDS
) -> Lab | None:
    """The lab once its record is there and its server answers; None where what should start it is no longer alive."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        lab = found()
        if lab is not None and answers(lab):
            return lab
        if not alive():
            return None
        time.sleep(0.03)
    raise DeadlineError(f"the lab's server did not answer within {seconds:.0f} s")
