"""One request to a lab's server, with its token."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ownlab.lab.service.labs import Lab

if TYPE_CHECKING:
    import ssl

__all__ = ["call"]


def call(lab: Lab, method: str, path: str, body: str | None = None, *, timeout: float = 5.0) -> int | None:
    """The status that it answers with; None where nobody answers."""
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
        connection.request(method, where.path + path, body, {"Authorization": f"token {lab.token}"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None  # nobody listens, or it is busy
    finally:
        connection.close()


def _trusting() -> ssl.SSLContext:
    """On the loopback, with a token of our own: whose certificate it is does not matter, and it names another host."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
