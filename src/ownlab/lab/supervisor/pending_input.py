"""What a kernel asks people (`input`, `getpass`) or their page (google.colab), until it is answered.

Each question is answered once, by whoever comes first. google.colab asks by a message `colab_request` on iopub, and is
answered on stdin as `input` is, by {"value": {"type": "colab_reply", "colab_msg_id": …}}; a first reply with "ack" in it
says that the question was seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ownlab.lab.journal.records import as_object

__all__ = ["Questions"]

_PASSWORD = b'{"value": null, "status": "ok"}'  # what a journal keeps of one


class Questions:
    """The open ones, by the message id of the input_request."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, bytes, bool]] = {}  # -> the cell's request, header, whether it is a password
        self._of_colab: dict[str, str] = {}  # colab_msg_id -> the cell's request

    def __bool__(self) -> bool:
        return bool(self._open or self._of_colab)

    def ask_page(self, parts: Sequence[bytes]) -> None:
        """A colab_request passes."""
        name = as_object(parts[2]).get("colab_msg_id")
        if name:
            self._of_colab[str(name)] = str(as_object(parts[1]).get("msg_id"))

    def ask(self, parts: Sequence[bytes]) -> None:
        """An input_request passes."""
        question, cell = as_object(parts[0]), as_object(parts[1])
        password = bool(as_object(parts[3]).get("password"))
        self._open[str(question.get("msg_id"))] = str(cell.get("msg_id")), parts[0], password

    def answer(self, parts: Sequence[bytes]) -> tuple[bytes, ...] | None:
        """An input_reply comes: it as it is written down, with the question as its parent; None: nobody asked.

        JupyterLab names the question as the parent, so that a late answer is known; other clients name nothing.
        """
        value = as_object(parts[3]).get("value")
        if isinstance(value, dict):
            return self._answer_colab(parts, value)
        parent = as_object(parts[1])
        name = str(parent.get("msg_id"))
        if name not in self._open:
            if not self._open or parent.get("msg_type") == "input_request":
                return None
            name = next(reversed(self._open))
        _, header, password = self._open.pop(name)
        return (parts[0], header, parts[2], _PASSWORD if password else parts[3])

    def _answer_colab(self, parts: Sequence[bytes], value: dict[str, Any]) -> tuple[bytes, ...] | None:
        """What it says may be a secret, or a file: a journal keeps that it was answered."""
        name = str(value.get("colab_msg_id"))
        if name not in self._of_colab:
            return None
        if not value.get("ack"):
            del self._of_colab[name]
        kept = {"value": {"type": "colab_reply", "colab_msg_id": name, "ack": bool(value.get("ack"))}, "status": "ok"}
        return (parts[0], parts[1], parts[2], json.dumps(kept).encode())

    def end(self, parts: Sequence[bytes]) -> None:
        """A status passes: where a cell has ended, by an interrupt, say, nobody waits for its answers any more."""
        if as_object(parts[3]).get("execution_state") == "idle":
            cell = str(as_object(parts[1]).get("msg_id"))
            self._open = {name: asked for name, asked in self._open.items() if asked[0] != cell}
            self._of_colab = {name: asked for name, asked in self._of_colab.items() if asked != cell}

    def forget(self) -> None:
        """The kernel is gone."""
        self._open.clear()
        self._of_colab.clear()
