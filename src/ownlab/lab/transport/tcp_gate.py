"""The gate before a supervisor's sockets: it accepts TCP connections and passes their bytes to Unix sockets.

ZeroMQ itself must not listen on TCP. It allocates what the first frame of a connection announces, before the other end has
proved anything: one half-finished handshake took more than a gigabyte. The gate

- refuses connections of other users of this machine before it reads a byte;
- passes on no more than a handshake needs until ZeroMQ has accepted the key of the other end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from typing import NamedTuple

from ownlab.processes.tcp_owners import peer_uid

__all__ = ["TcpGate"]

_CHUNK = 1 << 18  # bytes
# What a client sends in a CurveZMQ handshake: a greeting of 64 bytes, HELLO of 202, INITIATE of about 300 to 600.
_HANDSHAKE_BYTES = 4096
# What the server sends first: a greeting of 64 bytes and WELCOME of 170. READY follows, or ERROR (rfc.zeromq.org/spec/26).
_READY_AT, _READY = 64 + 170 + 2, b"\x05READY"
# Connections in the middle of their handshake. Beyond that, the oldest is closed.
_MAX_HANDSHAKES = 32
_BACKLOG = 64
# Seconds for the last bytes to leave when everything ends.
_LAST_SECONDS = 0.5


class _Door(NamedTuple):
    """A port, and the Unix socket behind it."""

    listener: socket.socket
    path: str
    encrypted: bool


class _Connection:
    """Two sockets; what is read from one is written to the other."""

    def __init__(self, client: socket.socket, server: socket.socket, proved: bool) -> None:
        self.client, self.server = client, server
        self.unsent: dict[socket.socket, memoryview] = {}
        self.proved = proved  # the client may send as much as it likes
        self._from_client = 0
        self._from_server = b""

    def other(self, end: socket.socket) -> socket.socket:
        return self.server if end is self.client else self.client

    def allows(self, end: socket.socket, data: bytes) -> bool:
        """Whether this data may be passed on; what the server sends tells when the handshake is over."""
        if self.proved:
            return True
        if end is self.client:
            self._from_client += len(data)
            return self._from_client <= _HANDSHAKE_BYTES
        self._from_server = (self._from_server + data)[: _READY_AT + len(_READY)]
        self.proved = self._from_server[_READY_AT:] == _READY  # else it is ERROR: the key is unknown
        return True


class TcpGate:
    """Listens from `listen` until `close`, in a thread of its own."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._doors: list[_Door] = []
        self._connections: set[_Connection] = set()
        self._handshakes: dict[_Connection, None] = {}  # in the order of their begin
        self._woken, self._waker = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="tcp-gate", daemon=True)

    def listen(self, address: tuple[str, int], path: str, *, encrypted: bool) -> int:
        """Pass connections to a Unix socket, which expects CurveZMQ if `encrypted`. Return the port."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
        listener.setblocking(False)
        door = _Door(listener, path, encrypted)
        self._doors.append(door)
        self._selector.register(listener, selectors.EVENT_READ, door)
        return int(listener.getsockname()[1])

    def start(self) -> None:
        """Accept connections, after all calls of `listen`."""
        self._thread.start()

    def close(self) -> None:
        """Pass on what is on its way, after the Unix sockets were closed, and close all connections."""
        if self._thread.is_alive():
            self._waker.send(b"x")
            self._thread.join()
        for connection in list(self._connections):
            self._close(connection)
        for end in (*(door.listener for door in self._doors), self._woken, self._waker):
            end.close()
        self._selector.close()

    def _run(self) -> None:
        until: float | None = None
        while until is None or (self._connections and time.monotonic() < until):
            for key, events in self._selector.select(None if until is None else _LAST_SECONDS):
                if key.data is None:
                    until = time.monotonic() + _LAST_SECONDS
                    self._selector.unregister(self._woken)
                elif isinstance(key.data, _Door):
                    self._accept(key.data)
                elif key.data in self._connections and isinstance(key.fileobj, socket.socket):
                    self._serve(key.data, key.fileobj, events)

    def _accept(self, door: _Door) -> None:
        try:
            client, _ = door.listener.accept()
        except OSError:  # it is gone again, or there are no more descriptors
            return
        if not _may_enter(client, encrypted=door.encrypted):
            client.close()
            return
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setblocking(False)
            server.setblocking(False)
            server.connect(door.path)
        except OSError:  # too many at once, or the runtime is ending: clients try again
            client.close()
            server.close()
            return
        connection = _Connection(client, server, proved=not door.encrypted)
        self._connections.add(connection)
        for end in (client, server):
            self._watch(connection, end)
        if not connection.proved:
            self._handshakes[connection] = None
            if len(self._handshakes) > _MAX_HANDSHAKES:
                self._close(next(iter(self._handshakes)))

    def _serve(self, connection: _Connection, end: socket.socket, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(connection, end, connection.unsent.pop(end))
            if events & selectors.EVENT_READ and connection.other(end) not in connection.unsent:
                data = end.recv(_CHUNK)
                if not data or not connection.allows(end, data):
                    self._close(connection)
                    return
                if connection.proved:
                    self._handshakes.pop(connection, None)
                self._send(connection, connection.other(end), memoryview(data))
        except BlockingIOError:
            return
        except OSError:  # one end is gone
            self._close(connection)

    def _send(self, connection: _Connection, end: socket.socket, data: memoryview) -> None:
        """Send what can be sent. While the rest waits, nothing is read at the other end."""
        with contextlib.suppress(BlockingIOError):
            data = data[end.send(data) :]
        if data:
            connection.unsent[end] = data
        for each in (end, connection.other(end)):
            self._watch(connection, each)

    def _watch(self, connection: _Connection, end: socket.socket) -> None:
        writes = selectors.EVENT_WRITE if end in connection.unsent else 0
        reads = selectors.EVENT_READ if connection.other(end) not in connection.unsent else 0
        key = self._selector.get_map().get(end)
        if key is None and reads | writes:
            self._selector.register(end, reads | writes, connection)
        elif key is not None and not reads | writes:
            self._selector.unregister(end)
        elif key is not None and key.events != reads | writes:
            self._selector.modify(end, reads | writes, connection)

    def _close(self, connection: _Connection) -> None:
        self._handshakes.pop(connection, None)
        self._connections.discard(connection)
        for end in (connection.client, connection.server):
            with contextlib.suppress(KeyError):
                self._selector.unregister(end)
            end.close()


def _may_enter(client: socket.socket, *, encrypted: bool) -> bool:
    """Whether it is a process of this user or of root, or one of another machine that must prove itself.

    Without encryption another machine is admitted only where the starter chose an address that other machines can reach.
    """
    uid = peer_uid(client)
    if uid is not None:
        return uid in (0, os.geteuid())
    try:
        is_loopback = client.getpeername()[0].startswith(("127.", "::1", "::ffff:127."))
    except OSError:
        return False
    return encrypted or not is_loopback
