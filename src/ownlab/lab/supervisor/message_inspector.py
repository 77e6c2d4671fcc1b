"""What a supervisor understands of the messages that pass it: as little as it needs, at as little cost."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from ownlab.lab.journal.records import as_object

__all__ = ["DELIMITER", "Overheard", "Questions"]

DELIMITER = b"<IDS|MSG>"  # after it: signature, header, parent header, metadata, content, buffers


class Overheard:
    """Whether the kernel works, what it says of itself, and whether it was asked to shut down."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._working: set[str] = set()
        self.last_activity = time.time()
        self.shutdown: bool | None = None  # asked to shut down: False for good, True to be started again
        self.kernel_info: dict[str, Any] | None = None  # stays over a restart, until the new kernel has said its own
        self.forget()

    def forget(self) -> None:
        """Another kernel begins."""
        self._working.clear()
        self.execution_state = "starting"
        self._informed = False
        self._last_header = b"{}"
        self.heard = False
        self.idle_since = time.monotonic()

    @property
    def kernel_session(self) -> str:
        """The name that the newest message of the kernel was sent under; "" before it has spoken."""
        return str(as_object(self._last_header).get("session", ""))

    @property
    def busy(self) -> bool:
        return bool(self._working)

    def listen(self, channel: str, direction: str, frames: list[bytes]) -> None:
        """Called with each message. Headers are searched, not parsed: "status" stands in no header but a status'."""
        if channel == "hb" or DELIMITER not in frames:
            return
        message = frames[frames.index(DELIMITER) + 1 :]
        if len(message) < 5:
            return
        header = message[1]
        if direction == "to_kernel":
            if b'"shutdown_request"' in header and self._is_genuine(message):
                self.shutdown = bool(as_object(message[4]).get("restart"))
        elif channel == "iopub":
            self.heard = True
            self._last_header = header
            if b'"status"' in header:
                self._note_status(as_object(message[2]), as_object(message[4]))
        elif not self._informed and b'"kernel_info_reply"' in header:
            self.kernel_info = as_object(message[4]) or self.kernel_info
            self._informed = True

    @staticmethod
    def is_shutdown(frames: list[bytes]) -> bool:
        """Asked of a kernel that is not there: nothing that the next one should hear."""
        return any(b'"shutdown_request"' in frame for frame in frames[1:4])

    def _note_status(self, parent: dict[str, Any], content: dict[str, Any]) -> None:
        """Requests on control are answered while a cell runs, with a busy and an idle of their own: hence a set."""
        state = content.get("execution_state")
        request = parent.get("msg_id", "")
        if parent.get("msg_type") == "kernel_info_request":
            # A page came back, or asked whether the kernel is there: nobody works, and the idle time goes on.
            if state == "idle" and not self._working:
                self.execution_state = "idle"
            return
        if state == "busy":
            self._working.add(request)
        elif state == "idle":
            self._working.discard(request)
        elif state == "starting":
            self._working.clear()
        self.execution_state = "busy" if self._working else str(state)
        self.last_activity = time.time()
        if not self._working:
            self.idle_since = time.monotonic()

    def sign(self, parts: list[bytes]) -> bytes:
        """What makes a message the runtime's own: header, parent header, metadata and content under its key."""
        if not self._key:
            return b""
        import hmac

        return hmac.new(self._key, b"".join(parts[:4]), "sha256").hexdigest().encode()

    def _is_genuine(self, message: list[bytes]) -> bool:
        """Signed with the runtime's key: anyone on this machine can send to a loopback port."""
        if not self._key:
            return True
        import hmac

        return hmac.compare_digest(self.sign(message[1:5]), message[0])


_PASSWORD = b'{"value": null, "status": "ok"}'  # what a journal keeps of one


class Questions:
    """The open ones, by the message id of the input_request."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, bytes, bool]] = {}  # -> the cell's request, header, whether it is a password
        self._of_colab: dict[str, str] = {}  # colab_msg_id -> the cell's request

    def __bool__(self) -> bool:
        return bool(self._open or self._of_colab)

    def ask_page(self, parts: Sequence[bytes]) -> None:
        """A colab_request passes."""
        name = as_object(parts[2]).get("colab_msg_id")
        if name:
            self._of_colab[str(name)] = str(as_object(parts[1]).get("msg_id"))

    def ask(self, parts: Sequence[bytes]) -> None:
        """An input_request passes."""
        question, cell = as_object(parts[0]), as_object(parts[1])
        password = bool(as_object(parts[3]).get("password"))
        self._open[str(question.get("msg_id"))] = str(cell.get("msg_id")), parts[0], password

    def answer(self, parts: Sequence[bytes]) -> tuple[bytes, ...] | None:
        """An input_reply comes: it as it is written down, with the question as its parent; None: nobody asked.

        JupyterLab names the question as the parent, so that a late answer is known; other clients name nothing.
        """
        value = as_object(parts[3]).get("value")
        if isinstance(value, dict):
            return self._answer_colab(parts, value)
        parent = as_object(parts[1])
        name = str(parent.get("msg_id"))
        if name not in self._open:
            if not self._open or parent.get("msg_type") == "input_request":
                return None
            name = next(reversed(self._open))
        _, header, password = self._open.pop(name)
        return (parts[0], header, parts[2], _PASSWORD if password else parts[3])

    def _answer_colab(self, parts: Sequence[bytes], value: dict[str, Any]) -> tuple[bytes, ...] | None:
        """What it says may be a secret, or a file: a journal keeps that it was answered."""
        name = str(value.get("colab_msg_id"))
        if name not in self._of_colab:
            return None
        if not value.get("ack"):
            del self._of_colab[name]
        kept = {"value": {"type": "colab_reply", "colab_msg_id": name, "ack": bool(value.get("ack"))}, "status": "ok"}
        return (parts[0], parts[1], parts[2], json.dumps(kept).encode())

    def end(self, parts: Sequence[bytes]) -> None:
        """A status passes: where a cell has ended, by an interrupt, say, nobody waits for its answers any more."""
        if as_object(parts[3]).get("execution_state") == "idle":
            cell = str(as_object(parts[1]).get("msg_id"))
            self._open = {name: asked for name, asked in self._open.items() if asked[0] != cell}
            self._of_colab = {name: asked for name, asked in self._of_colab.items() if asked != cell}

    def forget(self) -> None:
        """The kernel is gone."""
        self._open.clear()
        self._of_colab.clear()
