"""The text of a stream output with its cursor, as JupyterLab's OutputAreaModel keeps it (`processText` in model.js).

JupyterLab counts in UTF-16, so the current line is kept in it. Earlier lines never change again: a line feed goes to the
end of the text, and neither \\r nor \\b crosses one. So the cost of a piece depends on its own length, not on what was
printed before.
"""

from __future__ import annotations

import re
import sys
from array import array
from typing import Any

__all__ = ["StreamText", "replace_surrogates"]

_CONTROL = re.compile("[\n\x08\r]")
_LONE = re.compile("[\ud800-\udfff]")
_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


class StreamText:
    """Text that pieces are printed to, at a cursor."""

    __slots__ = ("_column", "_done", "_done_size", "_line")

    def __init__(self) -> None:
        self._done: list[str] = []
        self._done_size = 0
        self._line = array("H")
        self._column = 0

    @property
    def size(self) -> int:
        """The approximate number of characters."""
        return self._done_size + len(self._line)

    @property
    def unfinished(self) -> bool:
        """Whether the last line is not empty."""
        return len(self._line) > 0

    def add(self, new: str) -> None:
        """Print a piece."""
        # A line feed goes to the end of the text, wherever the cursor is.
        new = replace_surrogates(new).replace("\r\n", "\n")
        if self._column == len(self._line) and "\r" not in new and "\x08" not in new:
            self._append(new)
            return
        place = 0
        for match in _CONTROL.finditer(new):
            self._overwrite(new[place : match.start()])
            place = match.end()
            if new[place - 1] == "\n":
                self._column = len(self._line)
                self._append("\n")
            elif new[place - 1] == "\r":
                self._column = 0
            elif self._column:
                # JupyterLab also deletes the character under the cursor.
                del self._line[self._column - 1 : self._column + 1]
                self._column -= 1
        self._overwrite(new[place:])

    def whole(self) -> str:
        """The whole text."""
        return "".join(self._done) + _decoded(self._line)

    def replay(self) -> str:
        """Text that, when printed, brings a new StreamText to this state, including the cursor."""
        if self._column == len(self._line):
            return self.whole()
        front = self._line[: self._column]
        if front and 0xD800 <= front[-1] < 0xDC00:
            front.pop()  # between the halves of a surrogate pair, where no text can put the cursor
        return f"{self.whole()}\r{_decoded(front)}"

    def take_front(self, size: int) -> str:
        """Remove about so many characters from the beginning, and return them."""
        taken: list[str] = []
        wanted = min(size, self._done_size)
        count = 0
        while count < len(self._done) and len(self._done[count]) <= wanted:
            wanted -= len(self._done[count])
            count += 1
        taken += self._done[:count]
        del self._done[:count]
        if wanted:
            taken.append(self._done[0][:wanted])
            self._done[0] = self._done[0][wanted:]
        rest = size - min(size, self._done_size)
        self._done_size -= min(size, self._done_size)
        if rest:
            taken.append(_decoded(self._line[:rest]))
            del self._line[:rest]
            self._column = max(0, self._column - rest)
        return "".join(taken)

    def dump(self) -> list[Any]:
        """Return the state as JSON."""
        return ["".join(self._done), self._line.tolist(), self._column]

    @classmethod
    def load(cls, state: list[Any]) -> StreamText:
        """Restore a text from `dump`."""
        text = cls()
        done, line, text._column = state
        text._done, text._done_size, text._line = [done], len(done), array("H", line)
        return text

    def _append(self, new: str) -> None:
        cut = new.rfind("\n") + 1
        if cut:
            piece = _decoded(self._line) + new[:cut] if self._line else new[:cut]
            self._done.append(piece)
            self._done_size += len(piece)
            self._line = _units(new[cut:])
        else:
            self._line.extend(_units(new))
        self._column = len(self._line)

    def _overwrite(self, new: str) -> None:
        if new:
            units = _units(new)
            self._line[self._column : self._column + len(units)] = units
            self._column += len(units)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which a file in UTF-8 cannot hold."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def _units(text: str) -> array[int]:
    return array("H", text.encode(_UTF16, "surrogatepass"))


def _decoded(line: array[int]) -> str:
    # A cursor may have been between the halves of a pair, and one half overwritten.
    return replace_surrogates(line.tobytes().decode(_UTF16, "surrogatepass"))
