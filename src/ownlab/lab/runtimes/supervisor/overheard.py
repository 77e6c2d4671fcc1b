"""What a supervisor understands of the messages that pass it: as little as it needs, at as little cost."""

from __future__ import annotations

import json
import time
from typing import Any

__all__ = ["Overheard"]

_DELIMITER = b"<IDS|MSG>"  # after it: signature, header, parent header, metadata, content, buffers


class Overheard:
    """Whether the kernel works, what it says of itself, and whether it was asked to shut down."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._working: set[str] = set()
        self.last_activity = time.time()
        self.shutdown: bool | None = None  # asked to shut down: False for good, True to be started again
        self.forget()

    def forget(self) -> None:
        """Another kernel begins."""
        self._working.clear()
        self.execution_state = "starting"
        self.kernel_info: dict[str, Any] | None = None
        self.heard = False
        self.idle_since = time.monotonic()

    @property
    def busy(self) -> bool:
        return bool(self._working)

    def listen(self, channel: str, direction: str, frames: list[bytes]) -> None:
        """Called with each message. Headers are searched, not parsed: "status" stands in no header but a status'."""
        if channel == "hb" or _DELIMITER not in frames:
            return
        message = frames[frames.index(_DELIMITER) + 1 :]
        if len(message) < 5:
            return
        header = message[1]
        if direction == "to_kernel":
            if b'"shutdown_request"' in header and self._is_genuine(message):
                self.shutdown = bool(_object(message[4]).get("restart"))
        elif channel == "iopub":
            self.heard = True
            if b'"status"' in header:
                self._note_status(_object(message[2]), _object(message[4]))
        elif self.kernel_info is None and b'"kernel_info_reply"' in header:
            self.kernel_info = _object(message[4]) or None

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

    def _is_genuine(self, message: list[bytes]) -> bool:
        """Signed with the runtime's key: anyone on this machine can send to a loopback port."""
        if not self._key:
            return True
        import hmac

        signed = hmac.new(self._key, b"".join(message[1:5]), "sha256").hexdigest()
        return hmac.compare_digest(signed.encode(), message[0])


def _object(frame: bytes) -> dict[str, Any]:
    """A frame's JSON object; empty where it is none, since a notebook may send what it likes."""
    try:
        value = json.loads(frame)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
