"""Messages to a kernel on a node that the node has not taken yet, on disk: another relay sends them if this one is killed.

The server reads them, too: a page that is opened meanwhile is told that these cells wait.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Container
from typing import Any

from ownlab.lab.journal.records import json_object
from ownlab.lab.transport.journal_server import ClientMessage

__all__ = ["OUTBOX_FILE", "Outbox", "read_outbox"]

OUTBOX_FILE = "outbox"


class Outbox:
    """A line of JSON for each message. The file is emptied when the node has taken all."""

    def __init__(self, home: str) -> None:
        """`home`: the folder of the runtime."""
        self._path = os.path.join(home, OUTBOX_FILE)
        self.trouble = ""  # why messages are in memory only
        self._messages: dict[str, ClientMessage] = {}
        self._file: int | None = None
        self._is_torn = False  # the last line in the file is a part of one

    def load(self, recorded: Container[str]) -> list[ClientMessage]:
        """What was left there, without the messages with these ids, which are in the journal."""
        try:
            with open(self._path, "rb") as file:
                lines = file.readlines()
        except OSError:
            return []
        left = [message for line in lines if (message := _parse(line)) is not None]
        self._is_torn = bool(lines) and not lines[-1].endswith(b"\n")
        self._messages = {message.name: message for message in left if message.name not in recorded}
        if left and not self._messages:
            self._empty()
        return list(self._messages.values())

    def add(self, message: ClientMessage) -> bool:
        """Keep a message. False if it is there already: the page has sent it again."""
        if message.name in self._messages:
            return False
        self._messages[message.name] = message
        line = {"channel": message.channel, "parts": [base64.b64encode(part).decode() for part in message.parts]}
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            data = (b"\n" if self._is_torn else b"") + json.dumps(line).encode() + b"\n"
            self._is_torn = os.write(self._file, data) < len(data)
        except OSError as exc:  # the disk is full: it is sent nevertheless
            self.trouble = exc.strerror or ""
        return True

    def remove(self, name: str) -> None:
        """The node has it."""
        if self._messages.pop(name, None) is not None and not self._messages:
            self._empty()

    def messages(self) -> list[ClientMessage]:
        """All of them, in order."""
        return list(self._messages.values())

    def clear(self) -> None:
        """The runtime is over."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _empty(self) -> None:
        with contextlib.suppress(OSError):  # what stays is sent again, and the node takes nothing twice
            os.truncate(self._path, 0)


def read_outbox(home: str) -> list[dict[str, dict[str, Any]]]:
    """The cells in the outbox of a runtime, as a page is told of them: header, metadata and content of each request."""
    cells = []
    for message in Outbox(home).load(()):
        header, _, metadata, content = map(json_object, message.parts[:4])
        if header.get("msg_type") == "execute_request" and metadata.get("cellId"):
            cells.append({"header": header, "metadata": metadata, "content": content})
    return cells


def _parse(line: bytes) -> ClientMessage | None:
    """One line; None if it is damaged, as one that was being written when its relay was killed."""
    try:
        content = json.loads(line)
        parts = [base64.b64decode(part) for part in content["parts"]]
        return ClientMessage(b"", str(json_object(parts[0])["msg_id"]), str(content["channel"]), parts)
    except (ValueError, KeyError, TypeError, IndexError):
        return None
