"""A stream of allocations and frees, each with a tag that says what it is for."""

from typing import Any, Dict, List, NamedTuple, Tuple

from ownlab_guest.fit.convolution_workspaces import Estimate

FREED = -1


class Tag(NamedTuple):
    """The purpose of a piece of memory, and what allocated it."""

    kind: str  # weights gradients optimizer activations inputs temporary workspace
    phase: str  # setup forward backward optimizer
    module: str
    op: str


class EventStream:
    """Events in order. A tag may change later: what lives until the backward pass is an activation."""

    def __init__(self) -> None:
        self.names: List[int] = []
        self.bytes: List[int] = []
        self.tags: List[int] = []
        self._tags: Dict[Tag, int] = {}
        self._table: List[Tag] = []
        self._allocated_at: Dict[int, int] = {}  # name -> index of its event; only of storages that exist
        self._likely: Dict[int, Tuple[int, ...]] = {}  # name -> other sizes that it may have
        self._next = 0

    def allocate(self, size: int, tag: Tag) -> int:
        """Record an allocation; return its name."""
        name, self._next = self._next, self._next + 1
        self._allocated_at[name] = len(self.names)
        self._append(name, int(size), self._index(tag))
        if isinstance(size, Estimate) and any(size.likely):
            self._likely[name] = size.likely
        return name

    def free(self, name: int) -> None:
        """Record that it is freed."""
        at = self._allocated_at.pop(name, None)
        if at is not None:
            self._append(name, FREED, self.tags[at])

    def tag_of(self, name: int) -> Tag:
        """Return its present tag."""
        return self._table[self.tags[self._allocated_at[name]]]

    def retag(self, name: int, **changed: str) -> None:
        """Change its tag."""
        if name in self._allocated_at:
            self.tags[self._allocated_at[name]] = self._index(self.tag_of(name)._replace(**changed))

    def newest(self) -> int:
        """Return the name of the latest allocation that still exists."""
        return next(reversed(self._allocated_at), -1)

    def cancel(self, name: int) -> None:
        """Remove the latest allocation; frees since then stay."""
        at = self._allocated_at.pop(name)
        for column in (self.names, self.bytes, self.tags):
            del column[at]

    def answer(self) -> Dict[str, Any]:
        """Return the columns for the host."""
        return {
            "events": {"name": self.names, "bytes": self.bytes, "tag": self.tags},
            "tags": [tag._asdict() for tag in self._table],
            "uncertain": {"name": list(self._likely), "bytes": list(self._likely.values())},
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
