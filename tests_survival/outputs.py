"""A cell's outputs as JupyterLab keeps them, written after its source (@jupyterlab/outputarea 4.6, model.js and widget.js).

It deliberately shares no code with `ownlab.lab.journal.outputs`: the matrix compares the two.
"""

from __future__ import annotations

import copy
from typing import Any

__all__ = ["Area", "OutputList", "process_text"]

Message = dict[str, Any]
SHOWN = ("execute_result", "display_data", "stream", "error")


def process_text(index: int, new: str, text: str) -> tuple[str, int]:
    """Private.processText: what a terminal's cursor does on one line."""
    place = 0
    while True:
        stop = next((at for at in range(place, len(new)) if new[at] in "\n\b\r"), len(new))
        piece = new[place:stop]
        text = text[:index] + piece + text[index + len(piece) :]
        index += len(piece)
        if stop == len(new):
            return text, index
        place = stop + 1
        if new[stop] == "\n":
            text += "\n"
            index = len(text)
        elif new[stop] == "\r":
            index = text.rfind("\n", 0, index) + 1
        elif index > 0 and text[index - 1] != "\n":
            text = text[: index - 1] + text[index + 1 :]  # index + 1: so it is there
            index -= 1


class OutputList:
    """OutputAreaModel."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._last_stream = ""
        self._cursor = 0
        self._clear_next = False
        self.clears = 0  # how often it was cleared: positions are invalid after that

    def add(self, output: dict[str, Any]) -> None:
        if self._clear_next:
            self.clear()
            self._clear_next = False
        self._add(copy.deepcopy(output))

    def _add(self, output: dict[str, Any]) -> None:
        is_stream = output["output_type"] == "stream"
        if is_stream and output["name"] == self._last_stream and self.items:
            last = self.items[-1]
            last["text"], self._cursor = process_text(self._cursor, output["text"], last["text"])
            return
        if is_stream:
            output["text"], self._cursor = process_text(0, output["text"], "")
        self.items.append(output)
        self._last_stream = output["name"] if is_stream else ""

    def set(self, index: int, output: dict[str, Any]) -> None:
        self.items[index] = copy.deepcopy(output)

    def clear(self, wait: bool = False) -> None:
        self._last_stream = ""
        if wait:
            self._clear_next = True
        else:
            self.items.clear()
            self.clears += 1

    def load(self, outputs: list[dict[str, Any]]) -> None:
        """FromJSON."""
        self.clear()
        for output in outputs:
            self._add(copy.deepcopy(output))

    def as_json(self) -> list[dict[str, Any]]:
        return [{key: copy.deepcopy(value) for key, value in item.items() if key != "transient"} for item in self.items]


class Area:
    """OutputArea with the bookkeeping of CodeCell.execute: one cell's outputs, count and timing."""

    def __init__(self, cell: dict[str, Any]) -> None:
        self.cell = cell
        self.outputs = OutputList()
        self.outputs.load(cell["outputs"])
        self.question: Message | None = None
        self._shown: dict[str, list[int]] = {}

    def begin(self) -> None:
        """The cell is executed, or attached to."""
        self.outputs.clear()
        self._shown.clear()
        self.question = None
        self.cell["execution_count"] = None
        self.cell["metadata"].pop("execution", None)

    def on_iopub(self, message: Message) -> None:
        """OutputArea._onIOPub."""
        kind, content = message["header"]["msg_type"], message["content"]
        display_id: str = (content.get("transient") or {}).get("display_id", "")
        clears = self.outputs.clears
        if kind in SHOWN:
            self.outputs.add({**content, "output_type": kind})
        elif kind == "clear_output":
            self.outputs.clear(bool(content.get("wait")))
        elif kind == "update_display_data":
            for index in self._shown.get(display_id, ()):
                self.outputs.set(index, {**content, "output_type": "display_data"})
        elif kind == "status" and content["execution_state"] == "idle":
            self.question = None
        if self.outputs.clears != clears:
            self._shown.clear()  # OutputArea._clear
        if display_id and kind == "display_data":
            self._shown.setdefault(display_id, []).append(len(self.outputs.items) - 1)

    def on_reply(self, message: Message) -> None:
        """OutputArea._onExecuteReply, and the count."""
        content = message["content"]
        self.cell["execution_count"] = content.get("execution_count")
        if content.get("status") != "ok":
            return
        pages = [payload for payload in content.get("payload") or [] if payload.get("source") == "page"]
        if pages:
            self.outputs.add({"output_type": "display_data", "data": pages[0]["data"], "metadata": {}})

    def time(self, label: str, date: str) -> None:
        """One timestamp of metadata.execution."""
        self.cell["metadata"].setdefault("execution", {})[label] = date

    def answer(self, value: str | None) -> None:
        """Replace the input box by what was typed (Stdin, onInputRequest)."""
        if self.question is None:
            return
        prompt = self.question["content"]["prompt"]
        self.question = None
        typed = "········" if value is None else value
        self.outputs.add({"output_type": "stream", "name": "stdin", "text": f"{prompt} {typed}\n"})
