"""The state of a notebook after all records of its journal: what JupyterLab shows to somebody who was there all the time.

Modelled on JupyterLab 4.6: KernelConnection and its futures (@jupyterlab/services), OutputArea, CodeCell.execute. A cell's
future follows its request until the cell is executed again or the kernel restarts, even after the request has ended.
"""

from __future__ import annotations

from ownlab.config.settings import LabOptions
from ownlab.lab.journal.comms import Comms
from ownlab.lab.journal.death import Death, RecordedDeath
from ownlab.lab.journal.execution import Execution, as_count, format_time
from ownlab.lab.journal.gaps import Gaps
from ownlab.lab.journal.installed_packages import PACKAGES_MESSAGE, Changes, add_changes
from ownlab.lab.journal.json_parts import Header, parse_header, parse_object
from ownlab.lab.journal.outputs import OUTPUT_TYPES, Content, display_id, is_valid_content
from ownlab.lab.journal.records import EVENT, Record
from ownlab.text import unpack_texts

__all__ = ["Execution", "JournalState"]

_OUTPUTS = OUTPUT_TYPES | {"update_display_data", "clear_output"}
# Finished executions without a cell (consoles, other programs): keep this many of the newest.
_KEPT_WITHOUT_CELL = 200
# What JupyterLab shows in place of a password.
_HIDDEN = "········"
_KEPT_DEATHS = 20


