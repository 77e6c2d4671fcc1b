"""What a kernel asks people (`input`, `getpass`), until it is answered: each question once, by whoever comes first."""

from __future__ import annotations

from collections.abc import Sequence

from ownlab.lab.journal.record import as_object

__all__ = ["Questions"]

_PASSWORD = b'{"value": null, "status": "ok"}'  # what a journal keeps of one


class Questions:
    """The open ones, by the message id of the input_request."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, bytes, bool]] = {}  # -> the cell's request, header, whether it is a password

    def __bool__(self) -> bool:
        return bool(self._open)

    def ask(self, parts: Sequence[bytes]) -> None:
        """An input_request passes."""
        question, cell = as_object(parts[0]), as_object(parts[1])
        password = bool(as_object(parts[3]).get("password"))
        self._open[str(question.get("msg_id"))] = str(cell.get("msg_id")), parts[0], password

    def answer(self, parts: Sequence[bytes]) -> tuple[bytes, ...] | None:
        """An input_reply comes: it as it is written down, with the question as its parent; None: nobody asked.

        JupyterLab names the question as the parent, so that a late answer is known; other clients name nothing.
        """
        parent = as_object(parts[1])
        name = str(parent.get("msg_id"))
        if name not in self._open:
            if not self._open or parent.get("msg_type") == "input_request":
                return None
            name = next(reversed(self._open))
        _, header, password = self._open.pop(name)
        return (parts[0], header, parts[2], _PASSWORD if password else parts[3])

    def end(self, parts: Sequence[bytes]) -> None:
        """A status passes: where a cell has ended, by an interrupt, say, nobody waits for its answers any more."""
        if as_object(parts[3]).get("execution_state") == "idle":
            cell = str(as_object(parts[1]).get("msg_id"))
            self._open = {name: asked for name, asked in self._open.items() if asked[0] != cell}

    def forget(self) -> None:
        """The kernel is gone."""
        self._open.clear()
