"""Forwards all messages between a kernel and its clients, unchanged.

Clients speak Jupyter's own protocol on five sockets, or follow the journal socket. In a lab every message is written to
the journal before it is forwarded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal

import zmq

from ownlab.lab.supervisor.journal_recorder import JournalRecorder
from ownlab.lab.supervisor.message_inspector import DELIMITER, MessageInspector, PendingInputs
from ownlab.lab.transport.journal_protocol import journal_address
from ownlab.lab.transport.journal_server import IDENTITY, JournalServer, send_frames

__all__ = ["CHANNELS", "Channels", "Direction"]

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")

Direction = Literal["to_kernel", "to_clients"]

# A kernel's socket types towards clients; a client's towards the kernel.
_CLIENT_SIDE = {"shell": zmq.ROUTER, "iopub": zmq.XPUB, "stdin": zmq.ROUTER, "control": zmq.ROUTER, "hb": zmq.ROUTER}
_KERNEL_SIDE = {"shell": zmq.DEALER, "iopub": zmq.SUB, "stdin": zmq.DEALER, "control": zmq.DEALER, "hb": zmq.DEALER}

# Forward at most this many messages, or bytes, of one socket before serving the others.
_TURN_MESSAGES = 256
_TURN_BYTES = 4 << 20
# Milliseconds for the last messages to leave when everything ends.
_LINGER = 500
# Milliseconds between attempts to reach a kernel that has not opened its sockets yet.
_RETRY = 5
# Milliseconds of silence after which a dead kernel has no more messages in flight.
_SILENCE = 20
# Seconds that an input_request waits for outputs that the kernel sent before it.
_OUTPUTS_FIRST = 1.0


class Channels:
    """Bound towards clients from the start; connected to a kernel while there is one."""

    def __init__(
        self,
        connection: dict[str, Any],
        poller: zmq.Poller,
        recorder: JournalRecorder | None = None,
        sockets: str = "",
    ) -> None:
        """With a recorder, the journal socket is opened in the folder `sockets`."""
        self.inspector = MessageInspector(connection["key"])
        self._poller = poller
        self._context = zmq.Context()
        self._client_sockets: dict[str, zmq.Socket[bytes]] = {}
        self._kernel_sockets: dict[str, zmq.Socket[bytes]] = {}
        self._routes: dict[zmq.Socket[bytes], tuple[str, Direction]] = {}
        self._held_messages: list[tuple[str, list[bytes]]] = []
        self._subscribed: set[bytes] = set()
        self._recorder, self._pending_inputs = recorder, PendingInputs()
        self.connection = self._bind(connection)
        self._journal_server: JournalServer | None = None
        if recorder:
            self._journal_server = JournalServer(self._socket(zmq.ROUTER), journal_address(sockets))
            poller.register(self._journal_server.socket, zmq.POLLIN)

    def connect(self, address: str) -> None:
        """Connect to the kernel at `address`-1 to `address`-5, in the order of CHANNELS. The kernel may bind later."""
        self.inspector.reset()
        if self._recorder:
            self._recorder.add_launch()
            self._publish()
        for number, channel in enumerate(CHANNELS, start=1):
            socket = self._socket(_KERNEL_SIDE[channel])
            socket.reconnect_ivl = _RETRY
            if channel == "iopub":
                socket.subscribe(b"")
            else:
                # The same identity on all: a kernel sends input_request on stdin to the client that executed on shell.
                socket.routing_id = b"supervisor"
            socket.connect(f"ipc://{address}-{number}")
            self._kernel_sockets[channel] = socket
            self._watch(socket, channel, "to_clients")
        held, self._held_messages = self._held_messages, []
        for channel, frames in held:
            send_frames(self._kernel_sockets[channel], frames)

    def disconnect(self, why: str) -> None:
        """The kernel is gone: forward its last messages. Messages from clients are recorded for the next kernel."""
        last = zmq.Poller()
        for socket in self._kernel_sockets.values():
            last.register(socket, zmq.POLLIN)
        while ready := last.poll(_SILENCE):
            for socket, _ in ready:
                self.serve(socket)
        for socket in self._kernel_sockets.values():
            self._poller.unregister(socket)
            del self._routes[socket]
            socket.close(linger=0)
        if self._kernel_sockets and self._recorder:
            self._recorder.add_event("kernel-ended", why=why)
            self._publish()
        self._kernel_sockets = {}
        self._pending_inputs.clear()

    def serve(self, socket: object) -> bool:
        """Forward what is waiting at a socket that the poller returned. False if it is not one of ours."""
        if self._journal_server and socket is self._journal_server.socket:
            self._serve_journal(self._journal_server)
            return True
        if not isinstance(socket, zmq.Socket) or socket not in self._routes:
            return False
        if socket is self._kernel_sockets.get("stdin"):
            self._serve_outputs()
        self._turn(socket)
        return True

    def _turn(self, socket: zmq.Socket[bytes]) -> bool:
        """Forward what is waiting, up to the limits, after writing it to the journal. Return whether there was anything."""
        channel, direction = self._routes[socket]
        waiting = [frames for frames in _receive(socket) if self._admit(channel, direction, frames)]
        self._publish()
        for frames in waiting:
            self.forward(channel, direction, frames)
        return bool(waiting)

    def _serve_outputs(self) -> None:
        """Forward outputs first: the kernel message them before its input_request, but on another socket."""
        end = time.monotonic() + _OUTPUTS_FIRST
        while self._turn(self._kernel_sockets["iopub"]) and time.monotonic() < end:
            pass

    def _serve_journal(self, server: JournalServer) -> None:
        admitted = []
        for frames in _receive(server.socket):
            message = server.receive(frames, self._hello)
            if message:
                signed = [IDENTITY, DELIMITER, self.inspector.sign(message.parts), *message.parts]
                if self._admit(message.channel, "to_kernel", signed):
                    admitted.append((message.channel, signed))
                else:
                    server.reject(message)
        self._publish()
        for channel, signed in admitted:
            self.forward(channel, "to_kernel", signed)

    def _hello(self) -> dict[str, Any]:
        recorder, inspector = self._recorder, self.inspector
        assert recorder is not None
        self._publish()  # messages of this turn are numbered already
        kernel_gone = not self._kernel_sockets and recorder.launch > 0
        return {
            "position": recorder.position,
            "busy": inspector.busy and not kernel_gone,
            "execution_state": "dead" if kernel_gone else inspector.execution_state,
            "kernel_info": inspector.kernel_info,
            "launch": recorder.launch,
            "kernel_session": inspector.kernel_session,
        }

    def _admit(self, channel: str, direction: Direction, frames: list[bytes]) -> bool:
        """Number and record a message. Return False if it must not be forwarded."""
        if channel == "iopub" and direction == "to_kernel":  # a subscription: the kernel's SUB takes everything anyway
            (self._subscribed.add if frames[0][:1] == b"\1" else self._subscribed.discard)(frames[0][1:])
            return False
        if self._recorder is None or channel == "hb":
            return True
        try:
            parts = tuple(frames[frames.index(DELIMITER) + 2 :])
        except ValueError:
            return True  # not a Jupyter message: the kernel decides what to do with it
        if len(parts) < 4:
            return True
        if channel == "stdin" and direction == "to_kernel" and b'"input_reply"' in parts[0]:
            recorded = self._pending_inputs.resolve(parts)
            if recorded is None:
                return False
            parts = recorded
        elif channel == "stdin" and b'"input_request"' in parts[0]:
            self._pending_inputs.add(parts)
        elif channel == "iopub" and b'"colab_request"' in parts[0]:
            self._pending_inputs.add_colab_request(parts)
        elif self._pending_inputs and channel == "iopub" and b'"status"' in parts[0]:
            self._pending_inputs.drop_finished(parts)
        self._recorder.add(channel, direction == "to_kernel", parts)
        return True

    def _publish(self) -> None:
        """Write what was admitted to the journal, then send it to the journal's clients."""
        if self._recorder and self._journal_server:
            self._journal_server.publish(self._recorder.write())

    def forward(self, channel: str, direction: Direction, frames: list[bytes]) -> None:
        """Forward one message. Every message passes here, in order."""
        self.inspector.inspect(channel, direction, frames)
        if direction == "to_clients":
            if self._subscribed if channel == "iopub" else frames[0] != IDENTITY:
                send_frames(self._client_sockets[channel], frames)
        elif self._kernel_sockets:
            send_frames(self._kernel_sockets[channel], frames)
        elif channel in ("shell", "stdin", "control") and not self.inspector.is_shutdown(frames):
            self._held_messages.append((channel, frames))

    def close(self, why: str) -> None:
        """Let the last messages leave, and close all sockets."""
        self.disconnect(why)
        sockets = list(self._client_sockets.values())
        if self._recorder and self._journal_server:
            self._recorder.add_event("ended", why=why)
            self._publish()
            self._recorder.close()
            sockets.append(self._journal_server.socket)
        for socket in sockets:
            self._poller.unregister(socket)
            socket.close(linger=_LINGER)
        self._context.term()

    def _bind(self, connection: dict[str, Any]) -> dict[str, Any]:
        bound = {**connection, "transport": "tcp", "ip": connection.get("ip") or "127.0.0.1"}
        for channel in CHANNELS:
            socket = self._socket(_CLIENT_SIDE[channel])
            if connection.get("curve_secretkey"):
                socket.curve_secretkey = connection["curve_secretkey"].encode()
                socket.curve_publickey = connection["curve_publickey"].encode()
                socket.curve_server = True
            if _CLIENT_SIDE[channel] == zmq.ROUTER:
                socket.router_handover = (
                    True  # a client that reconnects with the same identity receives its messages again
                )
            socket.bind(f"tcp://{bound['ip']}:{connection.get(f'{channel}_port') or '*'}")
            bound[f"{channel}_port"] = int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
            self._client_sockets[channel] = socket
            self._watch(socket, channel, "to_kernel")
        return bound

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.sndhwm = socket.rcvhwm = 0  # the default drops messages beyond 1,000
        return socket

    def _watch(self, socket: zmq.Socket[bytes], channel: str, direction: Direction) -> None:
        self._routes[socket] = channel, direction
        self._poller.register(socket, zmq.POLLIN)


def _receive(socket: zmq.Socket[bytes]) -> Iterator[list[bytes]]:
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
