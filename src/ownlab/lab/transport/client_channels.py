"""What clients of Jupyter's own protocol connect to: five sockets, on which messages may wait for those that do not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import zmq

from ownlab.lab.transport.bindings import Bindings
from ownlab.lab.transport.endpoints import JUPYTER_CHANNELS, channel_endpoint, unix_endpoint, with_endpoint

__all__ = ["bind_channels", "open_socket", "receive_turn"]

Socket = zmq.Socket[bytes]

# At most this many messages, or bytes, of one socket are received before the others are served.
_TURN_MESSAGES = 256
_TURN_BYTES = 4 << 20
# Replies that may wait for a client of Jupyter's own protocol that does not read; further ones are dropped for it. It has
# requested each of them. A kernel itself drops them beyond 1,000.
_WAITING_MESSAGES = 100_000


def open_socket(context: zmq.Context[Socket], kind: int) -> Socket:
    """Return a socket that drops nothing."""
    socket = context.socket(kind)
    socket.sndhwm = socket.rcvhwm = 0  # the default drops messages beyond 1,000
    return socket


def bind_channels(
    context: zmq.Context[Socket], bindings: Bindings, connection: dict[str, Any], folder: str, outputs: Socket
) -> tuple[dict[str, Any], dict[str, Socket]]:
    """Bind the five channels, of which `outputs` is iopub. Return the connection with what was bound, and the sockets.

    Unix sockets are bound in `folder`.
    """
    bound = {**connection, "ip": connection.get("ip") or "127.0.0.1"}
    sockets = {}
    for number, channel in enumerate(JUPYTER_CHANNELS, start=1):
        socket = outputs
        if channel != "iopub":
            socket = open_socket(context, zmq.ROUTER)
            socket.sndhwm = _WAITING_MESSAGES
            # A client that reconnects with the same identity receives its messages again.
            socket.router_handover = True
        own = unix_endpoint(folder, f"c-{number}")
        wanted = own if bound.get("transport") == "ipc" else channel_endpoint(bound, channel)
        bound = with_endpoint(bound, channel, bindings.bind(socket, wanted, own.path, heartbeat=channel == "hb"))
        sockets[channel] = socket
    return bound, sockets


def receive_turn(socket: Socket) -> Iterator[list[bytes]]:
    """Yield the messages that are waiting at a socket, up to a limit."""
    size = 0
    for _ in range(_TURN_MESSAGES):
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        yield frames
        size += sum(map(len, frames))
        if size > _TURN_BYTES:
            return
