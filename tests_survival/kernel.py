"""A page's view of its kernel: futures, display ids, widgets (JupyterLab's KernelConnection, ipywidgets' models)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests_survival.outputs import SHOWN, Area, Message, OutputList

__all__ = ["Future", "Kernel", "Widget"]

Send = Callable[[str, dict[str, Any]], str]  # message type and content, on shell; the message's id


class Widget:
    """WidgetModel, and OutputModel for an Output widget, which captures messages from the cell."""

    def __init__(self, comm: str, state: dict[str, Any], send: Send) -> None:
        self.comm, self.state, self._send = comm, state, send
        self.outputs = OutputList()
        self.outputs.load(state.get("outputs") or [])
        self._sent = ""  # MsgThrottle = 1: the id of the update that waits for its idle
        self._dirty = False
        self._expected = ""  # whose echo is ours; older ones are dropped

    @property
    def is_output(self) -> bool:
        return bool(self.state.get("_model_name") == "OutputModel")

    def capture(self, message: Message) -> None:
        """OutputModel.add."""
        kind, content = message["header"]["msg_type"], message["content"]
        if kind in SHOWN:
            self.outputs.add({**content, "output_type": kind})
        elif kind == "clear_output":
            self.outputs.clear(bool(content.get("wait")))
        self.state["outputs"] = self.outputs.as_json()
        self._dirty = True
        self._save()

    def _save(self) -> None:
        if self._dirty and not self._sent:
            self._dirty = False
            data = {"method": "update", "state": {"outputs": self.state["outputs"]}, "buffer_paths": []}
            self._sent = self._expected = self._send("comm_msg", {"comm_id": self.comm, "data": data})

    def on_idle(self, msg_id: str) -> None:
        """The kernel has handled our update: the next one may be sent."""
        if msg_id == self._sent:
            self._sent = ""
            self._save()

    def update(self, message: Message) -> None:
        """`_handle_comm_msg`."""
        data = message["content"]["data"]
        state = dict(data.get("state") or {})
        if data.get("method") == "echo_update" and "outputs" in state and self._expected:
            if message["parent_header"].get("msg_id") != self._expected:
                del state["outputs"]
            else:
                self._expected = ""
                if self._dirty:
                    del state["outputs"]
        self.state.update(state)
        if "outputs" in state:
            self.outputs.load(state["outputs"])


class Future:
    """A request whose messages go to a cell."""

    def __init__(self, msg_id: str, area: Area, timed: bool) -> None:
        self.msg_id, self.area, self._timed = msg_id, area, timed
        self.hooks: list[Widget] = []  # the newest first
        self.replied = self.idle = False

    @property
    def done(self) -> bool:
        return self.replied and self.idle

    def on_iopub(self, message: Message) -> None:
        if self.hooks:
            self.hooks[0].capture(message)
        else:
            self._time(message)
            self.area.on_iopub(message)
        if message["header"]["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            self.idle = True

    def on_reply(self, message: Message) -> None:
        self.replied = True
        self.area.on_reply(message)
        if self._timed:
            started = message["metadata"].get("started")
            if started:
                self.area.time("shell.execute_reply.started", started)
            self.area.time("shell.execute_reply", message["header"]["date"])

    def _time(self, message: Message) -> None:
        kind = message["header"]["msg_type"]
        if self._timed and kind in ("status", "execute_input"):
            label = f"status.{message['content']['execution_state']}" if kind == "status" else kind
            self.area.time(f"iopub.{label}", message["header"]["date"])


class Kernel:
    """Dispatches each message as a page does."""

    def __init__(self, send: Send, on_untaken: Callable[[], None]) -> None:
        """`on_untaken`: called when an Output that does not exist yet should have captured a message."""
        self._send, self._on_untaken = send, on_untaken
        self.taking: dict[str, str] = {}  # Output widget: the request whose messages it takes
        self.futures: dict[str, Future] = {}
        self.widgets: dict[str, Widget] = {}
        self._shown_by: dict[str, list[str]] = {}  # display id: requests

    def follow(self, msg_id: str, area: Area, timed: bool) -> Future:
        """Create a cell's future; the previous one is disposed of."""
        for old in [future for future in self.futures.values() if future.area is area]:
            del self.futures[old.msg_id]
        area.begin()
        self.taking = {comm: taken for comm, taken in self.taking.items() if taken != msg_id}
        self.futures[msg_id] = Future(msg_id, area, timed)
        return self.futures[msg_id]

    def handle(self, message: Message) -> None:
        """KernelConnection._handleMessage."""
        channel, parent = message["channel"], message["parent_header"].get("msg_id", "")
        future = self.futures.get(parent)
        if channel == "iopub":
            self._on_iopub(message, parent, future)
        elif channel == "stdin" and future is not None:
            future.area.question = message
        elif channel == "shell" and future is not None and message["header"]["msg_type"] == "execute_reply":
            future.on_reply(message)

    def _on_iopub(self, message: Message, parent: str, future: Future | None) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        display_id = (content.get("transient") or {}).get("display_id")
        if display_id and kind in ("display_data", "update_display_data", "execute_result"):
            updated = {**message, "header": {**message["header"], "msg_type": "update_display_data"}}
            for shower in self._shown_by.get(display_id, ()):
                self._give(updated, self.futures.get(shower))
            if kind == "update_display_data":
                return
            showers = self._shown_by.setdefault(display_id, [])
            if parent not in showers:
                showers.append(parent)
        self._give(message, future)
        if kind.startswith("comm_"):
            self._on_comm(kind, content, message)
        elif kind == "status" and content["execution_state"] == "idle":
            for widget in list(self.widgets.values()):
                widget.on_idle(parent)

    def _give(self, message: Message, future: Future | None) -> None:
        """Deliver to the cell, or to the Output that captures it; after a reload that may not exist yet."""
        if future is None:
            return
        is_output = message["header"]["msg_type"] in (*SHOWN, "update_display_data", "clear_output")
        if is_output and not future.hooks and future.msg_id in self.taking.values():
            self._on_untaken()
        else:
            future.on_iopub(message)

    def _on_comm(self, kind: str, content: dict[str, Any], message: Message) -> None:
        comm = content["comm_id"]
        state = (content.get("data") or {}).get("state") or {}
        if kind == "comm_msg" and "msg_id" in state:
            self.taking[comm] = state["msg_id"]
        if kind == "comm_open" and content.get("target_name") == "jupyter.widget":
            self.widgets[comm] = Widget(comm, dict(content["data"].get("state") or {}), self._send)
        elif kind == "comm_close":
            self.widgets.pop(comm, None)
        elif kind == "comm_msg" and comm in self.widgets:
            widget = self.widgets[comm]
            before = widget.state.get("msg_id")
            widget.update(message)
            self.hook(widget, before)

    def hook(self, widget: Widget, before: str | None = None) -> None:
        """OutputModel.reset_msg_id."""
        now = widget.state.get("msg_id")
        if not widget.is_output or now == before:
            return
        if before in self.futures and widget in self.futures[before].hooks:
            self.futures[before].hooks.remove(widget)
        if now in self.futures:
            self.futures[now].hooks.insert(0, widget)

    def restore(self, states: dict[str, dict[str, Any]]) -> None:
        """Handle the answer to request_states: create missing models, update the others."""
        for comm, reported in states.items():
            if comm not in self.widgets:
                self.widgets[comm] = Widget(comm, {}, self._send)
            widget = self.widgets[comm]
            before = widget.state.get("msg_id")
            widget.state.update(reported["state"])
            widget.outputs.load(widget.state.get("outputs") or [])
            self.hook(widget, before)
