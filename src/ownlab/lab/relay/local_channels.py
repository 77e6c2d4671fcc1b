"""What clients here connect to: Jupyter's five channels and the journal line, as at a supervisor.

Messages to the kernel go to the node as they are; what comes back is a record of the mirror first. The server's pages follow the line;
other programs, such as VS Code, use the channels: replies find their way by the id of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import zmq

from ownlab.lab.journal.records import EVENT, Record, json_object
from ownlab.lab.relay.mirror import Mirror
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.supervisor.message_inspector import DELIMITER, MessageInspector
from ownlab.lab.supervisor.output_publisher import OutputPublisher
from ownlab.lab.transport.bindings import Bindings
from ownlab.lab.transport.client_channels import bind_channels, open_socket, receive_turn
from ownlab.lab.transport.endpoints import unix_endpoint
from ownlab.lab.transport.journal_server import ClientMessage, JournalServer, send_frames

__all__ = ["LocalChannels"]

_LINGER = 500  # milliseconds for the last messages to leave
_MOST_REQUESTS = 10_000  # whose senders are remembered


class LocalChannels:
    """Bound from the start, whether or not there is a node yet."""

    def __init__(self, plan: Plan, poller: zmq.Poller, mirror: Mirror, send: Callable[[ClientMessage], None]) -> None:
        """`send` forwards a message to the kernel, now or when there is one."""
        self.inspector = MessageInspector(plan.connection["key"])
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._poller, self._mirror, self._send = poller, mirror, send
        self._bindings = Bindings(self.context)
        # Message id -> the identities of its sender.
        self._senders: dict[str, list[bytes]] = {}
        backlog = plan.backlog_mb << 20
        self._outputs = OutputPublisher(open_socket(self.context, zmq.XPUB), backlog, plan.journal, self.inspector.sign)
        self.connection, self._sockets = bind_channels(
            self.context, self._bindings, plan.connection, plan.sockets, self._outputs.socket
        )
        self._names = {socket: channel for channel, socket in self._sockets.items() if channel != "iopub"}
        for socket in self._sockets.values():
            poller.register(socket, zmq.POLLIN)
        self._line = JournalServer(open_socket(self.context, zmq.ROUTER), backlog)
        self._bindings.bind(self._line.socket, plan.journal_endpoint, unix_endpoint(plan.sockets, "line").path)
        poller.register(self._line.socket, zmq.POLLIN)
        if self._bindings.authenticator:
            poller.register(self._bindings.authenticator, zmq.POLLIN)
        self._bindings.start()

    def serve(self, socket: object) -> bool:
        """Handle what is waiting at a socket that the poller returned. False if it is not one of ours."""
        if socket is self._line.socket:
            self._serve_line()
        elif socket is not None and socket is self._bindings.authenticator:
            self._bindings.authenticate()
        elif socket is self._outputs.socket:
            self._outputs.accept()
        elif isinstance(socket, zmq.Socket) and socket in self._names:
            self._serve_channel(socket, self._names[socket])
        else:
            return False
        return True

    def deliver(self, record: Record) -> None:
        """Pass a record of the mirror on to clients of Jupyter's channels."""
        self.note(record)
        parts = list(record.parts)
        if record.to_kernel or record.channel == EVENT or len(parts) < 4:
            return
        frames = [DELIMITER, self.inspector.sign(parts), *parts]
        if record.channel == "iopub":
            self._outputs.send([b"", *frames], record.number)
            return
        sender = self._senders.get(str(json_object(parts[1]).get("msg_id", "")))
        if sender is not None:
            send_frames(self._sockets[record.channel], [*sender, *frames])

    def note(self, record: Record) -> None:
        """Note what a record says of the kernel."""
        if record.channel != EVENT:
            direction = "to_kernel" if record.to_kernel else "to_clients"
            self.inspector.inspect(record.channel, direction, [DELIMITER, b"", *record.parts])
        elif json_object(record.parts[0]).get("event") == "kernel":
            self.inspector.reset()

    def publish(self, records: Iterable[Record]) -> None:
        """Send records, which are on disk, to those that follow the line."""
        self._line.publish(records)

    def reject(self, message: ClientMessage) -> None:
        """Tell a page that its message is not forwarded (again)."""
        if message.identity:
            self._line.reject(message)

    def has_pages(self) -> bool:
        """Whether a page shows this runtime's notebook."""
        return self._line.has_pages()

    def due(self) -> float | None:
        """When `check` must be called; None if no client waits for messages that it has missed."""
        return self._outputs.due()

    def check(self, now: float) -> None:
        """Do what is due."""
        self._outputs.catch_up(now)

    def close(self) -> None:
        """Let the last messages leave, and close all sockets."""
        self._line.end(self._mirror.position)
        for socket in (*self._sockets.values(), self._line.socket):
            self._poller.unregister(socket)
            socket.close(linger=_LINGER)
        if self._bindings.authenticator:
            self._poller.unregister(self._bindings.authenticator)
        self._bindings.close()
        self.context.term()
        self._bindings.drain()

    def _serve_line(self) -> None:
        for frames in receive_turn(self._line.socket):
            message = self._line.receive(frames, self._hello)
            if message is not None:
                self._send(message)

    def _serve_channel(self, socket: zmq.Socket[bytes], channel: str) -> None:
        for frames in receive_turn(socket):
            if channel == "hb":
                send_frames(socket, frames)
            elif DELIMITER in frames:
                self._forward(channel, frames)

    def _forward(self, channel: str, frames: list[bytes]) -> None:
        """Forward a message of a Jupyter client. It must be signed: on the line to the node it is our word."""
        at = frames.index(DELIMITER)
        parts = frames[at + 2 :]
        if len(parts) < 4 or frames[at + 1] != self.inspector.sign(parts):
            return
        name = str(json_object(parts[0]).get("msg_id", ""))
        if not name:
            return
        self._senders[name] = frames[:at]
        if len(self._senders) > _MOST_REQUESTS:
            del self._senders[next(iter(self._senders))]
        self._send(ClientMessage(b"", name, channel, parts))

    def _hello(self) -> dict[str, Any]:
        inspector, mirror = self.inspector, self._mirror
        gone = mirror.kernel_ended and mirror.launch > 0
        return {
            "position": mirror.position,
            "busy": inspector.busy and not gone,
            "execution_state": "dead" if gone else inspector.execution_state,
            "kernel_info": inspector.kernel_info,
            "launch": mirror.launch,
            "kernel_session": inspector.kernel_session,
        }
