"""The messages of a runtime for one page: everything after the page's position, in order, first from disk, then live.

A page first asks for an `attachment` (the executions of its cells so far), then opens a websocket: a `PageStream`.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.websocket import WebSocketClosedError

from ownlab.errors import LabError
from ownlab.lab.journal.reader import compacted_to, records_after
from ownlab.lab.journal.records import EVENT, Record, json_object
from ownlab.lab.journal.state import JournalState
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.server.attachment import describe_death, describe_not_run
from ownlab.lab.server.busy_replies import BusyReplies
from ownlab.lab.server.kernel_activity import KernelState
from ownlab.lab.server.kernel_messages import KernelMessage, frame, state_messages, status_message
from ownlab.lab.transport.journal_client import Dropped, Duplicate, Hello, JournalClient, JournalMessage, Reconnected

if TYPE_CHECKING:
    from ownlab.lab.runtimes.journals import Journals

__all__ = ["PageStream", "Write"]

# Sends data to the page. The future is done when the data has left.
Write = Callable[[bytes | str], "asyncio.Future[None]"]

_SLICE_BYTES = 4 << 20  # read from disk at a time
_MAX_UNSENT_BYTES = 1 << 20  # sent to the page before we wait for it
_MAX_QUEUED_BYTES = 32 << 20  # kept in memory for a slow page; anything beyond is read from disk later
_TO_KERNEL = ("shell", "control", "stdin")


class PageStream:
    """The stream of one page, from the opening of its websocket to its end."""

    def __init__(
        self,
        plan: Plan,
        after: int | None,
        session: str,
        write: Write,
        journals: Journals,
        log: Logger | LoggerAdapter[Any],
        translate: Callable[[str], str] | None = None,
    ) -> None:
        """`after`: the number of the last record that the page has handled; None: it wants only new records.

        `translate`: sentences into the language of the page, unless that is English.
        """
        self._runtime, self._folder = plan.runtime, Path(plan.journal)
        self._session, self._write, self._journals, self._log = session, write, journals, log
        self._busy_replies = BusyReplies(plan.runtime, journals)
        self._after, self._translate = after, translate
        self._hello: Hello | None = None
        self._kernel_state: KernelState | None = None  # the current state
        self._page_state: KernelState | None = None  # the state at the page's position
        self._sent_busy = (
            False  # JupyterLab ignores the idle status of e.g. debug requests: after our own busy, we send idle, too
        )
        self._early_messages: list[tuple[str, list[bytes]]] = []  # from the page, before the supervisor's hello
        self._queue: deque[Record | Callable[[], Awaitable[None]]] = deque()
        self._queued_bytes = 0
        self._has_items = asyncio.Event()
        self._position = 0  # number of the last record that was sent or skipped
        self._waiters: dict[asyncio.Future[None], int] = {}  # future -> the position it waits for
        self._last_header = b"{}"  # header of the last kernel message sent
        self._input_requests: dict[str, str] = {}  # id of an input_request -> id of its execute_request
        self._unsent_bytes = 0
        self._last_send: asyncio.Future[None] | None = None
        self._client = JournalClient(plan.journal_endpoint, self._receive, page=True)
        self.task = asyncio.create_task(self._send_all())  # ends on its own when the page cannot be reached

    def close(self) -> None:
        """Called when the page is gone."""
        self._client.close()
        self.task.cancel()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- from the page

    def send_to_kernel(self, channel: str, parts: list[bytes]) -> None:
        """Forward a message of the page to the kernel, or answer it if the kernel is busy."""
        if channel not in _TO_KERNEL:
            self._log.warning("A page sent a message on an unknown channel: %r.", channel)
        elif self._kernel_state is None:
            self._early_messages.append((channel, parts))
        elif self._busy_replies.handles(parts, self._kernel_state):
            self._enqueue(partial(self._answer, channel, parts, self._kernel_state))
        else:
            self._client.send(channel, parts)

    async def _answer(self, channel: str, parts: list[bytes], state: KernelState) -> None:
        try:
            answer = await self._busy_replies.look_up(parts, state)
        except LabError as exc:
            self._log.warning("A page has to wait for the reply of its busy kernel: %s", exc.message)
            self._client.send(channel, parts)
            return
        # A page ignores messages about widgets it does not know: it must know the widgets before it receives their
        # updates.
        await self._send_from_disk(answer.position)
        state = self._page_state or state
        for message in self._busy_replies.build(channel, parts, answer, state):
            self._send_message(message)
        self._sent_busy = state.busy
        self._send_json(type="taken", msg_id=json_object(parts[0]).get("msg_id"), position=0)

    # -- from the server itself

    def send_status(self, state: str) -> None:
        """Send a status after everything that the kernel has sent so far."""
        self._enqueue(partial(self._send_status, state))

    async def _send_status(self, state: str) -> None:
        if state == "dead":  # we may have been dropped before its last records
            await self._send_from_disk(await asyncio.to_thread(_last_number, self._folder, self._position))
        if state in ("restarting", "dead"):
            await self._send_missed_death()
        self._send_message(status_message(state, self._page_state.session if self._page_state else self._session))

    async def _send_missed_death(self) -> None:
        """Send a death before the status that follows it: JupyterLab then drops all executions, and could not show it.

        A supervisor that was killed has sent nothing. What is in its journal is read from disk.
        """
        try:
            died = await self._journals.query(self._runtime, partial(describe_death, translate=self._translate))
        except LabError as exc:
            self._log.warning("Cannot tell why a kernel died: %s", exc.message)
            return
        if died is None or died["position"] <= self._position:
            return
        last = int(died["position"])
        if died.pop("recorded"):
            await self._send_from_disk(last)
        else:
            await self._send_from_disk(last - 1)
            self._send_json(**died)
            self._advance(last)

    async def wait_until_sent(self, number: int) -> None:
        """Wait until the page has been sent everything up to a record number."""
        if self._position < number:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = number
            await waiter

    # -- from the journal

    def _receive(self, message: JournalMessage) -> None:
        if isinstance(message, Reconnected):
            # What the page has sent may be lost, and what it sends now must not overtake that. It connects again, with all of it.
            self._client.close()
            self.task.cancel()
        elif isinstance(message, Duplicate):
            self._enqueue(partial(self._confirm_duplicate, message.msg_id))
        elif isinstance(message, Dropped):
            self._defer_to_disk(message.position)
        elif isinstance(message, Hello):
            self._start(message)
        elif self._kernel_state is not None:
            self._kernel_state.update(message)
            self._queued_bytes += sum(map(len, message.parts))
            if self._queued_bytes > _MAX_QUEUED_BYTES:
                self._defer_to_disk(message.number)
            else:
                self._enqueue(message)

    def _start(self, hello: Hello) -> None:
        if self._hello is not None:  # we were dropped, and follow again
            self._kernel_state = KernelState(hello)
            self._defer_to_disk(hello.position)
            return
        self._hello, self._kernel_state = hello, KernelState(hello)
        self._position = hello.position if self._after is None else min(self._after, hello.position)
        self._enqueue(partial(self._send_hello, hello))
        early, self._early_messages = self._early_messages, []
        for channel, parts in early:
            self.send_to_kernel(channel, parts)

    def _defer_to_disk(self, last: int) -> None:
        kept = [each for each in self._queue if not isinstance(each, Record)]
        self._queue = deque(kept)
        self._queued_bytes = 0
        self._enqueue(partial(self._send_from_disk, last))

    async def _confirm_duplicate(self, msg_id: str) -> None:
        self._send_json(type="taken", msg_id=msg_id, position=0)

    # -- sending, one item after the other

    def _enqueue(self, item: Record | Callable[[], Awaitable[None]]) -> None:
        self._queue.append(item)
        self._has_items.set()

    async def _send_all(self) -> None:
        try:
            while True:
                await self._has_items.wait()
                while self._queue:
                    await self._send_next()
                self._has_items.clear()
                await self._flush()
        except WebSocketClosedError:
            return

    async def _send_next(self) -> None:
        item = self._queue.popleft()
        if not isinstance(item, Record):
            await item()
        else:
            self._queued_bytes -= sum(map(len, item.parts))
            if item.number > self._position + 1:
                await self._send_from_disk(item.number - 1)
            await self._send_record(item)
        if self._unsent_bytes > _MAX_UNSENT_BYTES:
            await self._flush()

    async def _send_hello(self, hello: Hello) -> None:
        self._send_json(type="hello", position=hello.position)
        await self._send_from_disk(hello.position)
        self._page_state = KernelState(hello)
        # Without this, the page would show the state "unknown" until the kernel's next status, perhaps for an hour.
        self._send_state(self._page_state)

    def _send_state(self, state: KernelState) -> None:
        for message in state_messages(state):
            self._send_message(message)
        self._sent_busy = state.busy

    async def _send_from_disk(self, last: int) -> None:
        """Send the records on disk up to a number."""
        if self._position >= last:
            return
        compacted = compacted_to(self._folder)
        if self._position < compacted:
            self._skip(last, compacted)
            return
        gap = ""
        slices = _read_slices(self._folder, self._position, last)
        try:
            while records := await asyncio.to_thread(next, slices, None):
                for record in records:
                    if record.number > self._position + 1 or _is_loss(record):
                        gap = f"records are missing before {record.number}"
                    await self._send_record(record)
                await self._flush()
        except OSError as exc:
            gap = str(exc)
        if gap or self._position < last:
            self._log.warning("The journal of runtime %s: %s.", self._runtime, gap or f"it ends before {last}")
            self._skip(last, last)

    def _skip(self, last: int, compacted: int) -> None:
        """Tell the page to fetch a new attachment, and continue after `last`."""
        self._send_json(type="behind", position=compacted)
        self._advance(last)

    async def _send_record(self, record: Record) -> None:
        if record.number <= self._position:
            return
        if self._page_state is not None:
            self._page_state.update(record)
        if record.channel == EVENT:
            await self._send_event(record)
        elif record.to_kernel:
            await self._send_request(record)
        else:
            self._last_header = record.parts[0]
            if record.channel == "stdin":
                self._input_requests[_message_id(record.parts[0])] = _message_id(record.parts[1])
            self._send(frame(record.number, record.channel, record.parts))
        if self._sent_busy and self._page_state is not None and not self._page_state.busy:
            self._send_state(self._page_state)
        self._advance(record.number)

    def _advance(self, number: int) -> None:
        self._position = max(self._position, number)
        for waiter in [waiter for waiter, wanted in self._waiters.items() if wanted <= self._position]:
            del self._waiters[waiter]
            if not waiter.done():
                waiter.set_result(None)

    async def _send_event(self, record: Record) -> None:
        event = json_object(record.parts[0])
        if event.get("event") == "kernel-ended" and "death" in event:
            await self._send_death(record.number)
        if event.get("event") == "not-run":
            await self._send_described(partial(describe_not_run, number=record.number))
        if event.get("event") == "ended":
            self._send_end(record.number)
        if event.get("event") != "kernel" or event.get("launch", 1) == 1:
            return
        # This message is numbered, so that the page's position is after it: on a restart the page opens a new websocket
        # and would receive it again. A page that was connected during the restart hears of it from Jupyter, or
        # requested it.
        assert self._hello is not None
        missed = record.number <= self._hello.position
        session = str(json_object(self._last_header).get("session") or self._hello.kernel_session)
        message = status_message("restarting" if missed else "starting", session)
        self._send(frame(record.number, message.channel, message.parts))

    def _send_end(self, number: int) -> None:
        """Tell the page at once that the runtime has ended: Jupyter notices seconds later, and cells run meanwhile would be lost."""
        assert self._hello is not None
        if number > self._hello.position:  # an earlier end is not that of this supervisor
            message = status_message("dead", self._page_state.session if self._page_state else self._session)
            self._send(frame(number, message.channel, message.parts))

    async def _send_death(self, number: int) -> None:
        """Tell the page which cells a death concerns, and what they show about it. One frame: it is shown once or not at all."""
        await self._send_described(partial(describe_death, number=number, translate=self._translate))

    async def _send_described(self, describe: Callable[[JournalState], dict[str, Any] | None]) -> None:
        try:
            described = await self._journals.query(self._runtime, describe)
        except LabError as exc:
            self._log.warning("Cannot tell which cells a dead kernel ran: %s", exc.message)
            return
        if described is not None:
            described.pop("recorded", None)
            self._send_json(**described)

    async def _send_request(self, record: Record) -> None:
        header = json_object(record.parts[0])
        if header.get("session") == self._session:
            self._send_json(type="taken", msg_id=header.get("msg_id"), position=record.number)
        if header.get("msg_type") != "input_reply":
            return
        value = json_object(record.parts[3]).get("value")
        if isinstance(value, dict):  # for google.colab, not text typed into a cell
            name, ack = value.get("colab_msg_id"), value.get("ack") is True
            self._send_json(type="replied", msg_id=name, ack=ack, position=record.number)
        else:
            asked = self._input_requests.pop(_message_id(record.parts[1]), None)
            parent = asked or await self._find_running_cell(record.at)
            self._send_json(type="answered", parent=parent, value=value, position=record.number)

    async def _find_running_cell(self, at: float) -> str | None:
        """Return the execution that was answered, if it asked before the page connected: the last one begun before."""

        def find(journal: JournalState) -> str | None:
            started = [
                (each.started_at, each.msg_id) for each in journal.executions.values() if each.started_at is not None
            ]
            return max((each for each in started if each[0] <= at), default=(0.0, None))[1]

        try:
            return await self._journals.query(self._runtime, find)
        except LabError as exc:
            self._log.warning("Cannot tell which cell an input was for: %s", exc.message)
            return None

    # -- to the websocket

    def _send_message(self, message: KernelMessage) -> None:
        self._send(frame(0, message.channel, message.parts))

    def _send_json(self, **message: object) -> None:
        self._send(json.dumps(message))

    def _send(self, data: bytes | str) -> None:
        self._last_send = self._write(data)
        self._last_send.add_done_callback(_ignore_failure)
        self._unsent_bytes += len(data)

    async def _flush(self) -> None:
        """Wait for the page. Meanwhile new records stay on disk."""
        self._unsent_bytes = 0
        if self._last_send is not None:
            await self._last_send


def _read_slices(folder: Path, after: int, last: int) -> Iterator[list[Record]]:
    """Read the records (after, last] from disk in slices, so that other tasks can run in between."""
    records: list[Record] = []
    size = 0
    for record in records_after(folder, after):
        if record.number > last:
            break
        records.append(record)
        size += sum(map(len, record.parts))
        if size > _SLICE_BYTES:
            yield records
            records, size = [], 0
    if records:
        yield records


def _last_number(folder: Path, after: int) -> int:
    for record in records_after(folder, after, final=True):
        after = record.number
    return after


def _is_loss(record: Record) -> bool:
    return record.channel == EVENT and json_object(record.parts[0]).get("event") in ("lost", "damaged")


def _message_id(header: bytes) -> str:
    return str(json_object(header).get("msg_id"))


def _ignore_failure(sent: asyncio.Future[None]) -> None:
    """A page that disconnects during a send is not an error; `_flush` raises it where it matters."""
    if not sent.cancelled():
        sent.exception()