class JournalState:
    """The state after the records added to it. `cell_bytes`: about so much is kept of a cell's outputs."""

    def __init__(self, cell_bytes: int = LabOptions().cell_mb << 20) -> None:
        self.output_limit = cell_bytes
        self.position = 0
        self.last_at = 0.0  # of the last record, in seconds since 1970
        self.cut_at = 0  # the number of a death that is not on disk; see `cut`
        self.launch = 0
        self.kernel_session = ""
        self.ended: str | None = None
        # By message id of the request, in order. Executions that a cell has replaced are forgotten when they are done.
        self.executions: dict[str, Execution] = {}
        # The newest execution of each cell id.
        self.by_cell: dict[str, Execution] = {}
        self.comms = Comms(cell_bytes)
        # Kernels that died without being asked to, the newest last.
        self.deaths: list[RecordedDeath] = []
        # Unanswered requests of google.colab to the page: message by colab_msg_id.
        self.asked: dict[str, Content] = {}
        # Packages that cells have installed and removed, and the record of the last change.
        self.packages: Changes = {}
        self.packages_at = 0
        self._packages_when: dict[str, dict[str, int]] = {}
        self.changed_at = 0
        self._kernel_there = False
        self.gaps = Gaps(self)
        # Message ids of the executions that have shown a display id.
        self._shown_by: dict[str, dict[str, None]] = {}

    def packages_after(self, since: int) -> Changes:
        """Packages that cells installed and removed after a record: people may have removed earlier ones from the list."""
        changes: Changes = {}
        for kind, names in self.packages.items():
            when = self._packages_when.get(kind, {})
            add_changes(
                changes, {kind: {name: names[name] for name in names if when.get(name, self.packages_at) > since}}
            )
        return changes

    @property
    def running(self) -> list[Execution]:
        """Executions that are queued or running."""
        return [execution for execution in self.executions.values() if execution.unfinished]

    @property
    def last_death(self) -> RecordedDeath | None:
        """The last death, if no cell was executed since."""
        death = self.deaths[-1] if self.deaths else None
        later = death and any(each.asked_at > death.number and not each.refused for each in self.by_cell.values())
        return None if later else death

    def add(self, record: Record) -> None:
        """Add the next record. Never raises: what JupyterLab cannot read either is ignored."""
        self.position, self.last_at = record.number, record.at
        if record.channel == EVENT:
            self._event(record)
            return
        if len(record.parts) < 4:
            return
        header, parent = parse_header(record.parts[0]), parse_header(record.parts[1])
        if header is None or parent is None:
            return
        if record.to_kernel:
            self._sent(record, header, parent)
        elif record.channel == "iopub":
            self._published(record, header, parent)
        elif header.msg_type == "execute_reply" and record.channel == "shell":
            self._replied(record, header, parent)
        elif header.msg_type == "input_request" and parent.msg_id in self.executions:
            self.executions[parent.msg_id].pending_input = record

    def cut(self, death: Death) -> None:
        """The runtime died without recording its end: end what was running, with the reason in its cells."""
        if self.ended is not None:
            return
        self.ended = str(death.cause())
        if self._kernel_there or self.running:
            # A new number, so that the notes are newer than anything that a page has saved.
            self.position += 1
            self.cut_at = self.position
            record = Record(self.position, EVENT, False, self.last_at, ())
            self._kernel_ended(death, record)
            self._cut_before(self.launch + 2, record)

    def restore_launch(self, launch: int) -> None:
        """Set the number of the kernel, if a compacted journal has lost it."""
        self.launch, self._kernel_there = launch, bool(self.running)

    # Messages to the kernel.

    def _sent(self, record: Record, header: Header, parent: Header) -> None:
        if record.channel == "stdin":
            if header.msg_type == "input_reply":
                self._answered(record, parent)
            return
        self.comms.begin(header.msg_id)
        if header.msg_type == "execute_request":
            self._requested(record, header)
        elif header.msg_type.startswith("comm_"):
            self._comm(record, header.msg_type)

    def _requested(self, record: Record, header: Header) -> None:
        if not header.msg_id or header.msg_id in self.executions:
            return
        head, metadata, content = (
            parse_object(record.parts[0]),
            parse_object(record.parts[2]),
            parse_object(record.parts[3]),
        )
        execution = Execution(record.number, record.at, (head, metadata, content), self.output_limit)
        execution.launch = self.launch if self._kernel_there else self.launch + 1
        self.executions[header.msg_id] = execution
        if execution.cell is None:
            self._forget_without_cell()
            return
        self.replace_in_cell(execution)
        self.changed_at = record.number
        self.gaps.place_notes(execution)

    def replace_in_cell(self, execution: Execution) -> None:
        """The newest execution of its cell: forget the one before."""
        assert execution.cell is not None
        before = self.by_cell.get(execution.cell)
        self.by_cell[execution.cell] = execution
        if before is not None:
            self._stop_following(before)
            if not before.unfinished:
                self._forget(before)

    def _answered(self, record: Record, parent: Header) -> None:
        answer = parse_object(record.parts[3]).get("value")
        if isinstance(answer, dict):  # for google.colab: not shown in a cell
            if answer.get("ack") is not True:
                self.asked.pop(str(answer.get("colab_msg_id")), None)
            return
        waiting = [execution for execution in self.executions.values() if execution.pending_input]
        for execution in waiting:
            question = execution.pending_input
            # JupyterLab replies with the request's header as parent; jupyter_client with none.
            asked = parse_object(question.parts[0]).get("msg_id") if question else None
            if question is None or (parent.msg_id and parent.msg_id != asked):
                continue
            execution.pending_input = None
            content = parse_object(question.parts[3])
            if content.get("password") is True or not isinstance(answer, str):
                answer = _HIDDEN
            if execution.live:
                text = f"{content.get('prompt', '')} {answer}\n"
                execution.outputs.add("stream", {"name": "stdin", "text": text}, len(text))
                self.mark_changed(execution)
            return

    # Messages from the kernel.

    def _published(self, record: Record, header: Header, parent: Header) -> None:
        kind = header.msg_type
        self.kernel_session = header.session or self.kernel_session
        if self.gaps.any:
            self.gaps.recover(record, kind, parent)
        if kind in _OUTPUTS:
            content = parse_object(record.parts[3])
            if is_valid_content(kind, content):
                self._output(kind, content, len(record.parts[3]), parent.msg_id)
        elif kind.startswith("comm_"):
            self._comm(record, kind)
        elif kind == "status":
            self._status(record, header, parent.msg_id)
        elif kind == "execute_input":
            execution = self.executions.get(parent.msg_id)
            if execution is not None:
                if execution.recovered:
                    execution.request[2]["code"] = parse_object(record.parts[3]).get("code", "")
                execution.input_count = as_count(parse_object(record.parts[3]).get("execution_count"))
                self._time(execution, "iopub.execute_input", header, record)
                # Pages that did not send the request learn of it now: if they saved before, they have not cleared its outputs.
                self.mark_changed(execution)
        elif kind == PACKAGES_MESSAGE:
            self._installed(parse_object(record.parts[3]), record.number)
        elif kind == "colab_request":
            name = parse_object(record.parts[2]).get("colab_msg_id")
            if isinstance(name, str) and name:
                parts = ("header", "parent_header", "metadata", "content")
                self.asked[name] = {part: parse_object(record.parts[at]) for at, part in enumerate(parts)}

    def _output(self, kind: str, content: Content, size: int, request: str) -> None:
        display = display_id(content) if kind in ("display_data", "update_display_data", "execute_result") else ""
        if display:
            self._update(display, content, size)
        if kind == "update_display_data":
            return
        if self.comms.capture(request, kind, content, size):
            return
        execution = self.executions.get(request)
        if execution is None or not execution.live:
            return
        if kind == "clear_output":
            execution.outputs.clear(content["wait"])
        else:
            execution.outputs.add(kind, content, size)
            if display and kind == "display_data":
                self._shown_by.setdefault(display, {})[request] = None
        self.mark_changed(execution)

    def _update(self, display: str, content: Content, size: int) -> None:
        """Update outputs with this display id, in other cells too."""
        for request in list(self._shown_by.get(display, ())):
            execution = self.executions.get(request)
            if execution is None or not execution.live:
                del self._shown_by[display][request]
            elif not self.comms.hooked(request) and execution.outputs.update(display, content, size):
                self.mark_changed(execution)

    def _comm(self, record: Record, kind: str) -> None:
        content = parse_object(record.parts[3])
        if kind == "comm_open":
            self.comms.open(content, record.parts[4:])
        elif kind == "comm_msg":
            self.comms.update(content, record.parts[4:], record.to_kernel)
        elif kind == "comm_close":
            self.comms.close(content)

    def _status(self, record: Record, header: Header, request: str) -> None:
        state = parse_object(record.parts[3]).get("execution_state")
        if self.asked and state == "idle":
            self.asked = {
                name: message
                for name, message in self.asked.items()
                if message["parent_header"].get("msg_id") != request
            }
        execution = self.executions.get(request)
        if execution is None:
            if state == "idle":
                self.comms.end(request)
            return
        if state not in ("busy", "idle"):
            return
        self._time(execution, f"iopub.status.{state}", header, record)
        if state == "busy" and execution.state == "queued":
            execution.state, execution.started_at = "running", record.at
            self.gaps.begin(execution, record)
        elif state == "idle" and execution.unfinished:
            execution.idle, execution.pending_input = True, None
            self._finish(execution, record)
            if execution.gap and execution.unfinished:  # its reply may be among what is missing
                self.gaps.finish(execution, record)

    def _replied(self, record: Record, header: Header, parent: Header) -> None:
        execution = self.executions.get(parent.msg_id)
        if execution is None or execution.reply is not None:
            return
        execution.reply, execution.pending_input = record, None
        if execution.place_gap_note():
            self.mark_changed(execution)
        content = execution.reply_content()
        pages = content.get("payload") if content.get("status") == "ok" else None
        pages = [page for page in pages if isinstance(page, dict)] if isinstance(pages, list) else []
        page = next((page for page in pages if page.get("source") == "page"), None)
        if page is not None and execution.live:
            shown = {"data": page.get("data"), "metadata": {}}
            execution.outputs.add("display_data", shown, len(record.parts[3]))
            self.mark_changed(execution)
        self._finish(execution, record)

    def _finish(self, execution: Execution, record: Record) -> None:
        """An execution ends when there are both a reply and an idle status, in either order."""
        if execution.reply is None or not execution.idle or not execution.unfinished:
            return
        content = execution.reply_content()
        execution.end("aborted" if content.get("status") == "aborted" else "done", record.at)
        if execution.cell is None:
            return
        if not execution.live:
            self._forget(execution)
            return
        execution.execution_count = as_count(content.get("execution_count"))
        started = parse_object(execution.reply.parts[2]).get("started")
        if isinstance(started, str) and started:
            execution.timing["shell.execute_reply.started"] = started
        header = parse_header(execution.reply.parts[0])
        execution.timing["shell.execute_reply"] = (header and header.date) or format_time(execution.reply.at)
        execution.counted_at = self.changed_at = record.number

    def _time(self, execution: Execution, label: str, header: Header, record: Record) -> None:
        # An Output widget that captures everything captures these as well.
        if execution.live and not self.comms.hooked(execution.msg_id):
            execution.time(label, header.date or format_time(record.at), record.number)
            if execution.cell is not None and execution.records_timing:
                self.changed_at = record.number

    # Events.

    def _event(self, record: Record) -> None:
        content = unpack_texts(parse_object(record.parts[0])) if record.parts else {}
        what = content.get("event")
        if what == "kernel":
            self._launched(as_count(content.get("launch")) or self.launch + 1, record)
        elif what == "kernel-ended":
            self._kernel_ended(Death.load(content.get("death")), record)
        elif what == "not-run":
            self._not_run(content.get("msg_id"), record)
        elif what == "ended":
            self._cut_before(self.launch + 2, record)
            self.ended = content.get("why") or ""
        elif what in ("lost", "damaged"):
            self.gaps.add(content)
        elif what == "execution":
            execution = Execution.load(content, record.parts[1:], self.output_limit)
            self.executions[execution.msg_id], self.gaps.loading = execution, True
        elif what == "fold":
            self._load(content, record.parts[1:])

    def _kernel_ended(self, death: Death | None, record: Record) -> None:
        """`death`: None if somebody asked for the end; then cells say nothing about it."""
        self._kernel_there = False
        running = [each for each in self.running if each.launch <= self.launch and not each.was_done]
        if death is not None:
            if running and all(execution.state == "queued" for execution in running):
                running[0].state = "running"  # it died before it could say so
            cell = next((execution.cell for execution in running if execution.state == "running"), None)
            self.deaths.append(RecordedDeath(record.number, record.at, self.launch, cell, death))
            del self.deaths[:-_KEPT_DEATHS]
        self._cut_before(self.launch + 1, record)

    def _not_run(self, msg_id: object, record: Record) -> None:
        """A page had asked for an execution before it knew of the last death."""
        execution = self.executions.get(msg_id) if isinstance(msg_id, str) else None
        if execution is not None and execution.unfinished and self.deaths:
            execution.outputs.report(self.deaths[-1].death.note(False))
            self.mark_changed(execution)
            execution.cut(record.at, record.number)

    def _launched(self, launch: int, record: Record) -> None:
        self._cut_before(launch, record)
        for execution in self.executions.values():
            if execution.launch < launch:
                self._stop_following(execution)
        self.launch, self._kernel_there, self.kernel_session = launch, True, ""
        self.ended = None  # a runtime that ended may be restarted with the same id
        self._shown_by.clear()
        hearing = [execution.msg_id for execution in self.running]
        self.comms = self.comms.next_kernel()
        for request in hearing:
            self.comms.begin(request)

    def _cut_before(self, launch: int, record: Record) -> None:
        """Cut all executions of kernels before that launch. If the last kernel died, their cells say so."""
        self.asked.clear()
        death = self.deaths[-1].death if self.deaths and self.deaths[-1].launch == self.launch else None
        for execution in self.running:
            if execution.launch < launch:
                if execution.place_gap_note():
                    self.mark_changed(execution)
                if death is not None and execution.live and not execution.was_done:
                    execution.outputs.report(death.note(execution.state == "running", execution.code))
                    self.mark_changed(execution)
                execution.cut(record.at, record.number)
                if execution.cell is not None:
                    self.changed_at = max(self.changed_at, execution.counted_at)

    def mark_changed(self, execution: Execution) -> None:
        """Its outputs changed with the current record."""
        execution.outputs_at = self.position
        if execution.cell is not None:
            self.changed_at = self.position

    def _installed(self, content: Content, number: int) -> None:
        changes: Changes = {}
        if add_changes(changes, content):
            add_changes(self.packages, changes)
            self.packages_at = self.changed_at = number
            for kind, names in changes.items():
                self._packages_when.setdefault(kind, {}).update(dict.fromkeys(names, number))

    def _stop_following(self, execution: Execution) -> None:
        execution.live = False
        self.comms.end(execution.msg_id)
        for display in execution.display_ids:
            self._shown_by.get(display, {}).pop(execution.msg_id, None)

    def _forget(self, execution: Execution) -> None:
        self.executions.pop(execution.msg_id, None)
        self.gaps.ignore(execution.msg_id)

    def _forget_without_cell(self) -> None:
        finished = [
            execution for execution in self.executions.values() if execution.cell is None and not execution.unfinished
        ]
        for execution in finished[: max(0, len(finished) - _KEPT_WITHOUT_CELL)]:
            self._stop_following(execution)
            self._forget(execution)

    # Compaction: see compacted_records.

    def dump(self) -> tuple[Content, list[bytes]]:
        """Return everything except the executions, as JSON and buffers."""
        comms, buffers = self.comms.dump()
        names = ["launch", "kernel_session", "ended", "changed_at", "asked", "packages", "packages_at"]
        names += ["_packages_when", "_kernel_there"]
        cells = {cell: execution.msg_id for cell, execution in self.by_cell.items()}
        return {
            "comms": comms,
            "cells": cells,
            "gaps": self.gaps.dump(),
            "deaths": [each.dump() for each in self.deaths],
            **{name: getattr(self, name) for name in names},
        }, buffers

    def _load(self, state: Content, buffers: tuple[bytes, ...]) -> None:
        self.comms = Comms(self.output_limit)
        self.comms.load(state.pop("comms"), buffers)
        cells = state.pop("cells")
        self.gaps.load(state.pop("gaps", {}), cells, state["launch"], self.output_limit)
        self.by_cell = {cell: self.executions[request] for cell, request in cells.items()}
        self.deaths = list(map(RecordedDeath.load, state.pop("deaths", ())))  # journals of earlier versions have none
        del state["event"]
        for name, value in state.items():
            setattr(self, name, value)
        for execution in self.executions.values():
            for display in execution.display_ids if execution.live else ():
                self._shown_by.setdefault(display, {})[execution.msg_id] = None
