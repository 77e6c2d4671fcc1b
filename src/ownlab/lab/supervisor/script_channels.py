"""What stands in for the Jupyter channels of a runtime that runs a script: nobody connects, and it is busy until it ends."""

from __future__ import annotations

from typing import Any

from ownlab.lab.journal.death import Death
from ownlab.lab.supervisor.message_inspector import MessageInspector

__all__ = ["ScriptChannels"]


class _ScriptInspector(MessageInspector):
    """A script as the limits see it: it works from its first moment on."""

    def __init__(self) -> None:
        super().__init__(key="")
        self.kernel_spoke, self.execution_state = True, "busy"

    @property
    def busy(self) -> bool:
        return True


class ScriptChannels:
    """The methods of `Channels`. None of them has anything to do."""

    def __init__(self) -> None:
        self.inspector = _ScriptInspector()
        self.connection: dict[str, Any] = {}

    def connect(self, address: str) -> None:
        """A script has no sockets."""

    def drain(self) -> None:
        """Its output is in files already."""

    def disconnect(self, why: str, death: Death | None = None) -> None:
        """Nobody follows it by messages."""

    def serve(self, socket: object) -> bool:
        return False

    def check(self, now: float) -> None:
        """Nothing waits for anybody."""

    def due(self) -> float | None:
        return None

    def has_pages(self) -> bool:
        return False

    def record_event(self, what: str, **more: object) -> None:
        """There is no journal; warnings are in the log of the runtime."""

    def close(self, why: str) -> None:
        """There is nothing to close."""
