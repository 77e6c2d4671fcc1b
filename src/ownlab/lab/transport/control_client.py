"""Asks a runtime's supervisor over its control socket."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from ownlab.errors import LabError

__all__ = ["NotAnswering", "ask"]


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
