"""Sends a notebook's cells to its runtime, one after the other, and hears how each of them ends."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from ownlab.errors import LabError
from ownlab.lab.journal.execution import as_count, format_time
from ownlab.lab.journal.json_parts import parse_header, parse_object
from ownlab.lab.journal.records import EVENT, Record
from ownlab.lab.runs.preparation import Step
from ownlab.lab.runs.records import CellError, CellReport, CellStatus, RunStatus
from ownlab.lab.runs.reporter import Stop, Teller
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import is_alive, read_state
from ownlab.lab.transport.control import send_command
from ownlab.lab.transport.journal_client import Duplicate, Hello, JournalClient
from ownlab.lab.transport.journal_protocol import RELEASED

__all__ = ["Driven", "Driver", "Policy"]

# Seconds.
_HEED = 10.0  # that a cell has to heed an interrupt
_TICK = 1.0
_WRITE = 4.0  # between two writings of the output, at least
_SHARE = 20  # and so many times what the last one took
# Somebody else's cell failed in the same kernel, and took ours along before it began.
_AGAIN, _TRIES = 0.2, 50

_What = Literal["done", "gone", "late", "told", "deaf"]


class Policy(NamedTuple):
    """How cells are run."""

    timeout: float | None = None
    allow_errors: bool = False


class Driven(NamedTuple):
    """How far it came."""

    cells: tuple[CellReport, ...]
    status: RunStatus
    reason: str  # why it is not done
    alive: bool  # the kernel is there, and rests


class _Request:
    """An execution, until both its reply and its idle are there."""

    def __init__(self, over: asyncio.Future[_What]) -> None:
        self.msg_id = uuid.uuid4().hex
        self.over = over
        self.reply: dict[str, Any] | None = None
        self.idle = False

    def wake(self, what: _What) -> None:
        if not self.over.done():
            self.over.set_result(what)


class Driver:
    """One for a run, in a loop of its own."""

    def __init__(self, plan: Plan, policy: Policy, teller: Teller, write: Callable[[], None], stop: Stop) -> None:
        self._plan, self._policy, self._teller, self._write, self._stop = plan, policy, teller, write, stop
        self._session = uuid.uuid4().hex
        self._supervisor = (read_state(plan.home) or {}).get("supervisor")
        self._request: _Request | None = None
        self._gone = ""  # why there is no kernel any more
        self._left = False  # a cell called exit() or runtime.unassign(): that is the end, and none of failure
        self._deaf = False

    async def run(self, steps: Sequence[Step], signals: Iterable[int] = ()) -> Driven:
        """Until the last cell is done, or one of them ends the run."""
        loop = asyncio.get_running_loop()
        handled = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]  # as nohup leaves it
        before = {number: signal.getsignal(number) for number in handled}
        for number in handled:
            loop.add_signal_handler(number, self._stop.tell, number)
        # From whichever thread, or signal, it is told to stop.
        self._stop.on_told(lambda: loop.call_soon_threadsafe(self._wake, "told"))
        self._line = JournalClient(self._plan.sockets, self._hear, only=("status",))
        beat = loop.create_task(self._beat())
        try:
            return await self._run(steps)
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            self._line.close()
            self._stop.on_told(lambda: None)
            for number in handled:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number] or signal.SIG_DFL)

    async def _run(self, steps: Sequence[Step]) -> Driven:
        reports: list[CellReport] = []
        status: CellStatus = "done"
        reason = ""
        count, number = sum(not step.skipped for step in steps), 0
        for step in steps:
            if step.skipped or status != "done" or self._left:
                reports.append(_report(step, "skipped" if step.skipped else "not run"))
                continue
            number += 1
            self._teller.begun(step, number, count)
            report, reason = await self._cell(step)
            reports.append(report)
            allowed = report.status == "failed" and not self._gone and (self._policy.allow_errors or step.may_fail)
            self._teller.done(report, allowed=allowed)
            status, reason = ("done", "") if allowed else (report.status, reason)
        if self._left and number < count:
            words = f"{count - number} of {count} cells were" if count - number > 1 else f"1 of {count} cells was"
            self._teller.notice(f"The notebook ended its runtime by itself: {words} not run.")
        return Driven(tuple(reports), _as_run(status), reason, alive=not self._gone and not self._deaf)

    async def _cell(self, step: Step) -> tuple[CellReport, str]:
        """How a cell went, and why the run ends with it where it does."""
        begun = time.monotonic()
        what, reply = await self._execute(step)
        report = _report(step, "done", time.monotonic() - begun, reply)
        if what == "told":
            return _as(report, "interrupted"), "it was interrupted"
        if what == "late":
            heeded = "" if not self._deaf else ", and did not heed the interrupt"
            return _as(report, "timeout"), f"it ran longer than {self._policy.timeout:g} s{heeded}"
        if what == "gone" and not self._left:
            return _as(report, "failed"), self._gone
        if report.error is not None:
            return _as(report, "failed"), f"{report.error.name}: {report.error.value}"
        return report, ""

    async def _execute(self, step: Step) -> tuple[_What, dict[str, Any]]:
        what: _What = "done"
        reply: dict[str, Any] = {}
        for _ in range(_TRIES):
            what, reply = await self._send(step)
            if what != "done" or reply.get("status") != "aborted":
                break
            await asyncio.sleep(_AGAIN)
        self._left = self._left or _asks_to_exit(reply)
        return what, reply

    async def _send(self, step: Step) -> tuple[_What, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        if self._gone or self._stop.signum:
            return ("gone" if self._gone else "told"), {}
        request = self._request = _Request(loop.create_future())
        self._line.send("shell", self._message(request.msg_id, step))
        timer = loop.call_later(self._policy.timeout, request.wake, "late") if self._policy.timeout else None
        what = await request.over
        if timer is not None:
            timer.cancel()
        if what in ("late", "told"):
            await self._interrupt(request)
        return what, request.reply or {}

    async def _interrupt(self, request: _Request) -> None:
        """What it had to say to that is heard, and kept; one who does not heed it is ended later."""
        request.over = asyncio.get_running_loop().create_future()
        with suppress(LabError):  # it is gone: nobody has to be interrupted
            await asyncio.to_thread(send_command, self._plan.sockets, "signal", signum=int(signal.SIGINT))
        if self._is_over(request):
            return
        # Whoever asks a second time does not want to wait.
        try:
            what = await asyncio.wait_for(request.over, _HEED)
        except asyncio.TimeoutError:
            what = "deaf"
        self._deaf = what in ("deaf", "told")

    def _message(self, msg_id: str, step: Step) -> list[bytes]:
        header = {
            "msg_id": msg_id,
            "msg_type": "execute_request",
            "session": self._session,
            "username": "",
            "date": format_time(time.time()),
            "version": "5.3",
        }
        content = {
            "code": step.source,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        metadata = {"cellId": step.id, "recordTiming": True}
        return [json.dumps(part).encode() for part in (header, {}, metadata, content)]

    # -- what is heard

    def _wake(self, what: _What) -> None:
        if self._request is not None:
            self._request.wake(what)

    def _hear(self, thing: Hello | Record | Duplicate) -> None:
        if isinstance(thing, Hello):
            if thing.execution_state == "dead":
                self._lose("the kernel is gone")
        elif isinstance(thing, Record):
            if thing.channel == EVENT:
                self._event(parse_object(thing.parts[0]))
            elif not thing.to_kernel and len(thing.parts) >= 4:
                self._message_from_kernel(thing)

    def _event(self, said: dict[str, Any]) -> None:
        if said.get("event") in ("kernel-ended", "ended"):
            why = str(said.get("why"))
            self._left = self._left or why == RELEASED
            self._lose(why if why.startswith("the kernel") else f"its kernel was ended: {why}")

    def _lose(self, why: str) -> None:
        self._gone = self._gone or why
        self._wake("gone")

    def _message_from_kernel(self, record: Record) -> None:
        request = self._request
        parent = parse_header(record.parts[1])
        if request is None or parent is None or parent.msg_id != request.msg_id:
            return
        header = parse_header(record.parts[0])
        kind = header.msg_type if header else ""
        if record.channel == "shell" and kind == "execute_reply":
            request.reply = parse_object(record.parts[3])
        elif record.channel == "iopub" and kind == "status":
            request.idle = parse_object(record.parts[3]).get("execution_state") == "idle"
        if self._is_over(request):
            request.wake("done")

    @staticmethod
    def _is_over(request: _Request) -> bool:
        return request.reply is not None and request.idle

    # -- beside it

    async def _beat(self) -> None:
        """Shows that time passes, writes the output now and then, and sees a supervisor die that could not say so."""
        due = time.monotonic() + _WRITE
        while True:
            await asyncio.sleep(_TICK)
            self._teller.tick()
            if self._supervisor is not None and not is_alive(self._supervisor):
                self._bury()
            if (begun := time.monotonic()) >= due:
                await asyncio.to_thread(self._write)
                took = time.monotonic() - begun
                due = begun + took + max(_WRITE, _SHARE * took)

    def _bury(self) -> None:
        """The supervisor is gone. One that ended as it should has said why on the line, which may not have been heard yet."""
        state = read_state(self._plan.home) or {}
        why = str(state.get("reason", ""))
        if state.get("state") in ("ending", "ended") and why == RELEASED:
            self._event({"event": "ended", "why": why})
        else:
            self._lose("its supervisor died")


def _report(
    step: Step, status: CellStatus, seconds: float | None = None, reply: dict[str, Any] | None = None
) -> CellReport:
    reply = reply or {}
    return CellReport(
        cell=step.cell,
        id=step.id,
        title=step.title,
        status=status,
        seconds=None if seconds is None else round(seconds, 3),
        execution_count=as_count(reply.get("execution_count")),
        error=_error(reply),
    )


def _asks_to_exit(reply: dict[str, Any]) -> bool:
    """`exit()` in a cell: ipykernel ends a moment after it has said so."""
    payload = reply.get("payload")
    told = payload if isinstance(payload, list) else []
    return any(isinstance(one, dict) and one.get("source") == "ask_exit" for one in told)


def _error(reply: dict[str, Any]) -> CellError | None:
    if reply.get("status") != "error":
        return None
    lines = reply.get("traceback")
    lines = tuple(map(str, lines)) if isinstance(lines, list) else ()
    return CellError(str(reply.get("ename", "")), str(reply.get("evalue", "")), lines)


def _as(report: CellReport, status: CellStatus) -> CellReport:
    from msgspec.structs import replace

    return replace(report, status=status)


def _as_run(status: CellStatus) -> RunStatus:
    return status if status in ("done", "timeout", "interrupted") else "failed"
