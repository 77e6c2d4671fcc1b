"""Binds a supervisor's sockets to endpoints: Unix sockets directly, TCP through the gate, with encryption and known keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from ownlab.lab.transport.endpoints import Endpoint

if TYPE_CHECKING:
    from ownlab.lab.transport.tcp_gate import TcpGate

__all__ = ["Bindings"]

# Milliseconds for a client to finish its handshake on TCP.
_HANDSHAKE = 5_000
# Bytes of one frame that a client may send on TCP: files that people upload with a widget are one frame.
_MAX_FRAME = 1 << 30
_MAX_HEARTBEAT = 1 << 10

_AUTHENTICATOR = "inproc://zeromq.zap.01"  # rfc.zeromq.org/spec/27
_ANY_KEY = b"any"  # the domain of sockets that admit every key


class Bindings:
    """The endpoints of one context, until `close`."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._context = context
        self._gate: TcpGate | None = None
        self._public_keys: set[bytes] = set()
        self.authenticator: zmq.Socket[bytes] | None = (
            None  # to be polled, if not None: ZeroMQ asks there for each client
        )

    def bind(self, socket: zmq.Socket[bytes], endpoint: Endpoint, path: str, *, heartbeat: bool = False) -> Endpoint:
        """Bind a socket to an endpoint; to the Unix socket `path` behind the gate if that is TCP. Return what was bound.

        Jupyter's clients create a new pair of keys for the heartbeat, which only echoes: it admits every key.
        """
        if endpoint.is_unix:
            socket.bind(endpoint.url)
            return endpoint
        host, port = endpoint.address
        socket.handshake_ivl = _HANDSHAKE
        socket.maxmsgsize = _MAX_HEARTBEAT if heartbeat else _MAX_FRAME
        if endpoint.public_key:
            self._require_key(socket, endpoint, any_key=heartbeat)
        socket.bind(f"ipc://{path}")
        if self._gate is None:
            from ownlab.lab.transport.tcp_gate import TcpGate  # few runtimes need it

            self._gate = TcpGate()
        port = self._gate.listen((host, port), path, encrypted=bool(endpoint.public_key))
        return endpoint._replace(url=f"{endpoint.url.rpartition(':')[0]}:{port}")

    def start(self) -> None:
        """Accept connections, after all calls of `bind`."""
        if self._gate:
            self._gate.start()

    def _require_key(self, socket: zmq.Socket[bytes], endpoint: Endpoint, *, any_key: bool) -> None:
        from zmq.utils import z85  # few runtimes need it

        if self.authenticator is None:
            self.authenticator = self._context.socket(zmq.REP)
            self.authenticator.bind(_AUTHENTICATOR)
        self._public_keys.add(z85.decode(endpoint.public_key))
        socket.curve_publickey, socket.curve_secretkey = endpoint.public_key.encode(), endpoint.secret_key.encode()
        socket.curve_server = True
        socket.zap_domain = _ANY_KEY if any_key else b"known"
        socket.zap_enforce_domain = True  # by default, a client is admitted if nobody answers for its key

    def authenticate(self) -> None:
        """Answer ZeroMQ's question whether a client's key is known."""
        assert self.authenticator is not None
        version, request, domain, _address, _identity, mechanism, *credentials = self.authenticator.recv_multipart()
        known = mechanism == b"CURVE" and (domain == _ANY_KEY or credentials[0] in self._public_keys)
        status, reason = (b"200", b"OK") if known else (b"400", b"unknown key")
        self.authenticator.send_multipart([version, request, status, reason, b"", b""])

    def close(self) -> None:
        """Call before the context is terminated, after all other sockets were closed."""
        if self.authenticator is not None:
            self.authenticator.close(linger=0)

    def drain(self) -> None:
        """Call after the context was terminated: the last messages leave."""
        if self._gate:
            self._gate.close()
