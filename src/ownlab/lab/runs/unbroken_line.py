"""The journal line of a run: every record once and in order, even if the relay of its node dies and another one takes its place.

What was recorded meanwhile is read from disk, and what the dead one may not have taken is sent again: the node takes nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ownlab.lab.journal.json_parts import parse_header
from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import Record
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.transport.journal_client import Dropped, Duplicate, Hello, JournalClient, JournalMessage, Reconnected

__all__ = ["UnbrokenLine"]


class UnbrokenLine:
    """As a JournalClient. `Reconnected` and `Duplicate` are not passed on."""

    def __init__(
        self, plan: Plan, on_message: Callable[[JournalMessage], None], only: Sequence[str] | None = None
    ) -> None:
        self._folder, self._on_message = Path(plan.journal), on_message
        self._position: int | None = None  # the last record that was passed on, or came before the first hello
        self._is_another = False  # at the other end, since its hello was read
        self._sent: dict[str, tuple[str, Sequence[bytes]]] = {}  # what is not recorded yet, by message id
        self._client = JournalClient(plan.journal_endpoint, self._receive, only)

    def send(self, channel: str, parts: Sequence[bytes]) -> None:
        """Send a message to the kernel."""
        header = parse_header(parts[0])
        if header is not None:
            self._sent[header.msg_id] = channel, parts
        self._client.send(channel, parts)

    def read_rest(self) -> None:
        """Pass on what is on disk, when nobody will send it any more."""
        if self._position is not None:
            for record in records_after(self._folder, self._position, final=True):
                self._take(record)

    def close(self) -> None:
        """Stop receiving."""
        self._client.close()

    def _receive(self, message: JournalMessage) -> None:
        if isinstance(message, Record):
            self._take(message)
        elif isinstance(message, Reconnected):
            self._is_another = True
        elif isinstance(message, Duplicate):
            self._sent.pop(message.msg_id, None)
        elif isinstance(message, Dropped):
            self._position = max(self._position or 0, message.position)
            self._on_message(message)
        elif isinstance(message, Hello):
            self._greeted(message)

    def _greeted(self, hello: Hello) -> None:
        if self._position is None:
            self._position = hello.position
        if not self._is_another:
            self._on_message(hello)
            return
        self._is_another = False
        for record in records_after(self._folder, self._position):
            if record.number <= hello.position:
                self._take(record)
        self._on_message(hello)
        for channel, parts in self._sent.values():
            self._client.send(channel, parts)

    def _take(self, record: Record) -> None:
        if self._position is not None and record.number <= self._position:
            return
        self._position = record.number
        if record.to_kernel and self._sent:
            header = parse_header(record.parts[0])
            if header is not None:
                self._sent.pop(header.msg_id, None)
        self._on_message(record)
