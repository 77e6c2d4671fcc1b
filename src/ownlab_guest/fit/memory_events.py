"""Memory as events: it comes with a tag, and it goes."""

from typing import Any, Dict, List, NamedTuple

GONE = -1


class Tag(NamedTuple):
    """What a piece of memory is for, and who asked for it."""

    kind: str  # weights gradients optimizer activations inputs temporary workspace
    phase: str  # setup forward backward optimizer
    module: str
    op: str


class Stream:
    """Events in their order. A tag may turn out later: what lives until the backward is an activation."""

    def __init__(self) -> None:
        self.names: List[int] = []
        self.bytes: List[int] = []
        self.tags: List[int] = []
        self._tags: Dict[Tag, int] = {}
        self._table: List[Tag] = []
        self._came: Dict[int, int] = {}  # name -> index of the event; only of what is there
        self._next = 0

    def come(self, size: int, tag: Tag) -> int:
        """Some bytes are taken; the answer is their name."""
        name, self._next = self._next, self._next + 1
        self._came[name] = len(self.names)
        self._append(name, size, self._index(tag))
        return name

    def go(self, name: int) -> None:
        """They are given back."""
        at = self._came.pop(name, None)
        if at is not None:
            self._append(name, GONE, self.tags[at])

    def tag_of(self, name: int) -> Tag:
        """What it was said to be for."""
        return self._table[self.tags[self._came[name]]]

    def retag(self, name: int, **changed: str) -> None:
        """It turned out to be something else."""
        if name in self._came:
            self.tags[self._came[name]] = self._index(self.tag_of(name)._replace(**changed))

    def newest(self) -> int:
        """The name of what came last, of all that is there."""
        return next(reversed(self._came), -1)

    def undo(self, name: int) -> None:
        """The newest never came: what went since went before it would have."""
        at = self._came.pop(name)
        for column in (self.names, self.bytes, self.tags):
            del column[at]

    def answer(self) -> Dict[str, Any]:
        """As the host reads it."""
        return {
            "events": {"name": self.names, "bytes": self.bytes, "tag": self.tags},
            "tags": [tag._asdict() for tag in self._table],
        }

    def _append(self, name: int, size: int, tag: int) -> None:
        self.names.append(name)
        self.bytes.append(size)
        self.tags.append(tag)

    def _index(self, tag: Tag) -> int:
        if tag not in self._tags:
            self._tags[tag] = len(self._table)
            self._table.append(tag)
        return self._tags[tag]
