"""Stands between a kernel and its clients on all channels, and passes everything on as it is."""

from __future__ import annotations

from typing import Any, Literal

import zmq

from ownlab.lab.runtimes.supervisor.overheard import Overheard

__all__ = ["CHANNELS", "Channels", "Direction"]

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")

Direction = Literal["to_kernel", "to_clients"]

# Towards clients as a kernel is; towards the kernel as a client is.
_FRONT = {"shell": zmq.ROUTER, "iopub": zmq.XPUB, "stdin": zmq.ROUTER, "control": zmq.ROUTER, "hb": zmq.ROUTER}
_BACK = {"shell": zmq.DEALER, "iopub": zmq.SUB, "stdin": zmq.DEALER, "control": zmq.DEALER, "hb": zmq.DEALER}

# So many messages of one socket are passed on before the others have their turn.
_TURN = 256
# Milliseconds that the last messages have to leave, when everything ends.
_LINGER = 500
# Milliseconds between attempts to reach a kernel that has not opened its sockets yet.
_RETRY = 5
# Milliseconds without a word after which a kernel that is dead has said all: its words may still be on their way.
_SILENCE = 20


class Channels:
    """Bound towards the clients from the beginning; connected to a kernel as long as there is one."""

    def __init__(self, connection: dict[str, Any], poller: zmq.Poller) -> None:
        self.overheard = Overheard(connection["key"])
        self._poller = poller
        self._context = zmq.Context()
        self._front: dict[str, zmq.Socket[bytes]] = {}
        self._back: dict[str, zmq.Socket[bytes]] = {}
        self._ways: dict[zmq.Socket[bytes], tuple[str, Direction]] = {}
        self._held: list[tuple[str, list[bytes]]] = []
        self.connection = self._bind(connection)

    def connect(self, address: str) -> None:
        """Reach the kernel whose sockets are `address`-1 to `address`-5, in the order of CHANNELS; it may come later."""
        self.overheard.forget()
        for number, channel in enumerate(CHANNELS, start=1):
            socket = self._socket(_BACK[channel])
            socket.reconnect_ivl = _RETRY
            if channel == "iopub":
                socket.subscribe(b"")
            else:
                # One identity for all: a kernel sends input_request on stdin to whoever asked on shell.
                socket.routing_id = b"supervisor"
            socket.connect(f"ipc://{address}-{number}")
            self._back[channel] = socket
            self._watch(socket, channel, "to_clients")
        held, self._held = self._held, []
        for channel, frames in held:
            self._back[channel].send_multipart(frames, zmq.NOBLOCK)

    def disconnect(self) -> None:
        """The kernel is gone. What it said last is passed on; what clients say from now on waits for the next one."""
        last = zmq.Poller()
        for socket in self._back.values():
            last.register(socket, zmq.POLLIN)
        while ready := last.poll(_SILENCE):
            for socket, _ in ready:
                self.serve(socket)
        for socket in self._back.values():
            self._poller.unregister(socket)
            del self._ways[socket]
            socket.close(linger=0)
        self._back = {}

    def serve(self, socket: object) -> bool:
        """Pass on what waits at a socket that the poller named; False where it is none of ours."""
        if not isinstance(socket, zmq.Socket) or socket not in self._ways:
            return False
        channel, direction = self._ways[socket]
        for _ in range(_TURN):
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if channel == "iopub" and direction == "to_kernel":
                continue  # a client subscribes: XPUB has noted it, and the kernel is asked for everything anyway
            self.pump(channel, direction, frames)
        return True

    def pump(self, channel: str, direction: Direction, frames: list[bytes]) -> None:
        """The one place through which each message passes, in the order in which it was said."""
        self.overheard.listen(channel, direction, frames)
        if direction == "to_clients":
            self._front[channel].send_multipart(frames, zmq.NOBLOCK)
        elif self._back:
            self._back[channel].send_multipart(frames, zmq.NOBLOCK)
        elif channel in ("shell", "stdin", "control") and not self.overheard.is_shutdown(frames):
            self._held.append((channel, frames))

    def close(self) -> None:
        """Let the last messages leave, and end."""
        self.disconnect()
        for socket in self._front.values():
            self._poller.unregister(socket)
            socket.close(linger=_LINGER)
        self._context.term()

    def _bind(self, connection: dict[str, Any]) -> dict[str, Any]:
        bound = {**connection, "transport": "tcp", "ip": connection.get("ip") or "127.0.0.1"}
        for channel in CHANNELS:
            socket = self._socket(_FRONT[channel])
            if connection.get("curve_secretkey"):
                socket.curve_secretkey = connection["curve_secretkey"].encode()
                socket.curve_publickey = connection["curve_publickey"].encode()
                socket.curve_server = True
            if _FRONT[channel] == zmq.ROUTER:
                socket.router_handover = True  # a client that comes back under its name gets its messages again
            socket.bind(f"tcp://{bound['ip']}:{connection.get(f'{channel}_port') or '*'}")
            bound[f"{channel}_port"] = int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
            self._front[channel] = socket
            self._watch(socket, channel, "to_kernel")
        return bound

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.sndhwm = socket.rcvhwm = 0  # by default more than 1,000 waiting messages are thrown away
        return socket

    def _watch(self, socket: zmq.Socket[bytes], channel: str, direction: Direction) -> None:
        self._ways[socket] = channel, direction
        self._poller.register(socket, zmq.POLLIN)
