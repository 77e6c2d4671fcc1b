"""What one page is told: everything that its runtime said after its position, in order, from disk and then live."""

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
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.server.busy_replies import Desk, Made, state_of, status
from ownlab.lab.server.kernel_state import Pulse
from ownlab.lab.server.websocket_framing import frame
from ownlab.lab.transport.journal_client import Duplicate, Hello, JournalClient

if TYPE_CHECKING:
    from ownlab.lab.journal.state import JournalState
    from ownlab.lab.runtimes.journals import Journals

__all__ = ["Following", "Write"]

# Sends to the page; done when it has left.
Write = Callable[[bytes | str], "asyncio.Future[None]"]

_SLICE = 4 << 20  # bytes that are read from disk at once
_UNSENT = 1 << 20  # bytes that may be on their way to the page before we wait for it
_WAITING = 32 << 20  # bytes that wait in memory for a slow page; what is beyond it will be read from disk
_TO_KERNEL = ("shell", "control", "stdin")


class Following:
    """From the opening of a page's websocket to its end."""

    def __init__(
        self,
        plan: Plan,
        after: int | None,
        session: str,
        write: Write,
        journals: Journals,
        log: Logger | LoggerAdapter[Any],
    ) -> None:
        """`after`: the number of the last message that the page has handled; None: it wants only what comes."""
        self._runtime, self._folder = plan.runtime, Path(plan.journal)
        self._session, self._write, self._journals, self._log = session, write, journals, log
        self._desk = Desk(plan.runtime, journals)
        self._after = after
        self._hello: Hello | None = None
        self._pulse: Pulse | None = None  # as it is now
        self._shown: Pulse | None = None  # as the page was told
        self._said_busy = False  # told by us: JupyterLab heeds no idle that answers a debugger's request, say
        self._early: list[tuple[str, list[bytes]]] = []  # said by the page before the supervisor said hello
        self._waiting: deque[Record | Callable[[], Awaitable[None]]] = deque()
        self._waiting_bytes = 0
        self._something = asyncio.Event()
        self._told = 0  # number of the last record that was dealt with
        self._reached: dict[asyncio.Future[None], int] = {}  # who waits for which number to be told
        self._last_header = b"{}"  # of the last message of a kernel that was told
        self._questions: dict[str, str] = {}  # input_request -> the execute_request in which it was asked
        self._unsent = 0
        self._sent: asyncio.Future[None] | None = None
        self._line = JournalClient(plan.sockets, self._hear)
        self.telling = asyncio.create_task(self._tell_all())  # ends by itself where the page cannot be told

    def close(self) -> None:
        """The page is gone."""
        self._line.close()
        self.telling.cancel()
        for waits in self._reached:
            if not waits.done():
                waits.set_result(None)

    # -- said by the page

    def say(self, channel: str, parts: list[bytes]) -> None:
        """A message for the kernel."""
        if channel not in _TO_KERNEL:
            self._log.warning("A page sent something on a channel %r.", channel)
        elif self._pulse is None:
            self._early.append((channel, parts))
        elif self._desk.takes(parts, self._pulse):
            self._enqueue(partial(self._answer, channel, parts, self._pulse))
        else:
            self._line.send(channel, parts)

    async def _answer(self, channel: str, parts: list[bytes], pulse: Pulse) -> None:
        try:
            found = await self._desk.find(parts, pulse)
        except LabError as exc:
            self._log.warning("A page waits for its kernel's own answer: %s.", exc.message)
            self._line.send(channel, parts)
            return
        # Of widgets that it does not know yet a page hears nothing: what changes them has to come after they are told.
        await self._catch_up(found.position)
        shown = self._shown or pulse
        for made in self._desk.answer(channel, parts, found, shown):
            self._send_made(made)
        self._said_busy = shown.busy
        self._send_text(type="taken", msg_id=json_object(parts[0]).get("msg_id"), position=0)

    # -- said by the server itself

    def tell_status(self, state: str) -> None:
        """After everything that the kernel has said so far."""
        self._enqueue(partial(self._tell_status, state))

    async def _tell_status(self, state: str) -> None:
        self._send_made(status(state, self._shown.session if self._shown else self._session))

    async def reached(self, number: int) -> None:
        """Until the page was told everything up to a number."""
        if self._told < number:
            waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._reached[waits] = number
            await waits

    # -- said on the line

    def _hear(self, said: Hello | Record | Duplicate) -> None:
        if isinstance(said, Duplicate):
            self._enqueue(partial(self._tell_again, said.msg_id))
        elif isinstance(said, Hello):
            self._begin(said)
        elif self._pulse is not None:
            self._pulse.note(said)
            self._waiting_bytes += sum(map(len, said.parts))
            if self._waiting_bytes > _WAITING:
                self._leave_to_disk(said.number)
            else:
                self._enqueue(said)

    def _begin(self, hello: Hello) -> None:
        if self._hello is not None:
            return
        self._hello, self._pulse = hello, Pulse(hello)
        self._told = hello.position if self._after is None else min(self._after, hello.position)
        self._enqueue(partial(self._tell_hello, hello))
        early, self._early = self._early, []
        for channel, parts in early:
            self.say(channel, parts)

    def _leave_to_disk(self, last: int) -> None:
        kept = [each for each in self._waiting if not isinstance(each, Record)]
        self._waiting = deque(kept)
        self._waiting_bytes = 0
        self._enqueue(partial(self._catch_up, last))

    async def _tell_again(self, msg_id: str) -> None:
        self._send_text(type="taken", msg_id=msg_id, position=0)

    # -- telling: one thing after the other

    def _enqueue(self, what: Record | Callable[[], Awaitable[None]]) -> None:
        self._waiting.append(what)
        self._something.set()

    async def _tell_all(self) -> None:
        try:
            while True:
                await self._something.wait()
                while self._waiting:
                    await self._tell_next()
                self._something.clear()
                await self._flush()
        except WebSocketClosedError:
            return

    async def _tell_next(self) -> None:
        what = self._waiting.popleft()
        if not isinstance(what, Record):
            await what()
        else:
            self._waiting_bytes -= sum(map(len, what.parts))
            if what.number > self._told + 1:
                await self._catch_up(what.number - 1)
            await self._tell(what)
        if self._unsent > _UNSENT:
            await self._flush()

    async def _tell_hello(self, hello: Hello) -> None:
        self._send_text(type="hello", position=hello.position)
        await self._catch_up(hello.position)
        self._shown = Pulse(hello)
        # A kernel that says nothing for an hour would be "unknown" to its page for as long.
        self._send_state(self._shown)

    def _send_state(self, shown: Pulse) -> None:
        for made in state_of(shown):
            self._send_made(made)
        self._said_busy = shown.busy

    async def _catch_up(self, last: int) -> None:
        """Tell what is on disk, up to a number."""
        if self._told >= last:
            return
        whole = compacted_to(self._folder)
        if self._told < whole:
            self._skip(last, whole)
            return
        hole = ""
        slices = _slices(self._folder, self._told, last)
        try:
            while records := await asyncio.to_thread(next, slices, None):
                for record in records:
                    if record.number > self._told + 1 or _is_loss(record):
                        hole = f"something is missing before {record.number}"
                    await self._tell(record)
                await self._flush()
        except OSError as exc:
            hole = str(exc)
        if hole or self._told < last:
            self._log.warning("The journal of runtime %s: %s.", self._runtime, hole or f"it ends before {last}")
            self._skip(last, last)

    def _skip(self, last: int, whole: int) -> None:
        """The page has to ask for the whole, and is told what comes after."""
        self._send_text(type="behind", position=whole)
        self._advance(last)

    async def _tell(self, record: Record) -> None:
        if record.number <= self._told:
            return
        if self._shown is not None:
            self._shown.note(record)
        if record.channel == EVENT:
            self._tell_event(record)
        elif record.to_kernel:
            await self._tell_request(record)
        else:
            self._last_header = record.parts[0]
            if record.channel == "stdin":
                self._questions[_id(record.parts[0])] = _id(record.parts[1])
            self._send(frame(record.number, record.channel, record.parts))
        if self._said_busy and self._shown is not None and not self._shown.busy:
            self._send_state(self._shown)
        self._advance(record.number)

    def _advance(self, number: int) -> None:
        self._told = max(self._told, number)
        for waits in [waits for waits, wanted in self._reached.items() if wanted <= self._told]:
            del self._reached[waits]
            if not waits.done():
                waits.set_result(None)

    def _tell_event(self, record: Record) -> None:
        said = json_object(record.parts[0])
        if said.get("event") != "kernel" or said.get("launch", 1) == 1:
            return
        # Numbered, so that the page's position is behind it: it opens a new websocket when it hears of a restart, and
        # would hear of it again. One that lives through it hears of it from Jupyter, or has asked for it.
        assert self._hello is not None
        missed = record.number <= self._hello.position
        session = str(json_object(self._last_header).get("session") or self._hello.kernel_session)
        made = status("restarting" if missed else "starting", session)
        self._send(frame(record.number, made.channel, made.parts))

    async def _tell_request(self, record: Record) -> None:
        header = json_object(record.parts[0])
        if header.get("session") == self._session:
            self._send_text(type="taken", msg_id=header.get("msg_id"), position=record.number)
        if header.get("msg_type") != "input_reply":
            return
        value = json_object(record.parts[3]).get("value")
        if isinstance(value, dict):  # it is for google.colab, and no text in a cell
            name, ack = value.get("colab_msg_id"), value.get("ack") is True
            self._send_text(type="replied", msg_id=name, ack=ack, position=record.number)
        else:
            asked = self._questions.pop(_id(record.parts[1]), None) or await self._ran_at(record.at)
            self._send_text(type="answered", parent=asked, value=value, position=record.number)

    async def _ran_at(self, at: float) -> str | None:
        """Which cell it was that asked before the page was here: the last one that began before the answer."""

        def find(fold: JournalState) -> str | None:
            began = [(one.started_at, one.msg_id) for one in fold.executions.values() if one.started_at is not None]
            return max((one for one in began if one[0] <= at), default=(0.0, None))[1]

        try:
            return await self._journals.query(self._runtime, find)
        except LabError as exc:
            self._log.warning("Which cell was answered cannot be told: %s.", exc.message)
            return None

    # -- to the websocket

    def _send_made(self, made: Made) -> None:
        self._send(frame(0, made.channel, made.parts))

    def _send_text(self, **said: object) -> None:
        self._send(json.dumps(said))

    def _send(self, data: bytes | str) -> None:
        self._sent = self._write(data)
        self._sent.add_done_callback(_heed)
        self._unsent += len(data)

    async def _flush(self) -> None:
        """Wait for the page: what it does not take, waits on disk."""
        self._unsent = 0
        if self._sent is not None:
            await self._sent


def _slices(folder: Path, after: int, last: int) -> Iterator[list[Record]]:
    """What is on disk in (after, last], so much at a time that other things go on meanwhile."""
    records: list[Record] = []
    size = 0
    for record in records_after(folder, after):
        if record.number > last:
            break
        records.append(record)
        size += sum(map(len, record.parts))
        if size > _SLICE:
            yield records
            records, size = [], 0
    if records:
        yield records


def _is_loss(record: Record) -> bool:
    return record.channel == EVENT and json_object(record.parts[0]).get("event") in ("lost", "damaged")


def _id(header: bytes) -> str:
    return str(json_object(header).get("msg_id"))


def _heed(sent: asyncio.Future[None]) -> None:
    """A page that leaves while it is told something is no error: whoever waits for the last word sees it."""
    if not sent.cancelled():
        sent.exception()
