"""The comms of a kernel, and the state of ipywidgets' widgets, reconstructed from messages.

ipywidgets' Output widget is maintained by the page: while its `msg_id` names a request, a message hook in the page adds
that request's outputs to the widget instead of the cell, and sends the result to the kernel. There may be no page, so the
same is done here with the messages (OutputModel in @jupyter-widgets/jupyterlab-manager 5). What pages send about such
outputs is late, and incomplete if the page was closed: once something was captured here, this record takes precedence.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from ownlab.lab.journal.outputs import OUTPUT_TYPES, Content, Outputs

__all__ = ["WIDGET_TARGET", "Comms"]

WIDGET_TARGET = "jupyter.widget"
_OUTPUT_MODULE = "@jupyter-widgets/output"
_KEPT_FINISHED = 2000  # models; a progress bar has eleven
_NAMES = {"_model_name": "model_name", "_model_module": "model_module", "_model_module_version": "model_module_version"}


class _Comm:
    __slots__ = ("captured", "outputs", "state", "target")

    def __init__(self, target: str, state: Content, outputs: Outputs | None) -> None:
        self.target, self.state, self.outputs = target, state, outputs
        self.captured = False

    @property
    def present(self) -> Content:
        """The state as a page has it."""
        return self.state if self.outputs is None else {**self.state, "outputs": self.outputs.as_json()}


class Comms:
    """The open comms of a kernel. `limit`: see Outputs."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._comms: dict[str, _Comm] = {}
        # Widgets of earlier kernels, as notebooks save them: cells may still show them.
        self._finished: dict[str, Content] = {}
        # Message id of each request that a page may still follow -> the Output widgets that capture it, the newest last.
        self._hooks: dict[str, list[str]] = {}

    def info(self, target: str | None = None) -> dict[str, Content]:
        """Return the comms of a target, or all, as in a comm_info_reply."""
        return {
            key: {"target_name": comm.target} for key, comm in self._comms.items() if target in (None, "", comm.target)
        }

    def states(self) -> tuple[Content, list[bytes]]:
        """Return all widgets as ipywidgets' kernel side does on request_states: `states` and `buffer_paths`, and the buffers."""
        states: Content = {}
        for key, comm in self._comms.items():
            if comm.target == WIDGET_TARGET and isinstance(comm.state.get("_model_name"), str):
                about = {name: comm.state.get(field) for field, name in _NAMES.items()}
                states[key] = {**about, "state": comm.present}
        paths: list[list[Any]] = []
        buffers: list[bytes] = []
        states = _without_buffers(states, [], paths, buffers)
        return {"states": states, "buffer_paths": paths}, buffers

    def saved(self) -> Content | None:
        """Return all widgets as notebooks save them, for display without a kernel; None if there are none."""
        message, buffers = self.states()
        states: Content = message["states"]
        for path, buffer in zip(message["buffer_paths"], buffers, strict=True):
            key, _, *place = path  # [comm, "state", …]
            kept = {"encoding": "base64", "path": place, "data": base64.b64encode(buffer).decode()}
            states[key].setdefault("buffers", []).append(kept)
        return {"version_major": 2, "version_minor": 0, "state": states} if states else None

    def widgets(self) -> dict[str, Content]:
        """Return the widgets of this kernel and of earlier ones as notebooks save them, by model id."""
        saved = self.saved()
        return {**self._finished, **saved["state"]} if saved else dict(self._finished)

    def next_kernel(self) -> Comms:
        """Return the comms of a kernel that replaces this one."""
        comms = Comms(self._limit)
        comms._finished = dict(list(self.widgets().items())[-_KEPT_FINISHED:])
        return comms

    def capturing(self) -> dict[str, str]:
        """Return the Output widgets that capture now: widget -> message id of the request, the newest hook last."""
        return {widget: request for request, widgets in self._hooks.items() for widget in widgets}

    def captured(self) -> dict[str, Content]:
        """Return the Output widgets that have captured something: their outputs, and the request captured now, or ""."""
        taking = self.capturing()
        return {
            key: {"outputs": comm.outputs.as_json(), "msg_id": taking.get(key, "")}
            for key, comm in self._comms.items()
            if comm.outputs is not None and comm.captured
        }

    def begin(self, request: str) -> None:
        """Register a request: widgets may capture its outputs."""
        self._hooks.setdefault(request, [])

    def end(self, request: str) -> None:
        """Forget a request that no page follows any more."""
        self._hooks.pop(request, None)

    def hooked(self, request: str) -> bool:
        """Whether a widget captures all outputs of this request."""
        return bool(self._hooks.get(request))

    def capture(self, request: str, kind: str, content: Content, size: int) -> bool:
        """Give an output message to the widget that captures it. Return whether there is one: then the cell does not get it."""
        widgets = self._hooks.get(request)
        if not widgets:
            return False
        # A widget that was closed still captures: its hook remains in JupyterLab.
        comm = self._comms.get(widgets[-1])
        if comm is not None and comm.outputs is not None:
            # A display update is captured and dropped: OutputModel does not support it.
            if kind in OUTPUT_TYPES:
                comm.outputs.add(kind, content, size)
            elif kind == "clear_output":
                comm.outputs.clear(content["wait"])
            comm.captured = True
        return True

    def open(self, content: Content, buffers: Sequence[bytes]) -> None:
        """Handle a comm_open, from either side."""
        key, target, data = content.get("comm_id"), content.get("target_name"), content.get("data")
        if not (isinstance(key, str) and isinstance(target, str)):
            return
        state = _state(data, buffers)
        output = state.get("_model_name") == "OutputModel" and state.get("_model_module") == _OUTPUT_MODULE
        comm = self._comms[key] = _Comm(target, state, Outputs(self._limit) if output else None)
        if comm.outputs is not None:
            comm.outputs.replace(state.pop("outputs", None))

    def update(self, content: Content, buffers: Sequence[bytes], to_kernel: bool) -> None:
        """Handle a comm_msg: keep the newest state of a widget."""
        key, data = content.get("comm_id"), content.get("data")
        comm = self._comms.get(key) if isinstance(key, str) else None
        if comm is None or not isinstance(data, dict) or data.get("method") not in ("update", "echo_update"):
            return
        change = _state(data, buffers)
        if comm.outputs is not None:
            own = data["method"] == "update" and not to_kernel
            self._change_output(str(key), comm, change, own)
        comm.state.update(change)

    def close(self, content: Content) -> None:
        """Handle a comm_close, from either side."""
        key = content.get("comm_id")
        if isinstance(key, str):
            self._comms.pop(key, None)

    def dump(self) -> tuple[Content, list[bytes]]:
        """Return the state as JSON, and the buffers."""
        comms: Content = {
            key: [comm.target, comm.state, comm.captured, comm.outputs and comm.outputs.dump()]
            for key, comm in self._comms.items()
        }
        paths: list[list[Any]] = []
        buffers: list[bytes] = []
        comms = _without_buffers(comms, [], paths, buffers)
        return {"comms": comms, "buffer_paths": paths, "hooks": self._hooks, "finished": self._finished}, buffers

    def load(self, state: Content, buffers: Sequence[bytes]) -> None:
        """Restore the state from `dump`."""
        comms, self._hooks = state["comms"], state["hooks"]
        self._finished = state.get("finished", {})  # journals of earlier versions have none
        _put_buffers(comms, state["buffer_paths"], buffers)
        for key, (target, value, captured, outputs) in comms.items():
            comm = self._comms[key] = _Comm(target, value, None)
            comm.captured = captured
            if outputs is not None:
                comm.outputs = Outputs(self._limit)
                comm.outputs.load(outputs)

    def _change_output(self, key: str, comm: _Comm, change: Content, own: bool) -> None:
        """`own`: a change by the kernel itself, not by a page or the kernel's echo of it."""
        if "outputs" in change:
            values = change.pop("outputs")
            # A complete state, as an answer to request_state, holds what the kernel last received from a page.
            whole = "_model_name" in change
            if comm.outputs is not None and (not comm.captured or (own and not whole)):
                comm.outputs.replace(values)
        if "msg_id" in change:
            before, request = comm.state.get("msg_id"), change["msg_id"]
            if not own:
                del change["msg_id"]
            elif before != request:
                self._rehook(key, before, request)

    def _rehook(self, key: str, before: Any, request: Any) -> None:
        if isinstance(before, str) and key in self._hooks.get(before, ()):
            self._hooks[before].remove(key)
        if isinstance(request, str) and request in self._hooks:
            self._hooks[request].append(key)


def _state(data: Any, buffers: Sequence[bytes]) -> Content:
    """Return the state in a message's data, with the buffers inserted."""
    state = data.get("state") if isinstance(data, dict) else None
    if not isinstance(state, dict):
        return {}
    _put_buffers(state, data.get("buffer_paths"), buffers)
    return state


def _put_buffers(state: Any, paths: Any, buffers: Sequence[bytes]) -> None:
    for path, buffer in zip(paths if isinstance(paths, list) else (), buffers, strict=False):
        place = state
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = buffer
        except (TypeError, LookupError):
            continue  # an invalid path


def _without_buffers(value: Any, path: list[Any], paths: list[list[Any]], buffers: list[bytes]) -> Any:
    """Return a copy without binary values, as ipywidgets does: removed from objects, null in lists."""
    if isinstance(value, dict):
        items: Any = list(value.items())
        kept: Any = {}
    elif isinstance(value, list):
        items = list(enumerate(value))
        kept = [None] * len(value)
    else:
        return value
    for key, part in items:
        if isinstance(part, bytes):
            buffers.append(part)
            paths.append([*path, key])
        else:
            kept[key] = _without_buffers(part, [*path, key], paths, buffers)
    return kept
