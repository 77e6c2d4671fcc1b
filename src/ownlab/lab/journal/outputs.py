"""The outputs of one cell, as JupyterLab's OutputAreaModel and OutputArea keep them (@jupyterlab/outputarea, 4.6).

This includes what a saved notebook does not contain but the next message needs: the cursor of a stream, a clear that waits
for the next output, and which outputs have which display id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ownlab.lab.journal.stream_text import StreamText
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["OUTPUT_TYPES", "Outputs", "display_id", "is_valid_content"]

Content = dict[str, Any]

# Messages that add an output.
OUTPUT_TYPES = frozenset(("stream", "display_data", "execute_result", "error"))
# The fields that nbformat allows, beside the type.
_FIELDS = {
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata", "execution_count"),
    "error": ("ename", "evalue", "traceback"),
}
# The fields that JupyterLab requires (services/lib/kernel/validate.js).
_TYPES: dict[str, dict[str, tuple[type, ...]]] = {
    "stream": {"name": (str,), "text": (str,)},
    "display_data": {"data": (dict,), "metadata": (dict,)},
    "update_display_data": {"data": (dict,)},
    "execute_result": {"data": (dict,), "metadata": (dict,), "execution_count": (int, float)},
    "error": {"ename": (str,), "evalue": (str,), "traceback": (list,)},
    "clear_output": {"wait": (bool,)},
}


def is_valid_content(kind: str, content: Content) -> bool:
    """Whether JupyterLab would accept a message with this content; it ignores others."""
    return all(isinstance(content.get(name), types) for name, types in _TYPES[kind].items())


def display_id(content: Content) -> str:
    """The id by which this output can be updated later; "" if there is none."""
    transient = content.get("transient")
    name = transient.get("display_id") if isinstance(transient, dict) else None
    return name if isinstance(name, str) else ""


class _Stream:
    __slots__ = ("name", "text")

    def __init__(self, name: str, text: StreamText | None = None) -> None:
        self.name = name
        self.text = text or StreamText()

    @property
    def size(self) -> int:
        return self.text.size


class _Display:
    """A display, a result or an error."""

    __slots__ = ("content", "display", "kind", "size")

    def __init__(self, kind: str, content: Content, size: int, display: str = "") -> None:
        self.kind, self.content, self.size, self.display = kind, content, size, display

    def as_json(self) -> Content:
        output: Content = {"output_type": self.kind}
        for name in _FIELDS[self.kind]:
            value = self.content.get(name)
            if name in ("data", "metadata"):
                value = dict(value) if isinstance(value, dict) else {}
            elif name == "traceback":
                value = [str(line) for line in value or ()]
            output[name] = value
        return output


class Outputs:
    """Outputs in order. `limit`: about so many bytes are kept; beyond that the middle is dropped, with a note in its place."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: list[_Stream | _Display] = []
        self._size = 0
        # The stream that the next text of the same name is appended to.
        self._open_stream = ""
        self._clear_next = False
        self._displays: dict[str, list[_Display]] = {}
        # The note in place of the dropped middle, and the number of bytes dropped.
        self._note: _Display | None = None
        self._left_out = 0

    @property
    def display_ids(self) -> list[str]:
        """The ids of all displays."""
        return list(self._displays)

    def add(self, kind: str, content: Content, size: int) -> None:
        """Add a message of OUTPUT_TYPES; `size` is the size of its content."""
        if self._clear_next:
            self.clear()
            self._clear_next = False
        self._add(kind, content, size)

    def clear(self, wait: bool = False) -> None:
        """Clear now, or when the next output arrives."""
        self._open_stream = ""
        if wait:
            self._clear_next = True
            return
        self._items.clear()
        self._displays.clear()
        self._size = self._left_out = 0
        self._note = None

    def update(self, display: str, content: Content, size: int) -> bool:
        """Update the displays with that id; return whether there are any."""
        shown = self._displays.get(display, ())
        for item in shown:
            self._size += size - item.size
            item.kind, item.content, item.size = "display_data", content, size
        if shown:
            self._trim()
        return bool(shown)

    def replace(self, values: Any) -> None:
        """Replace all outputs by those of a notebook."""
        self.clear()
        for value in values if isinstance(values, list) else ():
            kind = value.get("output_type") if isinstance(value, dict) else None
            if kind not in OUTPUT_TYPES:
                continue
            content = dict(value)
            if kind == "stream" and isinstance(content.get("text"), list):
                content["text"] = "\n".join(map(str, content["text"]))
            if is_valid_content(kind, content):
                self._add(kind, content, _size_of(content))

    def note(self, message: str) -> None:
        """Add a message of our own; nothing is cleared for it."""
        last = self._items[-1] if self._items else None
        joined = isinstance(last, _Stream) and last.name == self._open_stream == "stderr" and last.text.unfinished
        self._add(
            "stream", {"name": "stderr", "text": f"{chr(10) if joined else ''}[ownlab: {message}]\n"}, len(message)
        )

    def report(self, error: Content) -> None:
        """Add an error of our own; nothing is cleared for it."""
        self._clear_next = False
        self._add("error", error, _size_of(error))

    def as_json(self) -> list[Content]:
        """The outputs as in a notebook."""
        return [
            {"output_type": "stream", "name": item.name, "text": item.text.whole()}
            if isinstance(item, _Stream)
            else item.as_json()
            for item in self._items
        ]

    def replay(self) -> Iterator[tuple[str, Content]]:
        """Messages, as type and content, that bring an empty output area to this state."""
        for item in self._items:
            if isinstance(item, _Stream):
                yield "stream", {"name": item.name, "text": item.text.replay()}
                continue
            content = item.as_json()
            del content["output_type"]
            if item.display:
                content["transient"] = {"display_id": item.display}
            yield item.kind, content
        if self._clear_next:
            yield "clear_output", {"wait": True}

    def dump(self) -> Content:
        """Return the state as JSON."""
        items: list[list[Any]] = [
            ["stream", item.name, item.text.dump()]
            if isinstance(item, _Stream)
            else [item.kind, item.content, item.size, item.display, item is self._note]
            for item in self._items
        ]
        return {"items": items, "joins": self._open_stream, "clear_next": self._clear_next, "left_out": self._left_out}

    def load(self, state: Content) -> None:
        """Restore the state from `dump`."""
        self.clear()
        for kind, *rest in state["items"]:
            if kind == "stream":
                item: _Stream | _Display = _Stream(rest[0], StreamText.load(rest[1]))
            else:
                item = _Display(kind, *rest[:3])
                if rest[2]:
                    self._displays.setdefault(rest[2], []).append(item)
                if rest[3]:
                    self._note = item
            self._items.append(item)
            self._size += item.size
        self._open_stream, self._clear_next = state["joins"], state["clear_next"]
        self._left_out = state["left_out"]

    def _add(self, kind: str, content: Content, size: int) -> None:
        if kind == "stream":
            self._add_text(content["name"], content["text"])
        else:
            # JupyterLab keeps the id of a display_data, but not of a result.
            display = display_id(content) if kind == "display_data" else ""
            item = _Display(kind, content, size, display)
            if display:
                self._displays.setdefault(display, []).append(item)
            self._items.append(item)
            self._size += size
            self._open_stream = ""
        if self._size > self._limit:
            self._trim()

    def _add_text(self, name: str, text: str) -> None:
        last = self._items[-1] if self._items else None
        if not (isinstance(last, _Stream) and name == self._open_stream):
            last = _Stream(name)
            self._items.append(last)
        before = last.size
        last.text.add(text)
        self._size += last.size - before
        self._open_stream = name

    def _trim(self) -> None:
        """Drop the middle, in large pieces so that it is not done for each message."""
        if self._size <= self._limit:
            return
        place = self._split() if self._note is None else self._items.index(self._note) + 1
        wanted = self._size - self._limit + self._limit // 8
        while wanted > 0 and place < len(self._items):
            item = self._items[place]
            last = place == len(self._items) - 1
            if isinstance(item, _Stream) and (item.size > wanted or last):
                taken = len(item.text.take_front(wanted))
            elif last and item.size <= self._limit // 2:
                break
            else:
                taken = item.size
                self._remove(place)
            wanted -= taken
            self._size -= taken
            self._left_out += taken
        if self._note:
            note = text(
                "[ownlab: {size} of this cell's output were dropped here; a cell keeps {limit}]",
                size=format_bytes(self._left_out),
                limit=format_bytes(self._limit),
            )
            self._note.content = {"data": {"text/plain": note}, "metadata": {}}

    def _split(self) -> int:
        """Insert the note after the first half of what may be kept. Return the index behind it."""
        kept = place = 0
        while place < len(self._items) and kept + self._items[place].size <= self._limit // 2:
            kept += self._items[place].size
            place += 1
        item = self._items[place] if place < len(self._items) else None
        if isinstance(item, _Stream):
            front = _Stream(item.name)
            front.text.add(item.text.take_front(self._limit // 2 - kept))
            self._items.insert(place, front)
            place += 1
        self._note = _Display("display_data", {}, 0)
        self._items.insert(place, self._note)
        return place + 1

    def _remove(self, place: int) -> None:
        item = self._items.pop(place)
        if isinstance(item, _Display) and item.display:
            others = [other for other in self._displays[item.display] if other is not item]
            if others:
                self._displays[item.display] = others
            else:
                del self._displays[item.display]


def _size_of(content: Content) -> int:
    return sum(
        len(value) if isinstance(value, str) else _size_of(value) if isinstance(value, dict) else 64
        for value in content.values()
    )
