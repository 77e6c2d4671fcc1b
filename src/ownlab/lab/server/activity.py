"""What each runtime's kernel does, for Jupyter's tables and for who waits until one is idle: one quiet line for each."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ownlab.lab.journal.records import EVENT, Record, json_object
from ownlab.lab.server.kernel_state import Pulse, Status
from ownlab.lab.transport.journal_client import Duplicate, Hello, JournalClient

if TYPE_CHECKING:
    from ownlab.lab.server.kernels import OwnlabKernelManager, RuntimeManager

__all__ = ["Activity"]

# Seconds that a runtime which is being shut down has to say that it has ended.
_END = 60.0


class Activity:
    """Jupyter's own listens to all that every kernel says, pictures and all, to learn when it is busy."""

    def __init__(self, kernels: OwnlabKernelManager) -> None:
        self._kernels = kernels
        self._watched: dict[str, _Watched] = {}
        self._ending: set[_Watched] = set()
        # Called with a kernel's id, and whether it works: when that changes, when it is first known, at its end.
        self.changed: list[Callable[[str, bool], None]] = []

    def watch(self, kernel_id: str, kernel: RuntimeManager, sockets: str) -> asyncio.Future[Hello]:
        """From now on; done when its supervisor has said how things stand."""
        if kernel_id in self._watched:
            self._watched.pop(kernel_id).close()
        self._watched[kernel_id] = watched = _Watched(self, self._kernels, kernel_id, kernel, sockets)
        return watched.hello

    def stop(self, kernel_id: str) -> None:
        """It is being shut down: all that matters now is its last word."""
        watched = self._watched.pop(kernel_id, None)
        if watched is not None:
            watched.kernel = None
            self._ending.add(watched)
            asyncio.get_running_loop().call_later(_END, self.forget, watched)

    def forget(self, watched: _Watched) -> None:
        """It has ended, or does not say so."""
        self._ending.discard(watched)
        watched.close()

    def close(self) -> None:
        """The server ends; runtimes go on."""
        for watched in [*self._watched.values(), *self._ending]:
            watched.close()
        self._watched.clear()
        self._ending.clear()

    def busy(self, kernel_id: str) -> bool | None:
        """Whether it works; None where nobody can tell: a foreign kernel, or a supervisor that does not answer."""
        watched = self._watched.get(kernel_id)
        return watched.pulse.busy if watched is not None and watched.pulse is not None else None


class _Watched:
    def __init__(
        self,
        activity: Activity,
        kernels: OwnlabKernelManager,
        kernel_id: str,
        kernel: RuntimeManager,
        sockets: str,
    ) -> None:
        self._activity, self._kernels, self._kernel_id = activity, kernels, kernel_id
        self.kernel: RuntimeManager | None = kernel
        self.pulse: Pulse | None = None
        self.hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._line = JournalClient(sockets, self._hear, only=["status"])

    def close(self) -> None:
        self._line.close()
        self.hello.cancel()

    def _hear(self, said: Hello | Record | Duplicate) -> None:
        if isinstance(said, Hello):
            self.pulse = Pulse(said)
            if self.kernel is not None and said.execution_state in ("starting", "idle", "busy"):
                self.kernel.execution_state = said.execution_state
            if not self.hello.done():
                self.hello.set_result(said)
            self._tell()
        elif isinstance(said, Record) and self.pulse is not None:
            before = self.pulse.busy
            status = self.pulse.note(said)
            if status is not None and self.kernel is not None:
                self._note(self.kernel, status)
            if said.channel == EVENT:
                self._note_event(json_object(said.parts[0]).get("event"))
            elif self.pulse.busy != before:
                self._tell()

    def _note(self, kernel: RuntimeManager, status: Status) -> None:
        """As Jupyter does: what pages ask by themselves is no activity."""
        tracked = self._kernels.track_message_type(status.parent_type)
        if tracked or kernel.execution_state == "busy":
            self._kernels.last_kernel_activity = kernel.last_activity = datetime.now(timezone.utc)
        if tracked:
            kernel.execution_state = status.state
        elif kernel.execution_state == "starting" and status.state != "starting":
            kernel.execution_state = "idle"

    def _note_event(self, what: object) -> None:
        if what == "kernel" and self.kernel is not None:
            self.kernel.execution_state = "starting"
        self._tell()
        if what == "ended":
            self._activity.forget(self)

    def _tell(self) -> None:
        assert self.pulse is not None
        for call in self._activity.changed:
            call(self._kernel_id, self.pulse.busy)
