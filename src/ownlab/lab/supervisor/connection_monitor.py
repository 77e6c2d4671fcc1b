"""Whether sockets are connected: of a process that has died, everything was received once its connections are closed."""

from __future__ import annotations

import struct

import zmq

__all__ = ["ConnectionMonitor"]

_EVENT = struct.Struct("=Hi")  # the first frame of a message: which event, and its value (zmq_socket_monitor(3))


class ConnectionMonitor:
    """Follows the connections of some sockets, each of which connects to one address."""

    def __init__(self) -> None:
        self._events: dict[zmq.Socket[bytes], zmq.Socket[bytes]] = {}
        self._connected: set[zmq.Socket[bytes]] = set()

    def add(self, socket: zmq.Socket[bytes]) -> None:
        """Follow a socket. Call it before the socket connects."""
        self._events[socket] = socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)

    def all_closed(self) -> bool:
        """Whether none is connected any more, so that what they have received can be read now."""
        for socket, events in self._events.items():
            while events.poll(0):
                event, _ = _EVENT.unpack(events.recv_multipart()[0])
                if event == zmq.EVENT_CONNECTED:
                    self._connected.add(socket)
                else:
                    self._connected.discard(socket)
        return not self._connected

    def close(self) -> None:
        """Stop following. Call it before the sockets are closed."""
        for socket, events in self._events.items():
            socket.disable_monitor()
            events.close(linger=0)
        self._events.clear()
        self._connected.clear()
