"""Whether a server answers: asked of its own status route, with its token."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ownlab.errors import DeadlineError, LabError
from ownlab.serving.labs import Lab

if TYPE_CHECKING:
    import ssl

__all__ = ["READY_SECONDS", "answers", "wait_until"]

# From start to first answer: two seconds are usual, a cold network disk may need twenty.
READY_SECONDS = 60.0


def answers(lab: Lab, *, timeout: float = 5.0) -> bool:
    """Whether the lab's server is there and knows its token."""
    import http.client  # a third of what `ownlab up` imports: not before the server has been started

    where = urlsplit(lab.url)
    address = (where.hostname or "127.0.0.1", lab.port)
    if where.scheme == "https":  # a certificate from the person's own Jupyter configuration
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            *address, timeout=timeout, context=_trusting()
        )
    else:
        connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.request("GET", f"{where.path}api/status", headers={"Authorization": f"token {lab.token}"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False  # not yet: nobody listens, or it is busy importing
    finally:
        connection.close()
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


def _trusting() -> ssl.SSLContext:
    """On the loopback, with a token of our own: whose certificate it is does not matter, and it names another host."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
