"""Inspection of the messages that a supervisor forwards: as little as it needs, as cheaply as possible.

`PendingInputs` holds what a kernel asks people (`input`, `getpass`) or their page (google.colab) until it is answered.
Each request is answered once, by the first client that replies. google.colab asks with a message `colab_request` on
iopub, and is answered on stdin as `input` is, with {"value": {"type": "colab_reply", "colab_msg_id": …}}; a first reply
with "ack" in it means that the request was seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from ownlab.lab.journal.records import json_object

__all__ = ["DELIMITER", "MessageInspector", "PendingInputs"]

# What pages ask by themselves: whether the kernel is alive, which widgets there are, whether it can be debugged. JupyterLab
# asks the last whenever a notebook comes to the front.
_ASKED_BY_PAGES = ("kernel_info_request", "comm_info_request", "debug_request")
DELIMITER = b"<IDS|MSG>"  # after it: signature, header, parent header, metadata, content, buffers


class MessageInspector:
    """Whether the kernel is busy, its kernel_info, and whether it was asked to shut down."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._working: set[str] = set()
        self.last_activity = time.time()
        self.requested_shutdown: bool | None = None  # a shutdown_request passed: False for good, True for a restart
        self.kernel_info: dict[str, Any] | None = None  # kept over a restart until the new kernel has sent its own
        self.reset()

    def reset(self) -> None:
        """Forget the previous kernel."""
        self._working.clear()
        self.execution_state = "starting"
        self._has_kernel_info = False
        self._last_header = b"{}"
        self.kernel_spoke = False
        self.idle_since = time.monotonic()

    @property
    def kernel_session(self) -> str:
        """The session id in the kernel's newest message; "" before it has sent any."""
        return str(json_object(self._last_header).get("session", ""))

    @property
    def busy(self) -> bool:
        return bool(self._working)

    def inspect(self, channel: str, direction: str, frames: list[bytes]) -> None:
        """Read one message. Headers are searched, not parsed: only a status message has "status" in its header."""
        if channel == "hb" or DELIMITER not in frames:
            return
        message = frames[frames.index(DELIMITER) + 1 :]
        if len(message) < 5:
            return
        header = message[1]
        if direction == "to_kernel":
            if b'"shutdown_request"' in header and self._is_genuine(message):
                self.requested_shutdown = bool(json_object(message[4]).get("restart"))
        elif channel == "iopub":
            self.kernel_spoke = True
            self._last_header = header
            if b'"status"' in header:
                self._note_status(json_object(message[2]), json_object(message[4]))
        elif not self._has_kernel_info and b'"kernel_info_reply"' in header:
            self.kernel_info = json_object(message[4]) or self.kernel_info
            self._has_kernel_info = True

    @staticmethod
    def is_shutdown(frames: list[bytes]) -> bool:
        """Whether a message asks for a shutdown: it must not be kept for the next kernel."""
        return any(b'"shutdown_request"' in frame for frame in frames[1:4])

    def _note_status(self, parent: dict[str, Any], content: dict[str, Any]) -> None:
        """Track requests by id: those on control have a busy and an idle of their own while a cell runs."""
        state = content.get("execution_state")
        request = parent.get("msg_id", "")
        if parent.get("msg_type") in _ASKED_BY_PAGES:  # this is not activity, and idle time continues
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
        """Return the signature of header, parent header, metadata and content."""
        if not self._key:
            return b""
        import hmac

        return hmac.new(self._key, b"".join(parts[:4]), "sha256").hexdigest().encode()

    def _is_genuine(self, message: list[bytes]) -> bool:
        """Whether it is signed with the runtime's key: anyone on this machine can send to a loopback port."""
        if not self._key:
            return True
        import hmac

        return hmac.compare_digest(self.sign(message[1:5]), message[0])


_PASSWORD = b'{"value": null, "status": "ok"}'  # what the journal keeps of a password


class PendingInputs:
    """Open input requests, by the message id of the input_request."""

    def __init__(self) -> None:
        self._requests: dict[
            str, tuple[str, bytes, bool]
        ] = {}  # -> the execute_request, the header, whether it is a password
        self._colab_requests: dict[str, str] = {}  # colab_msg_id -> the execute_request

    def __bool__(self) -> bool:
        return bool(self._requests or self._colab_requests)

    def add_colab_request(self, parts: Sequence[bytes]) -> None:
        """Register a colab_request."""
        name = json_object(parts[2]).get("colab_msg_id")
        if name:
            self._colab_requests[str(name)] = str(json_object(parts[1]).get("msg_id"))

    def add(self, parts: Sequence[bytes]) -> None:
        """Register an input_request."""
        question, cell = json_object(parts[0]), json_object(parts[1])
        password = bool(json_object(parts[3]).get("password"))
        self._requests[str(question.get("msg_id"))] = str(cell.get("msg_id")), parts[0], password

    def resolve(self, parts: Sequence[bytes]) -> tuple[bytes, ...] | None:
        """Take an input_reply and return it as the journal keeps it, with the request as its parent. None: nobody asked.

        JupyterLab names the request as the parent, so that a late reply is recognised; other clients name nothing.
        """
        value = json_object(parts[3]).get("value")
        if isinstance(value, dict):
            return self._resolve_colab(parts, value)
        parent = json_object(parts[1])
        name = str(parent.get("msg_id"))
        if name not in self._requests:
            if not self._requests or parent.get("msg_type") == "input_request":
                return None
            name = next(reversed(self._requests))
        _, header, password = self._requests.pop(name)
        return (parts[0], header, parts[2], _PASSWORD if password else parts[3])

    def _resolve_colab(self, parts: Sequence[bytes], value: dict[str, Any]) -> tuple[bytes, ...] | None:
        """The value may be a secret or a file: the journal keeps only that there was a reply."""
        name = str(value.get("colab_msg_id"))
        if name not in self._colab_requests:
            return None
        if not value.get("ack"):
            del self._colab_requests[name]
        kept = {"value": {"type": "colab_reply", "colab_msg_id": name, "ack": bool(value.get("ack"))}, "status": "ok"}
        return (parts[0], parts[1], parts[2], json.dumps(kept).encode())

    def drop_finished(self, parts: Sequence[bytes]) -> None:
        """Drop the requests of a cell that has ended, for example by an interrupt. Called with each status message."""
        if json_object(parts[3]).get("execution_state") == "idle":
            cell = str(json_object(parts[1]).get("msg_id"))
            self._requests = {name: asked for name, asked in self._requests.items() if asked[0] != cell}
            self._colab_requests = {name: asked for name, asked in self._colab_requests.items() if asked != cell}

    def clear(self) -> None:
        """Drop all requests: the kernel is gone."""
        self._requests.clear()
        self._colab_requests.clear()
