"""The control socket of a runtime: one JSON line in, one JSON line out, for the runtime's owner and root."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from ownlab.errors import LabError
from ownlab.lab.transport.endpoints import Endpoint
from ownlab.text import pack_texts, text, unpack_texts

__all__ = ["ControlServer", "NotAnswering", "send_command"]


class NotAnswering(LabError):
    """The supervisor cannot be reached: the runtime has ended, is ending, or is just starting."""


def send_command(endpoint: Endpoint, do: str, *, timeout: float = 10.0, **values: Any) -> dict[str, Any]:
    """Send {"do": do, …} and return the answer. LabError if there is none in `timeout` seconds, or if it is an error."""
    request = json.dumps(pack_texts({"do": do, **values})).encode() + b"\n"
    reply = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(endpoint.path)
            connection.sendall(request)
            while chunk := connection.recv(65536):
                reply += chunk
    except TimeoutError as exc:
        raise LabError(text("The runtime did not answer within {seconds:g} s.", seconds=timeout)) from exc
    except OSError as exc:
        raise NotAnswering(
            text("The runtime does not answer: {reason}.", reason=exc.strerror or exc),
            hint=text("It has ended, or is just starting."),
        ) from exc
    try:
        answer = unpack_texts(json.loads(reply))
    except ValueError as exc:
        raise NotAnswering(text("The runtime ended before it answered.")) from exc
    if not answer.get("ok"):
        reason = answer.get("error", text("it gave no reason"))
        raise LabError(text("The runtime refused: {reason}.", reason=reason))
    return {key: value for key, value in answer.items() if key != "ok"}


_MAX_REQUEST = 1 << 20  # bytes
_TIMEOUT = 5.0  # seconds in which a request must arrive


class ControlServer:
    """Serves requests without ever blocking."""

    def __init__(
        self, path: str, answer: Callable[[dict[str, Any]], dict[str, Any]], timeout: float = _TIMEOUT
    ) -> None:
        self._answer, self._timeout = answer, timeout
        self._connections: dict[int, tuple[socket.socket, bytearray, float]] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if os.path.exists(path):
            os.unlink(path)
        self._socket.bind(path)
        self._socket.listen(16)

    def descriptors(self) -> list[int]:
        """The descriptors to poll for reading."""
        return [self._socket.fileno(), *self._connections]

    def due(self) -> float | None:
        """When the first silent connection times out."""
        return min((until for _, _, until in self._connections.values()), default=None)

    def serve(self, descriptor: int) -> None:
        """Handle a readable descriptor."""
        if descriptor == self._socket.fileno():
            self._accept()
        elif descriptor in self._connections:
            connection, request, _ = self._connections[descriptor]
            try:
                chunk = connection.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            request += chunk
            if b"\n" in chunk or not chunk or len(request) > _MAX_REQUEST:
                self._close(descriptor, self._reply(bytes(request)) if request else None)

    def expire(self, now: float) -> None:
        for descriptor in [number for number, (_, _, until) in self._connections.items() if until <= now]:
            self._close(descriptor, {"ok": False, "error": text("no request arrived")})

    def close(self) -> None:
        for descriptor in list(self._connections):
            self._close(descriptor, {"ok": False, "error": text("the runtime has ended")})
        self._socket.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return  # the client is gone again
        connection.setblocking(False)
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self._connections[connection.fileno()] = connection, bytearray(), time.monotonic() + self._timeout
        if uid not in (0, os.getuid()):
            self._close(connection.fileno(), {"ok": False, "error": text("this runtime belongs to another user")})

    def _reply(self, line: bytes) -> dict[str, Any]:
        if len(line) > _MAX_REQUEST:
            return {"ok": False, "error": text("a request may have {count} bytes at most", count=_MAX_REQUEST)}
        try:
            request = json.loads(line)
            if isinstance(request, dict):
                return self._answer(unpack_texts(request))
        except (ValueError, RecursionError):  # not JSON, or nested too deeply to be parsed or shown
            pass
        return {"ok": False, "error": text("a request must be one line with a JSON object")}

    def _close(self, descriptor: int, reply: dict[str, Any] | None) -> None:
        connection, _, _ = self._connections.pop(descriptor)
        with connection:
            if reply is not None:
                connection.settimeout(1.0)
                try:
                    connection.sendall(json.dumps(pack_texts(reply)).encode() + b"\n")
                except OSError:
                    return  # the client did not wait
