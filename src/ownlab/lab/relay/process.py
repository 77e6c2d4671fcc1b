"""The relay of one runtime: it makes all decisions and never waits, except for the answer of the node to a command."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import zmq

from ownlab.errors import LabError, StoreError
from ownlab.lab.engines.interface import JobStatus
from ownlab.lab.engines.job_end import END_FILE
from ownlab.lab.journal.death import Death
from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import EVENT, Record, json_object
from ownlab.lab.relay.event_loop import run_loop
from ownlab.lab.relay.job_files import job_folder, node_journal, read_node_file
from ownlab.lab.relay.job_watcher import JobWatcher, NotSubmitted, Submitted
from ownlab.lab.relay.local_channels import LocalChannels
from ownlab.lab.relay.mirror import Mirror
from ownlab.lab.relay.node_figures import NodeDeadline, NodeFigures
from ownlab.lab.relay.node_line import Listener, NodeLine
from ownlab.lab.runtimes import state
from ownlab.lab.runtimes.end_request import read_end_request
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.store.rows import Process
from ownlab.lab.supervisor.bootstrap import runtime_row
from ownlab.lab.supervisor.job_address import read_address
from ownlab.lab.supervisor.process_tree import identify, signal_when_parent_dies
from ownlab.lab.supervisor.registration import Registration
from ownlab.lab.supervisor.state_writer import FAILED, LEFT, StateWriter, initial_state, log
from ownlab.lab.transport.endpoints import Endpoint
from ownlab.lab.transport.journal_server import ClientMessage
from ownlab.lab.transport.outbox import Outbox
from ownlab.text import text

__all__ = ["Relay", "run_relay"]

# Seconds.
_LOOK = 0.1  # between looks for the address of a job that was just submitted, or runs
_LOOK_LATER = 1.0  # the same, for one that waits in the queue
_SOON = 15.0  # an idle cluster starts a job within so many seconds
_SILENT = 10.0  # after which the journal of a job that has ended is read from the shared folder
_ENDS_WITHIN = 20.0  # for a job to end by itself after its runtime has
_NOW_WITHIN = 5.0  # the same, for one that is ended at once
_CANCEL_AGAIN = 15.0  # the controller of the cluster may be away
_LEAVES_WITHIN = 1.0  # after a SIGTERM
_COMMAND = 8.0
_LONG_COMMAND = 55.0  # a kernel is ended, and another one started


def run_relay(plan: Plan, keeper: Process, lock: int, watcher: JobWatcher) -> int:
    """Stand for the runtime until it has ended. Return the exit code: 0, or FAILED. `watcher` may have been started."""
    signal_when_parent_dies(signal.SIGKILL)
    if os.getppid() != keeper.pid:
        return 1
    own = identify(os.getpid())
    registration = Registration(plan.store, runtime_row(plan, keeper, own), lock)
    try:
        registration.enqueue()
        registration.acquire(())
    except StoreError as exc:
        log(f"not in the store yet: {exc.message}")
    writer = StateWriter(
        plan, registration, {**initial_state(plan, keeper, own), "node": {"name": "", "kernel": False}}
    )
    relay = Relay(plan, writer, watcher)
    run_loop(relay)
    if relay.exit_code == LEFT:
        relay.close_here()
    else:
        relay.close()
    registration.close()
    return relay.exit_code or 0


class Relay:
    """The state of the runtime, as far as it is known here."""

    def __init__(self, plan: Plan, writer: StateWriter, watcher: JobWatcher) -> None:
        self.plan, self.writer = plan, writer
        self.poller = zmq.Poller()
        self.mirror = Mirror(plan)
        self.channels = LocalChannels(plan, self.poller, self.mirror, self._forward)
        self.outbox = Outbox(plan.home)
        self.watcher = watcher
        self.line: NodeLine | None = None
        self._figures, self._deadline = NodeFigures(), NodeDeadline(writer)
        self.exit_code: int | None = None  # set when the runtime is over
        self.changed_at = time.time()
        self.busy = False
        self._held: list[ClientMessage] = []  # until there is a node
        self._status: JobStatus | None = None
        self._ending = self._wanted_end = ""  # the second: somebody wanted it while there was no relay
        self._first_kernel_at = 0.0
        self._look_at: float | None = None
        self._submitted_at = 0.0
        self._cancel_at: float | None = None
        self._end_at: float | None = None  # unless we leave before
        self._end_why = ""

    def open(self) -> None:
        """Clients may connect; the job is submitted, or found again."""
        self._read_mirror()
        has_kernel = self.mirror.launch > 0 and not self.mirror.kernel_ended
        now = "running" if has_kernel else "waiting"
        node = {**self.writer.state["node"], "kernel": has_kernel}
        self.writer.update_state(connection=self.channels.connection, state=now, launches=self.mirror.launch, node=node)
        self.writer.update_row(now=True, state=now, **({"started_at": self._started_at()} if has_kernel else {}))
        if self.mirror.has_ended:  # an earlier relay was killed at the end
            self._over(text("it has ended"))
            return
        self._wanted_end = self._ending = read_end_request(self.plan)
        self.watcher.start()
        if self._ending:  # an earlier relay could not
            self.writer.update_state(state="ending", reason=self._ending)
            self._cancel_at = time.monotonic()

    def _read_mirror(self) -> None:
        """Learn from what an earlier relay has written."""
        recorded = set()
        for record in records_after(Path(self.plan.journal), 0):
            self.mirror.note(record)
            self.channels.note(record)
            if record.to_kernel:
                recorded.add(str(json_object(record.parts[0]).get("msg_id")))
        self._held = self.outbox.load(recorded)
        self.busy = self.channels.inspector.busy

    # -- the job

    def read_news(self) -> None:
        """Take what the watcher has learnt."""
        for news in self.watcher.news():
            if isinstance(news, NotSubmitted):
                self.finish(str(news), Death("limit", reason=str(news)))
                self.exit_code = FAILED  # whoever starts it reads the reason
            elif isinstance(news, Submitted):
                self._submitted_at = self._look_at = time.monotonic()
                self.writer.update_state(node={**self.writer.state["node"], "submitted": True})
            else:
                self._take_status(news)

    def _take_status(self, status: JobStatus) -> None:
        self._status = status
        if status.has_ended:
            self._look_at = time.monotonic()
        elif status.state == "running":
            self._note_node(status.nodes)
            if self.line is None:
                self._look_at = time.monotonic()
            else:
                self._deadline.tell(self.line, status)
        elif self.writer.state["state"] == "waiting" and self.writer.state["reason"] != status.reason:
            self.writer.update_state(reason=status.reason)
            self.writer.update_row(now=True, ends_why=status.reason)

    def _note_node(self, nodes: tuple[str, ...]) -> None:
        name = ", ".join(nodes)
        if name and self.writer.state["node"]["name"] != name:
            self.writer.update_state(node={**self.writer.state["node"], "name": name})
        if self.line is None and self.writer.state["state"] == "waiting":
            self.writer.update_state(reason=text("its job starts on {node}", node=name))
            self.writer.update_row(now=True, ends_why="")

    def _look(self, now: float) -> None:
        """Look for the address of a node, or whether a job that has ended has left records."""
        waits = self._status is None or self._status.state != "running"
        self._look_at = now + (_LOOK_LATER if waits and now - self._submitted_at > _SOON else _LOOK)
        if self._status is not None and self._status.has_ended:
            if self.line is None or now - self.line.heard_at > _SILENT or self._job_is_over():
                self._read_rest()
                self._finish_after_job(self._status)
            return
        if self.line is not None:
            self._look_at = None
            return
        found = read_address(job_folder(self.plan))
        if found is not None:
            self._note_node((found[1],))  # the cluster, which is asked every few seconds, may not have said so yet
            self._connect(found[0])

    def _connect(self, url: str) -> None:
        try:
            given = read_node_file(job_folder(self.plan))
        except LabError as exc:
            log(f"the node cannot be reached: {exc.message}")
            return
        listener = Listener(
            position=lambda: self.mirror.position,
            record=self._take,
            flush=self._flush,
            duplicate=self._not_forwarded,
            has_pages=self.channels.has_pages,
        )
        self.line = NodeLine(self.channels.context, Endpoint(url, given.public_key, given.secret_key), listener)
        self.poller.register(self.line.socket, zmq.POLLIN)
        held, self._held = self._held, []
        for message in held:
            self.line.send(message)
        if self._status is not None:
            self._deadline.tell(self.line, self._status)

    def _job_is_over(self) -> bool:
        return os.path.exists(os.path.join(job_folder(self.plan), END_FILE))

    def _read_rest(self) -> None:
        """Read what the node has written and the line has not brought."""
        try:
            for record in records_after(Path(node_journal(self.plan)), self.mirror.position, final=True):
                self._take(record)
        except OSError as exc:
            log(f"the journal of the node cannot be read: {exc}")
        self._flush()

    def _finish_after_job(self, status: JobStatus) -> None:
        if self.exit_code is not None:
            return
        why = self._ending or status.reason or text("its job has ended")
        self.finish(why, None if self._ending else Death("limit", reason=why))

    # -- records

    def _take(self, record: Record) -> None:
        self.mirror.append(record)

    def _flush(self) -> None:
        """Write what was taken, then pass it on."""
        records = self.mirror.write()
        # Not before they are written: a page that is opened looks for its cells in the outbox, then in the mirror.
        for record in records:
            if record.to_kernel:
                self.outbox.remove(str(json_object(record.parts[0]).get("msg_id")))
        self.channels.publish(records)
        for record in records:
            self.channels.deliver(record)
            if record.channel == EVENT:
                self._take_event(json_object(record.parts[0]))
        if records:
            self._note_activity()

    def _take_event(self, event: dict[str, Any]) -> None:
        what, node = event.get("event"), self.writer.state["node"]
        if what == "kernel":
            launch = int(event.get("launch") or 0)
            changes = {"state": "starting", "reason": "", "exit_code": None, "launches": launch}
            self.writer.update_state(**changes, node={**node, "kernel": True})
            self.writer.update_row(now=True, state="starting", started_at=self._started_at())
        elif what == "kernel-ended":
            self.writer.update_state(state="dead", reason=str(event.get("why") or ""), exit_code=1,
                                     node={**node, "kernel": False})  # fmt: skip
            self.writer.update_row(now=True, state="starting")
        elif what == "ended":
            self._over(str(event.get("why") or ""))

    def _started_at(self) -> float:
        """When its first kernel started, as far as this relay knows."""
        self._first_kernel_at = self._first_kernel_at or time.time()
        return self._first_kernel_at

    def _note_activity(self) -> None:
        inspector = self.channels.inspector
        if inspector.kernel_spoke and self.writer.state["state"] == "starting":
            self.writer.update_state(state="running")
            self.writer.update_row(now=True, state="running")
        if inspector.busy != self.busy:
            self.busy, self.changed_at = inspector.busy, time.time()
            self.writer.update_row(busy=self.busy, changed_at=self.changed_at)
        self.mirror.compact()

    # -- timers

    def due(self) -> float:
        """When `check` must be called, even if nothing happens."""
        times = [
            self._look_at,
            self._cancel_at,
            self._end_at,
            self.writer.due(),
            self.mirror.due(),
            self.channels.due(),
        ]
        if self.line is not None:
            times.append(self.line.due())
        return min(at for at in times if at is not None)

    def check(self, now: float) -> None:
        """Do what is due."""
        if self._look_at is not None and now >= self._look_at:
            self._look(now)
        if self._end_at is not None and now >= self._end_at:
            self._end_at = None
            self.end(self._end_why, now=False)
        if self._cancel_at is not None and now >= self._cancel_at:
            self._cancel_at = now + _CANCEL_AGAIN if self._wanted_end else None
            self.watcher.cancel("end", self._ending)
        if self.line is not None:
            self.line.check(now)
        if now >= self.writer.due():
            self.writer.flush(now)
        self.mirror.check(now)
        self.channels.check(now)

    def reap(self) -> None:
        """Reap a compaction."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.mirror.compaction:
                self.mirror.compaction_ended(os.waitstatus_to_exitcode(status))

    # -- messages and commands

    def _forward(self, message: ClientMessage) -> None:
        if not self.outbox.add(message):
            self.channels.reject(message)
        elif self.line is not None:
            self.line.send(message)
        else:
            self._held.append(message)

    def _not_forwarded(self, message: ClientMessage) -> None:
        """The node has it already, or nobody there waits for it."""
        self.outbox.remove(message.name)
        self.channels.reject(message)

    def command(self, request: dict[str, Any]) -> dict[str, Any]:
        """Have the supervisor on the node do something. NotAnswering if it cannot be reached, LabError if it refuses."""
        if self.line is None:
            raise LabError(text("the runtime is {state}", state=self.writer.state["state"]))
        relaunches = request.get("do") == "relaunch"
        launches = self.writer.state["launches"]
        answer = self.line.command(request, _LONG_COMMAND if relaunches else _COMMAND)
        deadline = time.monotonic() + _COMMAND
        self._deadline.take(answer)
        while relaunches and self.writer.state["launches"] == launches and time.monotonic() < deadline:
            self.line.socket.poll(100)
            self.line.receive()  # the new kernel is in the journal
        return answer

    def rename(self, notebook: str) -> None:
        """Record the new path of the notebook."""
        self.writer.update_row(now=True, notebook=notebook)
        self.mirror.rename(notebook)

    def end(self, why: str, *, now: bool) -> None:
        """End the runtime: with time for on_end, or at once."""
        first, self._ending = not self._ending, self._ending or why
        self.writer.update_state(state="ending", reason=self._ending)
        self.writer.update_row(now=True, state="ending", ends_why=self._ending)
        if self.line is None or not first:
            self._cancel_at = None
            self.watcher.cancel("end", self._ending)
            if self.line is None:
                self.finish(self._ending, None)
            return
        self._cancel_at = time.monotonic() + (_NOW_WITHIN if now else self.plan.limits.on_end + _ENDS_WITHIN)
        try:
            self.line.command({"do": "end", "why": why, "now": now}, _COMMAND if not now else _NOW_WITHIN)
        except LabError as exc:
            log(f"the node does not end the runtime: {exc.message}")
            self._cancel_at = None
            self.watcher.cancel("end", self._ending)
            if now:
                self.finish(self._ending, None)

    def end_soon(self, why: str) -> None:
        """End the runtime in a moment, unless we are told to leave."""
        self._end_at, self._end_why = time.monotonic() + _LEAVES_WITHIN, why

    def leave(self) -> None:
        """This process ends, and the job goes on: the next relay follows it."""
        log("leaves its job to the next relay")
        self.writer.update_state(state=state.LEFT)
        self.exit_code = LEFT

    def finish(self, why: str, death: Death | None) -> None:
        """The runtime has ended, and its node has not said so."""
        if not self.mirror.has_ended:
            for message in self.outbox.messages() if death else ():  # cells that the kernel did not get say why
                self.mirror.add(message.channel, True, message.parts)
            self.mirror.add_end(why, death)
            self._flush()
        self._over(why)

    def _over(self, why: str) -> None:
        if self.exit_code is None:
            log(f"ends: {why}")
            self.writer.update_state(state="ending", reason=why)
            self.exit_code = 0

    def status(self) -> dict[str, Any]:
        """The answer to {"do": "status"}."""
        inspector = self.channels.inspector
        return {
            **self.writer.state,
            "execution_state": "dead" if self.writer.state["state"] == "dead" else inspector.execution_state,
            "last_activity": inspector.last_activity,
            "busy": self.busy,
            "changed_at": self.changed_at,
            **self._deadline.status(self.plan.limits.warn),
            "kernel_info": inspector.kernel_info,
            "trouble": self.writer.trouble or self.mirror.trouble or self.outbox.trouble,
        }

    def usage(self) -> dict[str, Any]:
        """The answer to {"do": "usage"}: the node, the numbers of its cards there, and what it uses, if that is known."""
        cards = self._status.cards if self._status is not None and self._status.state == "running" else ()
        figures = self._figures.ask(self.line)
        return {"node": self.writer.state["node"]["name"], "cards": list(cards), "usage": figures}

    def close_here(self) -> None:
        """Write the last entries, and end all connections."""
        if self.line is not None:
            self.poller.unregister(self.line.socket)
            self.line.close()
        self.channels.close()
        self.mirror.close()

    def close(self) -> None:
        """The runtime is over. The job ends by itself, or is cancelled."""
        self.close_here()
        self._end_job()
        self.watcher.stop()
        self.writer.update_state(state="ended")
        self.outbox.clear()
        shutil.rmtree(job_folder(self.plan), ignore_errors=True)

    def _end_job(self) -> None:
        deadline = time.monotonic() + _ENDS_WITHIN
        is_over = self._status is not None and self._status.has_ended
        never_ran = self.line is None
        while not (is_over or never_ran or self._job_is_over()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not is_over and not self._job_is_over():
            cancelling: threading.Thread = self.watcher.cancel("end", self._ending or text("its notebook has ended"))
            cancelling.join(_ENDS_WITHIN)
