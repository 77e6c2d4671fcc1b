"""Asks a runtime's supervisor over its control socket."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from ownlab.errors import LabError

__all__ = ["Listener", "NotAnswering", "ask"]


class NotAnswering(LabError):
    """Nobody is there: the runtime has ended, is ending, or is just starting."""


def ask(sockets: str, do: str, *, timeout: float = 10.0, **values: Any) -> dict[str, Any]:
    """The answer to {"do": do, …}. LabError where nobody answers in `timeout` seconds, or the answer is a refusal."""
    request = json.dumps({"do": do, **values}).encode() + b"\n"
    path = os.path.join(sockets, "control")
    reply = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(path)
            connection.sendall(request)
            while chunk := connection.recv(65536):
                reply += chunk
    except TimeoutError as exc:
        raise LabError(f"The runtime did not answer within {timeout:g} s.") from exc
    except OSError as exc:
        raise NotAnswering(
            f"The runtime does not answer: {exc.strerror or exc}.", hint="It has ended, or is just starting."
        ) from exc
    try:
        answer = json.loads(reply)
    except ValueError as exc:
        raise NotAnswering("The runtime ended before it answered.") from exc
    if not answer.get("ok"):
        raise LabError(f"The runtime refused: {answer.get('error', 'it gave no reason')}.")
    return {key: value for key, value in answer.items() if key != "ok"}


_LONGEST = 1 << 20  # bytes of a request
_PATIENCE = 5.0  # seconds in which a request must be there


class Listener:
    """Takes requests without ever waiting for one."""

    def __init__(
        self, path: str, answer: Callable[[dict[str, Any]], dict[str, Any]], patience: float = _PATIENCE
    ) -> None:
        self._answer, self._patience = answer, patience
        self._open: dict[int, tuple[socket.socket, bytearray, float]] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if os.path.exists(path):
            os.unlink(path)
        self._socket.bind(path)
        self._socket.listen(16)

    def descriptors(self) -> list[int]:
        """What is to be polled for reading."""
        return [self._socket.fileno(), *self._open]

    def due(self) -> float | None:
        """When the first silent connection is closed."""
        return min((until for _, _, until in self._open.values()), default=None)

    def serve(self, descriptor: int) -> None:
        """Something happened at a descriptor."""
        if descriptor == self._socket.fileno():
            self._accept()
        elif descriptor in self._open:
            connection, request, _ = self._open[descriptor]
            try:
                chunk = connection.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            request += chunk
            if b"\n" in chunk or not chunk or len(request) > _LONGEST:
                self._close(descriptor, self._reply(bytes(request)) if request else None)

    def expire(self, now: float) -> None:
        for descriptor in [number for number, (_, _, until) in self._open.items() if until <= now]:
            self._close(descriptor, {"ok": False, "error": "no request came"})

    def close(self) -> None:
        for descriptor in list(self._open):
            self._close(descriptor, {"ok": False, "error": "the runtime has ended"})
        self._socket.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return  # it went away again
        connection.setblocking(False)
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self._open[connection.fileno()] = connection, bytearray(), time.monotonic() + self._patience
        if uid not in (0, os.getuid()):
            self._close(connection.fileno(), {"ok": False, "error": "this runtime belongs to someone else"})

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
        except ValueError:
            request = None
        if not isinstance(request, dict):
            return {"ok": False, "error": "a request is one line with a JSON object"}
        return self._answer(request)

    def _close(self, descriptor: int, reply: dict[str, Any] | None) -> None:
        connection, _, _ = self._open.pop(descriptor)
        with connection:
            if reply is not None:
                connection.settimeout(1.0)
                try:
                    connection.sendall(json.dumps(reply).encode() + b"\n")
                except OSError:
                    return  # whoever asked did not wait
