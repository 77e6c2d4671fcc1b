"""What a supervisor understands of the messages that pass it: as little as it needs, at as little cost."""

from __future__ import annotations

import time
from typing import Any

from ownlab.lab.journal.records import as_object

__all__ = ["DELIMITER", "Overheard"]

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
