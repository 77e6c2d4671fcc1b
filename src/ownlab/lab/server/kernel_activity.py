"""Whether kernels are busy, from the status messages in their journals.

`KernelState` is the state of one kernel, updated with each record. `KernelActivity` keeps one for every runtime of the
server, writes it into Jupyter's kernel table, and notifies its listeners when it changes.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ownlab.lab.journal.records import EVENT, Record, json_object
from ownlab.lab.transport.endpoints import Endpoint
from ownlab.lab.transport.journal_client import Hello, JournalClient, JournalMessage

if TYPE_CHECKING:
    from ownlab.lab.server.kernels import OwnlabKernelManager, RuntimeManager

__all__ = ["KernelActivity", "KernelState", "StatusMessage"]

# Stands for a request that was running before we connected; its id is unknown.
_EARLIER_REQUEST = "before"
# Seconds that a runtime has to report its end after a shutdown request.
_END_SECONDS = 60.0


class KernelState:
    """The state of one kernel. Call `update` with each record."""

    def __init__(self, hello: Hello) -> None:
        self.execution_state = hello.execution_state
        self.kernel_info = hello.kernel_info
        self.session = hello.kernel_session
        self._running_requests: set[str] = {_EARLIER_REQUEST} if hello.busy else set()  # ids of requests

    @property
    def busy(self) -> bool:
        """Whether a new request would have to wait."""
        return bool(self._running_requests)

    def update(self, record: Record) -> StatusMessage | None:
        """Take a record into account. Return it parsed if it is a status message."""
        if record.channel == EVENT:
            self._update_from_event(json_object(record.parts[0]).get("event"))
        elif record.to_kernel:
            return None
        elif record.channel == "iopub":
            # Search the header instead of parsing it: "status" occurs only in the header of a status message.
            if b'"status"' in record.parts[0]:
                return self._update_from_status(StatusMessage(record))
        elif b'"kernel_info_reply"' in record.parts[0]:
            self.kernel_info = json_object(record.parts[3]) or self.kernel_info
        return None

    def _update_from_event(self, event: object) -> None:
        if event in ("kernel", "kernel-ended", "ended"):
            self._running_requests.clear()
            self.execution_state = "starting" if event == "kernel" else "dead"

    def _update_from_status(self, status: StatusMessage) -> StatusMessage:
        self.session = status.session or self.session
        if status.state == "busy" and status.parent_type != "kernel_info_request":
            self._running_requests.add(status.parent_id)
        elif status.state == "idle":
            if status.parent_id not in self._running_requests and status.parent_type != "kernel_info_request":
                self._running_requests.discard(_EARLIER_REQUEST)
            self._running_requests.discard(status.parent_id)
        elif status.state == "starting":
            self._running_requests.clear()
        if self._running_requests:
            self.execution_state = "busy"
        elif status.state != "busy":
            self.execution_state = status.state
        return status


class StatusMessage:
    """The parts of a status message that matter here."""

    def __init__(self, record: Record) -> None:
        header, parent, _, content = (json_object(part) for part in record.parts[:4])
        self.session = str(header.get("session", ""))
        self.state = str(content.get("execution_state", ""))
        self.parent_id = str(parent.get("msg_id", ""))
        self.parent_type: Any = parent.get("msg_type")


class KernelActivity:
    """The activity of all runtimes of the server.

    Jupyter's own implementation receives every message of every kernel, images included, to learn when a kernel is
    busy. This one subscribes to status messages only.
    """

    def __init__(self, kernels: OwnlabKernelManager) -> None:
        self._kernels = kernels
        self._watched: dict[str, _WatchedKernel] = {}
        self._ending: set[_WatchedKernel] = set()
        # Called with a kernel id and whether it is busy: on every change, when it is first known, and at the end.
        self.listeners: list[Callable[[str, bool], None]] = []

    def watch(self, kernel_id: str, kernel: RuntimeManager, journal: Endpoint) -> asyncio.Future[Hello]:
        """Start watching a runtime. The future is done when its supervisor has reported the current state."""
        if kernel_id in self._watched:
            self._watched.pop(kernel_id).close()
        self._watched[kernel_id] = watched = _WatchedKernel(self, self._kernels, kernel_id, kernel, journal)
        return watched.hello

    def stop(self, kernel_id: str) -> None:
        """Stop watching a runtime that is being shut down, except for its end event."""
        watched = self._watched.pop(kernel_id, None)
        if watched is not None:
            watched.kernel = None
            self._ending.add(watched)
            asyncio.get_running_loop().call_later(_END_SECONDS, self.forget, watched)

    def forget(self, watched: _WatchedKernel) -> None:
        """Drop a runtime that has ended, or that never reported its end."""
        self._ending.discard(watched)
        watched.close()

    def close(self) -> None:
        """Called when the server stops; the runtimes continue."""
        for watched in [*self._watched.values(), *self._ending]:
            watched.close()
        self._watched.clear()
        self._ending.clear()

    def busy(self, kernel_id: str) -> bool | None:
        """Return whether a runtime is busy; None if unknown: a foreign kernel, or a supervisor that does not respond."""
        watched = self._watched.get(kernel_id)
        return watched.state.busy if watched is not None and watched.state is not None else None


class _WatchedKernel:
    def __init__(
        self,
        activity: KernelActivity,
        kernels: OwnlabKernelManager,
        kernel_id: str,
        kernel: RuntimeManager,
        journal: Endpoint,
    ) -> None:
        self._activity, self._kernels, self._kernel_id = activity, kernels, kernel_id
        self.kernel: RuntimeManager | None = kernel
        self.state: KernelState | None = None
        self.hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._client = JournalClient(journal, self._receive, only=["status"])

    def close(self) -> None:
        self._client.close()
        self.hello.cancel()

    def _receive(self, message: JournalMessage) -> None:
        if isinstance(message, Hello):
            self.state = KernelState(message)
            if self.kernel is not None and message.execution_state in ("starting", "idle", "busy"):
                self.kernel.execution_state = message.execution_state
            if not self.hello.done():
                self.hello.set_result(message)
            self._notify()
        elif isinstance(message, Record) and self.state is not None:
            before = self.state.busy
            status = self.state.update(message)
            if status is not None and self.kernel is not None:
                self._update_jupyter(self.kernel, status)
            if message.channel == EVENT:
                self._update_from_event(json_object(message.parts[0]).get("event"))
            elif self.state.busy != before:
                self._notify()

    def _update_jupyter(self, kernel: RuntimeManager, status: StatusMessage) -> None:
        """Update Jupyter's kernel table as Jupyter does: automatic requests of pages do not count as activity."""
        tracked = self._kernels.track_message_type(status.parent_type)
        if tracked or kernel.execution_state == "busy":
            self._kernels.last_kernel_activity = kernel.last_activity = datetime.now(timezone.utc)
        if tracked:
            kernel.execution_state = status.state
        elif kernel.execution_state == "starting" and status.state != "starting":
            kernel.execution_state = "idle"

    def _update_from_event(self, event: object) -> None:
        if event == "kernel" and self.kernel is not None:
            self.kernel.execution_state = "starting"
        self._notify()
        if event == "ended":
            if self.kernel is not None:  # nobody has asked this server for it
                asyncio.get_running_loop().call_soon(self._kernels.runtime_ended, self._kernel_id)
            self._activity.forget(self)

    def _notify(self) -> None:
        assert self.state is not None
        for listener in self._activity.listeners:
            listener(self._kernel_id, self.state.busy)
