"""Forwards all messages between a kernel and its clients, unchanged.

Clients speak Jupyter's own protocol on five sockets, or follow the journal socket. In a lab every message is written to
the journal before it is forwarded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import zmq

from ownlab.lab.journal.death import Death
from ownlab.lab.journal.records import json_object
from ownlab.lab.supervisor.connection_monitor import ConnectionMonitor
from ownlab.lab.supervisor.journal_recorder import JournalRecorder
from ownlab.lab.supervisor.message_inspector import DELIMITER, MessageInspector, PendingInputs
from ownlab.lab.supervisor.output_publisher import OutputPublisher
from ownlab.lab.transport.bindings import Bindings
from ownlab.lab.transport.client_channels import bind_channels, open_socket, receive_turn
from ownlab.lab.transport.endpoints import JUPYTER_CHANNELS, Endpoint, unix_endpoint
from ownlab.lab.transport.journal_server import IDENTITY, JournalServer, send_frames

__all__ = ["Channels", "Direction"]

Direction = Literal["to_kernel", "to_clients"]

# A client's socket types towards the kernel.
_KERNEL_SIDE = {"shell": zmq.DEALER, "iopub": zmq.SUB, "stdin": zmq.DEALER, "control": zmq.DEALER, "hb": zmq.DEALER}

# Milliseconds for the last messages to leave when everything ends.
_LINGER = 500
# Milliseconds between attempts to reach a kernel that has not opened its sockets yet.
_RETRY = 5
# Milliseconds between looks whether the connections of a dead kernel are closed: then it has no more messages in flight.
_SILENCE = 20
# Seconds after which they count as closed: a process that the kernel has forked may hold them, and cannot be killed.
_CLOSED = 2.0
# The channels on which a kernel says what its cells do.
_OF_CELLS = ("shell", "iopub")
# Seconds that an input_request waits for outputs that the kernel sent before it.
_OUTPUTS_FIRST = 1.0


class Channels:
    """Bound towards clients from the start; connected to a kernel while there is one."""

    def __init__(
        self,
        connection: dict[str, Any],
        poller: zmq.Poller,
        recorder: JournalRecorder | None,
        sockets: str,
        journal: Endpoint,
        backlog: int,
        answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """Unix sockets are bound in the folder `sockets`. With a recorder, the journal is served at its endpoint.

        At most `backlog` bytes wait in memory for a client that does not read. On TCP, where clients are on other machines,
        `answer` serves commands.
        """
        self.inspector = MessageInspector(connection["key"])
        self._poller = poller
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._bindings = Bindings(self._context)
        self._kernel_sockets: dict[str, zmq.Socket[bytes]] = {}
        self._kernel_connections = ConnectionMonitor()
        self._routes: dict[zmq.Socket[bytes], tuple[str, Direction]] = {}
        self._held_messages: list[tuple[str, list[bytes]]] = []
        self._recorder, self._pending_inputs = recorder, PendingInputs()
        self._outputs = OutputPublisher(
            open_socket(self._context, zmq.XPUB), backlog, recorder.folder if recorder else "", self.inspector.sign
        )
        self.connection, self._client_sockets = bind_channels(
            self._context, self._bindings, connection, sockets, self._outputs.socket
        )
        for channel, socket in self._client_sockets.items():
            if channel == "iopub":
                poller.register(socket, zmq.POLLIN)
            else:
                self._watch(socket, channel, "to_kernel")
        self._journal_server: JournalServer | None = None
        if recorder:
            folder, commands = ("", None) if journal.is_unix else (recorder.folder, answer)
            self._journal_server = JournalServer(
                open_socket(self._context, zmq.ROUTER), backlog, folder=folder, answer=commands
            )
            line = unix_endpoint(sockets, "line").path
            self.journal_endpoint = self._bindings.bind(self._journal_server.socket, journal, line)
            poller.register(self._journal_server.socket, zmq.POLLIN)
        if self._bindings.authenticator:
            poller.register(self._bindings.authenticator, zmq.POLLIN)
        self._bindings.start()

    def connect(self, address: str) -> None:
        """Connect to the kernel at `address`-1 to `address`-5, in the order of JUPYTER_CHANNELS. The kernel may bind later."""
        self.inspector.reset()
        if self._recorder:
            self._recorder.add_launch()
            self._publish()
        for number, channel in enumerate(JUPYTER_CHANNELS, start=1):
            socket = open_socket(self._context, _KERNEL_SIDE[channel])
            socket.reconnect_ivl = _RETRY
            if channel == "iopub":
                socket.subscribe(b"")
            else:
                # The same identity on all: a kernel sends input_request on stdin to the client that executed on shell.
                socket.routing_id = b"supervisor"
            if channel in _OF_CELLS:
                self._kernel_connections.add(socket)
            socket.connect(f"ipc://{address}-{number}")
            self._kernel_sockets[channel] = socket
            self._watch(socket, channel, "to_clients")
        held, self._held_messages = self._held_messages, []
        for channel, frames in held:
            send_frames(self._kernel_sockets[channel], frames)

    def drain(self, seconds: float = _CLOSED) -> None:
        """The kernel is gone: forward its last messages."""
        last = zmq.Poller()
        for socket in self._kernel_sockets.values():
            last.register(socket, zmq.POLLIN)
        deadline = time.monotonic() + seconds
        while True:
            # Before the poll: it finds everything that was received until they were closed. On a busy machine that takes a while.
            closed = self._kernel_connections.all_closed() or time.monotonic() > deadline
            ready = last.poll(_SILENCE)
            for socket, _ in ready:
                self.serve(socket)
            if closed and not ready:
                return

    def disconnect(self, why: str, death: Death | None = None) -> None:
        """Close the sockets of a kernel that is gone. Messages from clients are recorded for the next kernel."""
        self._kernel_connections.close()
        for socket in self._kernel_sockets.values():
            self._poller.unregister(socket)
            del self._routes[socket]
            socket.close(linger=0)
        if self._kernel_sockets and self._recorder:
            more = {"death": death.dump()} if death else {}
            self._recorder.add_event("kernel-ended", why=why, **more)
            self._publish()
        self._kernel_sockets = {}
        self._pending_inputs.clear()

    def serve(self, socket: object) -> bool:
        """Forward what is waiting at a socket that the poller returned. False if it is not one of ours."""
        if self._journal_server and socket is self._journal_server.socket:
            self._serve_journal(self._journal_server)
            return True
        if socket is not None and socket is self._bindings.authenticator:
            self._bindings.authenticate()
            return True
        if socket is self._outputs.socket:
            self._outputs.accept()
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
        waiting = [
            (frames, self._position) for frames in receive_turn(socket) if self._admit(channel, direction, frames)
        ]
        self._publish()
        if channel == "iopub":
            self._outputs.accept()  # a client that subscribed before it executed gets what it executes
        for frames, number in waiting:
            self.forward(channel, direction, frames, number)
        return bool(waiting)

    @property
    def _position(self) -> int:
        return self._recorder.position if self._recorder else 0

    def _serve_outputs(self) -> None:
        """Forward outputs first: the kernel message them before its input_request, but on another socket."""
        end = time.monotonic() + _OUTPUTS_FIRST
        while self._turn(self._kernel_sockets["iopub"]) and time.monotonic() < end:
            pass

    def _serve_journal(self, server: JournalServer) -> None:
        admitted = []
        for frames in receive_turn(server.socket):
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
        if recorder.notice_loss():
            recorder.add_event("cut-off")
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
        if channel == "shell" and direction == "to_kernel" and b'"execute_request"' in parts[0]:
            return not self._refuse(self._recorder, parts)
        return True

    @staticmethod
    def _refuse(recorder: JournalRecorder, parts: tuple[bytes, ...]) -> bool:
        """Return whether the kernel that a cell was meant for has died. Its cell then says so."""
        refused = recorder.came_too_late(parts)
        if refused:
            recorder.add_event("not-run", msg_id=json_object(parts[0]).get("msg_id"))
        return refused

    def _publish(self) -> None:
        """Write what was admitted to the journal, then send it to the journal's clients."""
        if self._recorder and self._journal_server:
            self._journal_server.publish(self._recorder.write())

    def forward(self, channel: str, direction: Direction, frames: list[bytes], number: int = 0) -> None:
        """Forward one message. Every message passes here, in order."""
        self.inspector.inspect(channel, direction, frames)
        if direction == "to_clients":
            if channel == "iopub":
                self._outputs.send(frames, number)
            elif frames[0] != IDENTITY:
                send_frames(self._client_sockets[channel], frames)
        elif self._kernel_sockets:
            send_frames(self._kernel_sockets[channel], frames)
        elif channel in ("shell", "stdin", "control") and not self.inspector.is_shutdown(frames):
            self._held_messages.append((channel, frames))

    def due(self) -> float | None:
        """When `check` must be called; None if no client waits for messages that it has missed."""
        return self._outputs.due()

    def check(self, now: float) -> None:
        """Do what is due."""
        self._outputs.catch_up(now)

    def has_pages(self) -> bool:
        """Return whether a page shows this runtime's notebook."""
        return self._journal_server is not None and self._journal_server.has_pages()

    def record_event(self, what: str, **more: object) -> None:
        """Write an event to the journal, if there is one."""
        if self._recorder:
            self._recorder.add_event(what, **more)
            self._publish()

    def close(self, why: str) -> None:
        """Let the last messages leave, and close all sockets."""
        self.drain()
        self.disconnect(why)
        sockets = list(self._client_sockets.values())
        if self._recorder and self._journal_server:
            self._recorder.add_event("ended", why=why)
            self._publish()
            self._journal_server.end(self._recorder.position)
            self._recorder.close()
            sockets.append(self._journal_server.socket)
        for socket in sockets:
            self._poller.unregister(socket)
            socket.close(linger=_LINGER)
        if self._bindings.authenticator:
            self._poller.unregister(self._bindings.authenticator)
        self._bindings.close()
        self._context.term()
        self._bindings.drain()

    def _watch(self, socket: zmq.Socket[bytes], channel: str, direction: Direction) -> None:
        self._routes[socket] = channel, direction
        self._poller.register(socket, zmq.POLLIN)
