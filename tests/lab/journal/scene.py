"""Messages between a kernel and a page: as records of a journal, and as steps for JupyterLab's own code."""

from __future__ import annotations

import json
import random
from typing import Any

from ownlab.lab.journal.records import Record, event
from ownlab.lab.journal.state import JournalState

__all__ = ["Scene", "fold_of", "random_scene"]

Step = list[Any]


class Scene:
    """`records` and `steps` grow together; a record that a page does not hear of has the step []."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.steps: list[Step] = []
        self.launch = 0
        self._requests: dict[str, dict[str, str]] = {}  # header by message id
        self.restart()

    def restart(self) -> None:
        """A new kernel; the first one too."""
        if self.launch:
            self._add(event(self._number, self._at, "kernel-ended", why="restarted"), ["restart"])
        self.launch += 1
        self._add(event(self._number, self._at, "kernel", launch=self.launch), [])

    def event(self, what: str, **more: object) -> None:
        """Something that is not a message."""
        self._add(event(self._number, self._at, what, **more), [])

    def execute(self, cell: str | None, **more: Any) -> str:
        """A page executes a cell."""
        metadata = {"recordTiming": True, **more} if cell is None else {"cellId": cell, "recordTiming": True, **more}
        return self._request("execute", "execute_request", metadata, {"code": "x", "silent": False})

    def call(self, comm: str, data: dict[str, Any]) -> str:
        """A page says something on a comm."""
        return self._request("comm", "comm_msg", {}, {"comm_id": comm, "data": data})

    def add_message(
        self, kind: str, parent: str, content: dict[str, Any], channel: str = "iopub", **metadata: Any
    ) -> str:
        """The kernel says something."""
        header = self._header(kind, f"kernel-{self.launch}")
        parts = (header, self._requests.get(parent, {"msg_id": parent}), metadata, content)
        message = dict(zip(("header", "parent_header", "metadata", "content"), parts, strict=True))
        self._add(self._record(channel, False, *parts), ["message", {"channel": channel, **message}])
        return str(header["msg_id"])

    def stream(self, parent: str, text: str, name: str = "stdout") -> None:
        """The kernel prints."""
        self.add_message("stream", parent, {"name": name, "text": text})

    def display(self, parent: str, text: str, display: str = "", kind: str = "display_data", **more: Any) -> None:
        """The kernel shows something."""
        content = {"data": {"text/plain": text}, "metadata": {}, **more}
        if display:
            content["transient"] = {"display_id": display}
        self.add_message(kind, parent, content)

    def begin(self, parent: str) -> None:
        """The kernel begins with a request."""
        self.add_message("status", parent, {"execution_state": "busy"})
        self.add_message("execute_input", parent, {"code": "x", "execution_count": len(self.records)})

    def reply(self, parent: str, status: str = "ok", **more: Any) -> None:
        """The kernel answers a request."""
        count = {} if status == "aborted" else {"execution_count": len(self.records)}
        started = {"started": f"started {len(self.records)}"}
        self.add_message("execute_reply", parent, {"status": status, **count, **more}, "shell", **started)

    def idle(self, parent: str) -> None:
        """The kernel is done with a request."""
        self.add_message("status", parent, {"execution_state": "idle"})

    def finish(self, parent: str) -> None:
        """Both, as usual."""
        self.reply(parent)
        self.idle(parent)

    def ask(self, parent: str, prompt: str, password: bool = False) -> str:
        """The kernel waits for an answer."""
        return self.add_message("input_request", parent, {"prompt": prompt, "password": password}, "stdin")

    def answer(self, cell: str, question: str, value: str, password: bool = False) -> None:
        """A page answers. What is typed as a password is not in the journal."""
        content = {"value": None if password else value}
        record = self._record("stdin", True, self._header("input_reply", "page"), {"msg_id": question}, {}, content)
        self._add(record, ["answer", {"cell": cell, "value": value}])

    def widget(self, comm: str, parent: str, **state: Any) -> None:
        """The kernel opens an Output widget."""
        whole = {"_model_name": "OutputModel", "_model_module": "@jupyter-widgets/output", "msg_id": "", "outputs": []}
        content = {"comm_id": comm, "target_name": "jupyter.widget", "data": {"state": {**whole, **state}}}
        self.add_message("comm_open", parent, content)

    def update(self, comm: str, parent: str, **state: Any) -> None:
        """The kernel changes a widget."""
        data = {"method": "update", "state": state, "buffer_paths": []}
        self.add_message("comm_msg", parent, {"comm_id": comm, "data": data})

    @property
    def _number(self) -> int:
        return len(self.records) + 1

    @property
    def _at(self) -> float:
        return 1_700_000_000.0 + self._number

    def _add(self, record: Record, step: Step) -> None:
        self.records.append(record)
        self.steps.append(step)

    def _header(self, kind: str, session: str) -> dict[str, str]:
        number = self._number
        names = ("msg_id", "msg_type", "session", "username", "version", "date")
        return dict(zip(names, (f"m{number}", kind, session, "", "5.3", f"date {number}"), strict=True))

    def _record(self, channel: str, to_kernel: bool, *parts: dict[str, Any]) -> Record:
        return Record(self._number, channel, to_kernel, self._at, tuple(json.dumps(part).encode() for part in parts))

    def _request(self, step: str, kind: str, metadata: dict[str, Any], content: dict[str, Any]) -> str:
        header = self._header(kind, "page")
        message = {"header": header, "metadata": metadata, "content": content}
        self._add(self._record("shell", True, header, {}, metadata, content), [step, message])
        self._requests[header["msg_id"]] = header
        return header["msg_id"]


def fold_of(records: list[Record], cell_bytes: int = 256 << 20) -> JournalState:
    """A fold of these."""
    fold = JournalState(cell_bytes)
    for record in records:
        fold.add(record)
    return fold


_PIECES = ["a", "bc", "\n", "\r", "\b", "\r\n", "😀", "é", "  ", "long text", "\b\b"]


class _Play:
    """Does one random thing after the other, sensible or not: JupyterLab has an answer to each."""

    def __init__(self, seed: int, widgets: bool) -> None:
        self.scene = Scene()
        self.random = random.Random(seed)
        self.requests: list[str] = []
        self.cells: dict[str, str] = {}
        self.questions: list[tuple[str, str, bool]] = []
        self.widgets: list[str] = []
        self.replied: set[str] = set()
        self.does = [self.execute, self.begin, self.reply, self.idle, self.ask, self.answer, self.restart]
        self.does += 8 * [self.stream] + 4 * [self.display] + 2 * [self.clear, self.error]
        if widgets:
            self.does += 2 * [self.open, self.call] + 6 * [self.take] + [self.set]
        self.execute()

    def parent(self) -> str:
        # The newest most of the time; those of cells executed again and of earlier kernels too.
        return self.requests[-1] if self.random.random() < 0.6 else self.random.choice([*self.requests, "unknown"])

    def execute(self) -> None:
        cell = self.random.choice("abc")
        request = self.scene.execute(cell, recordTiming=self.random.random() < 0.7)
        self.requests.append(request)
        self.cells[request] = cell

    def begin(self) -> None:
        self.scene.begin(self.parent())

    def reply(self) -> None:
        page = [{"source": "page", "data": {"text/plain": "help"}, "start": 0}, {"source": "ask_exit"}]
        more: dict[str, Any] = {"payload": page} if self.random.random() < 0.3 else {}
        parent = self.parent()
        if parent in self.replied:
            return
        self.replied.add(parent)
        self.scene.reply(parent, self.random.choice(["ok", "ok", "error", "aborted"]), **more)

    def idle(self) -> None:
        self.scene.idle(self.parent())

    def stream(self) -> None:
        text = "".join(self.random.choices(_PIECES, k=self.random.randint(0, 6)))
        self.scene.stream(self.parent(), text, self.random.choice(["stdout", "stdout", "stderr"]))

    def display(self) -> None:
        kind = self.random.choice(["display_data", "display_data", "update_display_data", "execute_result"])
        more = {"execution_count": 3} if kind == "execute_result" else {}
        display = self.random.choice(["", "one", "two"])
        self.scene.display(self.parent(), f"shown {self.random.randint(0, 99)}", display, kind, **more)

    def clear(self) -> None:
        self.scene.add_message("clear_output", self.parent(), {"wait": self.random.random() < 0.6})

    def error(self) -> None:
        self.scene.add_message("error", self.parent(), {"ename": "E", "evalue": "v", "traceback": ["one", "two"]})

    def ask(self) -> None:
        request = self.requests[-1]
        # A kernel that waits for an answer asks nothing else; an execution that is over does not ask.
        fold = fold_of(self.scene.records)
        if request in fold.executions and fold.executions[request].unfinished and not self.questions:
            password = self.random.random() < 0.3
            self.questions.append((request, self.scene.ask(request, "who?", password), password))

    def answer(self) -> None:
        if self.questions:
            request, question, password = self.questions.pop()
            execution = fold_of(self.scene.records).executions.get(request)
            if execution is not None and execution.live and execution.pending_input:
                self.scene.answer(self.cells[request], question, "me", password)

    def restart(self) -> None:
        if self.random.random() < 0.3:
            self.scene.restart()
            self.questions.clear()
            self.widgets.clear()
            self.execute()

    def open(self) -> None:
        comm = f"widget-{len(self.scene.records)}"
        self.widgets.append(comm)
        self.scene.widget(comm, self.parent())

    def call(self) -> None:
        self.requests.append(self.scene.call(self.random.choice([*self.widgets, "none"]), {"method": "custom"}))

    def take(self) -> None:
        if self.widgets:
            request = self.random.choice(["", self.parent()])
            self.scene.update(self.random.choice(self.widgets), self.parent(), msg_id=request)

    def set(self) -> None:
        if self.widgets:
            outputs = [{"output_type": "stream", "name": "stdout", "text": f"set{ending}"} for ending in ("", "\n")]
            self.scene.update(self.random.choice(self.widgets), self.parent(), outputs=outputs)


def random_scene(seed: int, length: int, widgets: bool = False) -> Scene:
    """The same for the same seed."""
    play = _Play(seed, widgets)
    while len(play.scene.records) < length:
        play.random.choice(play.does)()
    return play.scene
