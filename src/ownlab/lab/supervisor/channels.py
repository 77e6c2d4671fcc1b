"""Stands between a kernel and its clients on all channels, and passes everything on as it is.

Clients are those of Jupyter's own protocol, at five sockets, and followers of the line. In a lab everything is written
to the journal before it is passed on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal

import zmq

from ownlab.lab.supervisor.journal_recorder import Recording
from ownlab.lab.supervisor.message_inspector import DELIMITER, Overheard, Questions
from ownlab.lab.transport.journal_protocol import line_address
from ownlab.lab.transport.journal_server import IDENTITY, Line, send_frames

__all__ = ["CHANNELS", "Channels", "Direction"]

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")

Direction = Literal["to_kernel", "to_clients"]

# Towards clients as a kernel is; towards the kernel as a client is.
_FRONT = {"shell": zmq.ROUTER, "iopub": zmq.XPUB, "stdin": zmq.ROUTER, "control": zmq.ROUTER, "hb": zmq.ROUTER}
_BACK = {"shell": zmq.DEALER, "iopub": zmq.SUB, "stdin": zmq.DEALER, "control": zmq.DEALER, "hb": zmq.DEALER}

# So many messages, or bytes, of one socket are passed on before the others have their turn.
_TURN = 256
_TURN_BYTES = 4 << 20
# Milliseconds that the last messages have to leave, when everything ends.
_LINGER = 500
# Milliseconds between attempts to reach a kernel that has not opened its sockets yet.
_RETRY = 5
# Milliseconds without a word after which a kernel that is dead has said all: its words may still be on their way.
_SILENCE = 20
# Seconds that a question of the kernel waits for outputs which were said before it.
_OUTPUTS_FIRST = 1.0


class Channels:
    """Bound towards the clients from the beginning; connected to a kernel as long as there is one."""

    def __init__(
        self, connection: dict[str, Any], poller: zmq.Poller, recording: Recording | None = None, sockets: str = ""
    ) -> None:
        """With a recording there is a line, in the folder `sockets`."""
        self.overheard = Overheard(connection["key"])
        self._poller = poller
        self._context = zmq.Context()
        self._front: dict[str, zmq.Socket[bytes]] = {}
        self._back: dict[str, zmq.Socket[bytes]] = {}
        self._ways: dict[zmq.Socket[bytes], tuple[str, Direction]] = {}
        self._held: list[tuple[str, list[bytes]]] = []
        self._subscribed: set[bytes] = set()
        self._recording, self._questions = recording, Questions()
        self.connection = self._bind(connection)
        self._line: Line | None = None
        if recording:
            self._line = Line(self._socket(zmq.ROUTER), line_address(sockets))
            poller.register(self._line.socket, zmq.POLLIN)

    def connect(self, address: str) -> None:
        """Reach the kernel whose sockets are `address`-1 to `address`-5, in the order of CHANNELS; it may come later."""
        self.overheard.forget()
        if self._recording:
            self._recording.add_launch()
            self._publish()
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
            send_frames(self._back[channel], frames)

    def disconnect(self, why: str) -> None:
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
        if self._back and self._recording:
            self._recording.add_event("kernel-ended", why=why)
            self._publish()
        self._back = {}
        self._questions.forget()

    def serve(self, socket: object) -> bool:
        """Pass on what waits at a socket that the poller named; False where it is none of ours."""
        if self._line and socket is self._line.socket:
            self._serve_line(self._line)
            return True
        if not isinstance(socket, zmq.Socket) or socket not in self._ways:
            return False
        if socket is self._back.get("stdin"):
            self._serve_outputs()
        self._turn(socket)
        return True

    def _turn(self, socket: zmq.Socket[bytes]) -> bool:
        """All that waits, or as much as may be passed on at once: written first. Whether there was anything."""
        channel, direction = self._ways[socket]
        waiting = [frames for frames in _receive(socket) if self._admit(channel, direction, frames)]
        self._publish()
        for frames in waiting:
            self.pump(channel, direction, frames)
        return bool(waiting)

    def _serve_outputs(self) -> None:
        """What a kernel printed before it asks is on another socket: it must not come after the question."""
        end = time.monotonic() + _OUTPUTS_FIRST
        while self._turn(self._back["iopub"]) and time.monotonic() < end:
            pass

    def _serve_line(self, line: Line) -> None:
        admitted = []
        for frames in _receive(line.socket):
            sent = line.hear(frames, self._hello)
            if sent:
                signed = [IDENTITY, DELIMITER, self.overheard.sign(sent.parts), *sent.parts]
                if self._admit(sent.channel, "to_kernel", signed):
                    admitted.append((sent.channel, signed))
                else:
                    line.refuse(sent)
        self._publish()
        for channel, signed in admitted:
            self.pump(channel, "to_kernel", signed)

    def _hello(self) -> dict[str, Any]:
        recording, overheard = self._recording, self.overheard
        assert recording is not None
        self._publish()  # what came in the same turn has its number already
        gone = not self._back and recording.launch > 0
        return {
            "position": recording.position,
            "busy": overheard.busy and not gone,
            "execution_state": "dead" if gone else overheard.execution_state,
            "kernel_info": overheard.kernel_info,
            "launch": recording.launch,
            "kernel_session": overheard.kernel_session,
        }

    def _admit(self, channel: str, direction: Direction, frames: list[bytes]) -> bool:
        """Give a message its number, if it is one; False where it is not to be passed on."""
        if channel == "iopub" and direction == "to_kernel":  # XPUB has noted it; the kernel is asked for all anyway
            (self._subscribed.add if frames[0][:1] == b"\1" else self._subscribed.discard)(frames[0][1:])
            return False
        if self._recording is None or channel == "hb":
            return True
        try:
            parts = tuple(frames[frames.index(DELIMITER) + 2 :])
        except ValueError:
            return True  # no message of Jupyter's: the kernel may make of it what it likes
        if len(parts) < 4:
            return True
        if channel == "stdin" and direction == "to_kernel" and b'"input_reply"' in parts[0]:
            kept = self._questions.answer(parts)
            if kept is None:
                return False
            parts = kept
        elif channel == "stdin" and b'"input_request"' in parts[0]:
            self._questions.ask(parts)
        elif channel == "iopub" and b'"colab_request"' in parts[0]:
            self._questions.ask_page(parts)
        elif self._questions and channel == "iopub" and b'"status"' in parts[0]:
            self._questions.end(parts)
        self._recording.add(channel, direction == "to_kernel", parts)
        return True

    def _publish(self) -> None:
        """Write what was admitted; then the line hears of it."""
        if self._recording and self._line:
            self._line.tell(self._recording.write())

    def pump(self, channel: str, direction: Direction, frames: list[bytes]) -> None:
        """The one place through which each message passes, in the order in which it was said."""
        self.overheard.listen(channel, direction, frames)
        if direction == "to_clients":
            if self._subscribed if channel == "iopub" else frames[0] != IDENTITY:
                send_frames(self._front[channel], frames)
        elif self._back:
            send_frames(self._back[channel], frames)
        elif channel in ("shell", "stdin", "control") and not self.overheard.is_shutdown(frames):
            self._held.append((channel, frames))

    def close(self, why: str) -> None:
        """Let the last messages leave, and end."""
        self.disconnect(why)
        sockets = list(self._front.values())
        if self._recording and self._line:
            self._recording.add_event("ended", why=why)
            self._publish()
            self._recording.close()
            sockets.append(self._line.socket)
        for socket in sockets:
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


def _receive(socket: zmq.Socket[bytes]) -> Iterator[list[bytes]]:
    size = 0
    for _ in range(_TURN):
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        yield frames
        size += sum(map(len, frames))
        if size > _TURN_BYTES:
            return
