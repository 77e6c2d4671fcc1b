"""Whether something listens at an address: one attempt, with a deadline."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ownlab.text import text

__all__ = ["OPEN", "REFUSED", "SILENT", "connection_to", "connections_to", "describe_connection"]

# "silent": nothing answers, as behind a firewall that drops what it does not like, or a machine that is off.
OPEN, REFUSED, SILENT, _NO_ADDRESS = "open", "refused", "silent", "unknown address"
_WORDS = {
    OPEN: text("open"),
    REFUSED: text("refused"),
    SILENT: text("silent"),
    _NO_ADDRESS: text("unknown address"),
}
_DEADLINE = 3.0  # seconds
_AT_ONCE = 64


def connection_to(address: str, port: int | None) -> str:
    """Try to connect: OPEN, REFUSED, SILENT, or the error in the system's words."""
    if not address or not port:
        return _NO_ADDRESS
    try:
        with socket.create_connection((address, port), timeout=_DEADLINE):
            return OPEN
    except ConnectionRefusedError:
        return REFUSED
    except TimeoutError:
        return SILENT
    except OSError as exc:  # no such host, no route to it
        return exc.strerror or str(exc)


def describe_connection(connection: str) -> str:
    """Return what `connection_to` found as people read it."""
    return _WORDS.get(connection, connection)


def connections_to(places: Iterable[tuple[str, int | None]]) -> list[str]:
    """Try several at the same time."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="connection") as pool:
        return list(pool.map(lambda place: connection_to(*place), places))
