"""Requests to a lab's server, with its token: whether it answers, and the update of a notebook that it may have open."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ownlab.errors import DeadlineError, LabError
from ownlab.lab.service.labs import Lab, is_up, labs
from ownlab.text import text

if TYPE_CHECKING:
    import ssl

__all__ = ["READY_SECONDS", "call", "is_answering", "request", "update_through_lab", "wait_for_lab"]

# From start to first answer: usually two seconds; twenty with a cold network disk.
READY_SECONDS = 60.0
# Writing a large notebook takes a while.
_UPDATE_SECONDS = 60.0


def call(lab: Lab, method: str, path: str, body: str | None = None, *, timeout: float = 5.0) -> int | None:
    """Send a request and return the HTTP status; None if nothing answers."""
    answer = request(lab, method, path, body, timeout=timeout)
    return None if answer is None else answer[0]


def request(
    lab: Lab, method: str, path: str, body: str | None = None, *, timeout: float = 5.0
) -> tuple[int, bytes] | None:
    """Send a request and return the HTTP status and the body of the answer; None if nothing answers."""
    import http.client  # a third of what `ownlab up` imports: not before the server has been started

    where = urlsplit(lab.url)
    address = (lab.listens_on or where.hostname or "127.0.0.1", lab.port)
    if where.scheme == "https":
        context = _own_context(lab.certificate) if lab.certificate else _unverified_context()
        if context is None:
            return None
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(*address, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        # The server answers under its name only, and the connection is to its address.
        headers = {"Authorization": f"token {lab.token}", "Host": where.netloc}
        connection.request(method, where.path + path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return None  # nothing listens, or it is busy
    finally:
        connection.close()


def _unverified_context() -> ssl.SSLContext:
    """Return a context without verification, for a certificate from the user's own Jupyter configuration.

    The connection is local, and the certificate names another host.
    """
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _own_context(certificate: str) -> ssl.SSLContext | None:
    """Return a context that accepts this certificate only, self-signed or not; None if the file is gone."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=certificate)
    except (OSError, ssl.SSLError):
        return None
    context.check_hostname = False  # we connect to the address
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # its issuer need not be known here
    return context


def is_answering(lab: Lab, *, timeout: float = 5.0) -> bool:
    """Whether the lab's server answers and accepts the lab's token."""
    status = call(lab, "GET", "api/status", timeout=timeout)
    if status in (401, 403):
        raise LabError(
            text("The server on port {port} is not this lab: it refused the lab's token.", port=lab.port),
            hint=text("Choose another port with --port."),
        )
    return status == 200


def wait_for_lab(
    find: Callable[[], Lab | None], alive: Callable[[], bool], *, seconds: float = READY_SECONDS
) -> Lab | None:
    """Wait until a lab's record exists and its server answers; None if the process that starts it has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        lab = find()
        if lab is not None and is_answering(lab):
            return lab
        if not alive():
            return None
        time.sleep(0.03)
    raise DeadlineError(text("The lab's server did not answer within {seconds:.0f} s.", seconds=seconds))


def update_through_lab(notebook: str) -> bool:
    """Ask the labs that serve a notebook to update its file, so that open pages see no conflict; False if none did."""
    path, updated = os.path.realpath(notebook), False
    for lab in labs():
        if path.startswith(os.path.join(os.path.realpath(lab.folder), "")) and is_up(lab):
            body = json.dumps({"notebook": path})
            status = call(lab, "POST", "ownlab/api/notebooks/catch-up", body, timeout=_UPDATE_SECONDS)
            updated = status == 200 or updated
    return updated
