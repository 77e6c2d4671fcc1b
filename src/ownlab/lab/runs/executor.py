"""Sends a notebook's cells to its runtime, one after the other, and waits for each to end."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from ownlab.errors import LabError
from ownlab.lab.journal.execution import as_count, format_time
from ownlab.lab.journal.json_parts import parse_header, parse_object
from ownlab.lab.journal.records import EVENT, Record
from ownlab.lab.runs.live_output import LiveOutput
from ownlab.lab.runs.preparation import Step
from ownlab.lab.runs.records import CellError, CellReport, CellStatus, RunStatus
from ownlab.lab.runs.reporter import Reporter, Stop
from ownlab.lab.runs.unbroken_line import UnbrokenLine
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import is_alive, read_state
from ownlab.lab.transport.control import NotAnswering, send_command
from ownlab.lab.transport.journal_client import Hello, JournalMessage
from ownlab.lab.transport.journal_protocol import RELEASED
from ownlab.text import in_english, plural, text, unpack_texts

__all__ = ["ExecutionResult", "Executor", "Policy"]

# Seconds.
_INTERRUPT_SECONDS = 10.0  # for a cell to react to an interrupt
_TICK_SECONDS = 1.0
_WRITE_SECONDS = 4.0  # between two writes of the output, at least
_WRITE_SHARE = 20  # and at least this many times the duration of the last write
# A cell of another client failed in the same kernel, which aborted ours before it began.
_RETRY_SECONDS, _TRIES = 0.2, 50

_Ending = Literal["done", "kernel-ended", "timeout", "stopped", "unresponsive"]


class Policy(NamedTuple):
    """How cells are run."""

    timeout: float | None = None
    allow_errors: bool = False


class ExecutionResult(NamedTuple):
    """How far the run came."""

    cells: tuple[CellReport, ...]
    status: RunStatus
    reason: str  # why it is not done
    alive: bool  # the kernel is alive and idle


class _Request:
    """An execution; it is over when both its reply and its idle status have arrived."""

    def __init__(self, over: asyncio.Future[_Ending]) -> None:
        self.msg_id = uuid.uuid4().hex
        self.over = over
        self.reply: dict[str, Any] | None = None
        self.idle = False

    def wake(self, ending: _Ending) -> None:
        if not self.over.done():
            self.over.set_result(ending)


class Executor:
    """Runs the cells of one run, in its own event loop."""

    def __init__(self, plan: Plan, policy: Policy, reporter: Reporter, write: Callable[[], None], stop: Stop) -> None:
        self._plan, self._policy, self._reporter, self._write, self._stop = plan, policy, reporter, write, stop
        self._session = uuid.uuid4().hex
        self._supervisor = (read_state(plan.home) or {}).get("supervisor")
        self._request: _Request | None = None
        self._kernel_end = ""  # why the kernel ended
        self._released = False  # a cell called exit() or runtime.unassign(): a normal end
        self._ignored_interrupt = False
        self.language_info: dict[str, Any] | None = None  # of the kernel, once it has answered

    async def run(self, steps: Sequence[Step], signals: Iterable[int] = ()) -> ExecutionResult:
        """Run until the last cell is done, or a cell ends the run."""
        loop = asyncio.get_running_loop()
        handled = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]  # ignored under nohup
        before = {number: signal.getsignal(number) for number in handled}
        for number in handled:
            loop.add_signal_handler(number, self._stop.request, number)
        # The request may come from any thread or signal handler.
        self._stop.on_request(lambda: loop.call_soon_threadsafe(self._wake, "stopped"))
        self._line = UnbrokenLine(self._plan, self._receive, only=("status",))
        self._output = LiveOutput(self._plan, self._reporter) if self._reporter.shows_output else None
        beat = loop.create_task(self._heartbeat())
        try:
            return await self._run(steps)
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)
            self._line.close()
            if self._output is not None:
                self._output.close()
            self._stop.on_request(lambda: None)
            for number in handled:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number] or signal.SIG_DFL)

    async def _run(self, steps: Sequence[Step]) -> ExecutionResult:
        reports: list[CellReport] = []
        status: CellStatus = "done"
        reason = ""
        count, number = sum(not step.skipped for step in steps), 0
        self._line.send("shell", _message(self._header("kernel_info_request"), {}, {}))
        for step in steps:
            if step.skipped or status != "done" or self._released:
                reports.append(_report(step, "skipped" if step.skipped else "not run"))
                continue
            number += 1
            self._reporter.begun(step, number, count)
            report, reason = await self._cell(step)
            reports.append(report)
            allowed = (
                report.status == "failed" and not self._kernel_end and (self._policy.allow_errors or step.may_fail)
            )
            self._reporter.done(report, allowed=allowed)
            status, reason = ("done", "") if allowed else (report.status, reason)
        if self._released and number < count:
            self._reporter.notice(
                plural(
                    count - number,
                    "The notebook ended its runtime: 1 of {count} cells was not run.",
                    "The notebook ended its runtime: {n} of {count} cells were not run.",
                    count=count,
                )
            )
        return ExecutionResult(
            tuple(reports), _as_run(status), reason, alive=not self._kernel_end and not self._ignored_interrupt
        )

    async def _cell(self, step: Step) -> tuple[CellReport, str]:
        """Return the report of a cell, and why the run ends with it (otherwise "")."""
        begun = time.monotonic()
        ending, reply = await self._execute(step)
        report = _report(step, "done", time.monotonic() - begun, reply)
        if ending == "stopped":
            return _as(report, "interrupted"), text("it was interrupted")
        if ending == "timeout":
            return _as(report, "timeout"), self._timeout_reason()
        if ending == "kernel-ended" and not self._released:
            return _as(report, "failed"), self._kernel_end
        if report.error is not None:
            return _as(report, "failed"), f"{report.error.name}: {report.error.value}"
        return report, ""

    def _timeout_reason(self) -> str:
        seconds = self._policy.timeout
        if self._ignored_interrupt:
            return text("it ran longer than {seconds:g} s and did not react to the interrupt", seconds=seconds)
        return text("it ran longer than {seconds:g} s", seconds=seconds)

    async def _execute(self, step: Step) -> tuple[_Ending, dict[str, Any]]:
        ending: _Ending = "done"
        reply: dict[str, Any] = {}
        for _ in range(_TRIES):
            ending, reply = await self._send(step)
            if ending != "done" or reply.get("status") != "aborted":
                break
            await asyncio.sleep(_RETRY_SECONDS)
        self._released = self._released or _asks_to_exit(reply)
        return ending, reply

    async def _send(self, step: Step) -> tuple[_Ending, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        if self._kernel_end or self._stop.signum:
            return ("kernel-ended" if self._kernel_end else "stopped"), {}
        request = self._request = _Request(loop.create_future())
        if self._output is not None:
            await self._output.follow(request.msg_id)
        self._line.send("shell", self._message(request.msg_id, step))
        timer = loop.call_later(self._policy.timeout, request.wake, "timeout") if self._policy.timeout else None
        ending = await request.over
        if timer is not None:
            timer.cancel()
        if ending in ("timeout", "stopped"):
            await self._interrupt(request)
        if self._output is not None:
            if not request.idle:
                self._output.give_up()
            await self._output.finish()
        return ending, request.reply or {}

    async def _interrupt(self, request: _Request) -> None:
        """Interrupt the cell and keep what it still prints; a kernel that does not react is ended later."""
        request.over = asyncio.get_running_loop().create_future()
        await self._signal(signal.SIGINT)
        if self._is_over(request):
            return
        # A second request does not wait.
        try:
            ending = await asyncio.wait_for(request.over, _INTERRUPT_SECONDS)
        except asyncio.TimeoutError:
            ending = "unresponsive"
        self._ignored_interrupt = ending in ("unresponsive", "stopped")

    async def _signal(self, signum: int) -> None:
        """Send a signal to the kernel. On a node its relay may just be started again, which then takes it."""
        deadline = time.monotonic() + _INTERRUPT_SECONDS
        while not await asyncio.to_thread(self._is_sent, signum):
            if self._plan.node is None or self._kernel_end or time.monotonic() > deadline:
                return
            await asyncio.sleep(_RETRY_SECONDS)

    def _is_sent(self, signum: int) -> bool:
        """Send a signal. False if nobody listens; True also if there is nothing to interrupt any more."""
        try:
            send_command(self._plan.control_endpoint, "signal", signum=int(signum))
        except NotAnswering:
            return False
        except LabError:
            return True
        return True

    def _message(self, msg_id: str, step: Step) -> list[bytes]:
        content = {
            "code": step.source,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        metadata = {"cellId": step.id, "recordTiming": True}
        return _message(self._header("execute_request", msg_id), metadata, content)

    def _header(self, msg_type: str, msg_id: str = "") -> dict[str, str]:
        return {
            "msg_id": msg_id or uuid.uuid4().hex,
            "msg_type": msg_type,
            "session": self._session,
            "username": "",
            "date": format_time(time.time()),
            "version": "5.3",
        }

    # -- received messages

    def _wake(self, ending: _Ending) -> None:
        if self._request is not None:
            self._request.wake(ending)

    def _receive(self, thing: JournalMessage) -> None:
        if isinstance(thing, Hello):
            if thing.execution_state == "dead":
                self._kernel_lost(text("the kernel has ended"))
        elif isinstance(thing, Record):
            if thing.channel == EVENT:
                self._event(unpack_texts(parse_object(thing.parts[0])))
            elif not thing.to_kernel and len(thing.parts) >= 4:
                self._message_from_kernel(thing)

    def _event(self, event: dict[str, Any]) -> None:
        if event.get("event") in ("kernel-ended", "ended"):
            why: str = event.get("why") or ""
            self._released = self._released or why == RELEASED
            self._kernel_lost(
                why if in_english(why).startswith("the kernel") else text("its kernel was ended: {reason}", reason=why)
            )

    def _kernel_lost(self, why: str) -> None:
        self._kernel_end = self._kernel_end or why
        self._wake("kernel-ended")

    def _message_from_kernel(self, record: Record) -> None:
        request = self._request
        if record.channel == "shell" and b'"kernel_info_reply"' in record.parts[0]:
            self.language_info = parse_object(record.parts[3]).get("language_info") or self.language_info
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

    # -- in the background

    async def _heartbeat(self) -> None:
        """Report the elapsed time, write the output from time to time, and notice a killed supervisor."""
        due = time.monotonic() + _WRITE_SECONDS
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._reporter.tick()
            if self._supervisor is not None and not is_alive(self._supervisor) and not self._may_be_replaced():
                self._supervisor_died()
            if (begun := time.monotonic()) >= due:
                await asyncio.to_thread(self._write)
                duration = time.monotonic() - begun
                due = begun + duration + max(_WRITE_SECONDS, _WRITE_SHARE * duration)

    def _may_be_replaced(self) -> bool:
        """Whether it is a relay, whose keeper starts another one: the job on the node goes on."""
        state = (read_state(self._plan.home) or {}) if self._plan.node is not None else {}
        if is_alive(state.get("supervisor")):
            self._supervisor = state["supervisor"]
            return True
        return state.get("state") not in ("ending", "ended") and is_alive(state.get("keeper"))

    def _supervisor_died(self) -> None:
        """Handle the end of the supervisor. After a normal end its last message may not have been read yet."""
        state = read_state(self._plan.home) or {}
        why = state.get("reason")
        if state.get("state") in ("ending", "ended") and why == RELEASED:
            self._event({"event": "ended", "why": why})
        elif self._plan.node is None:
            self._kernel_lost(text("its supervisor died"))
        else:
            self._line.read_rest()  # it may say how the job has ended
            self._kernel_lost(text("the connection to its node is lost: the process that had it was killed"))


def _message(header: dict[str, str], metadata: dict[str, Any], content: dict[str, Any]) -> list[bytes]:
    return [json.dumps(part).encode() for part in (header, {}, metadata, content)]


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
    """Whether a cell called `exit()`: ipykernel ends a moment later."""
    payload = reply.get("payload")
    messages = payload if isinstance(payload, list) else []
    return any(isinstance(message, dict) and message.get("source") == "ask_exit" for message in messages)


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
