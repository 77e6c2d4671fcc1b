"""Kernel messages as bytes: the framing v1.kernel.websocket.jupyter.org, and messages made by the server itself.

Framing does not parse the messages.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import pairwise
from typing import NamedTuple

from ownlab.lab.server.kernel_activity import KernelState

__all__ = ["PROTOCOL", "KernelMessage", "frame", "make_message", "state_messages", "status_message", "unframe"]

PROTOCOL = "v1.kernel.websocket.jupyter.org"

_WORD = struct.Struct("<Q")
_MESSAGE_VERSION = "5.3"  # version of the Jupyter message protocol that ipykernel uses
_PARTS = 4  # header, parent header, metadata, content; then buffers


def frame(number: int, channel: str, parts: Sequence[bytes]) -> bytes:
    """Return a message as a websocket frame for a page: its journal number (0: none), then Jupyter's own framing."""
    pieces = (channel.encode(), *parts)
    count = len(pieces) + 1
    offset = _WORD.size * (1 + count)
    offsets = [offset]
    for piece in pieces:
        offset += len(piece)
        offsets.append(offset)
    return b"".join((struct.pack(f"<{2 + count}Q", number, count, *offsets), *pieces))


def unframe(data: bytes) -> tuple[str, list[bytes]]:
    """Return the channel and the parts of a page's websocket frame. Raises ValueError if it is malformed."""
    try:
        (count,) = _WORD.unpack_from(data)
        offsets = struct.unpack_from(f"<{count}Q", data, _WORD.size)
    except (struct.error, OverflowError, MemoryError) as exc:
        raise ValueError("the frame is truncated") from exc
    if count < _PARTS + 2 or offsets[-1] > len(data) or list(offsets) != sorted(offsets):
        raise ValueError("the offsets of the message parts are invalid")
    channel, *parts = (data[start:end] for start, end in pairwise(offsets))
    return channel.decode(), parts


class KernelMessage(NamedTuple):
    """A message made by the server in place of a kernel."""

    channel: str
    parts: list[bytes]


def make_message(
    channel: str,
    kind: str,
    content: bytes,
    parent: bytes = b"{}",
    *,
    session: str,
    buffers: Sequence[bytes] = (),
) -> KernelMessage:
    """Make a message.

    `session` must be the kernel's own: when another session sends, JupyterLab drops the messages it has not handled
    yet.
    """
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "username": "ownlab",
        "session": session,
        "date": datetime.now(timezone.utc).isoformat(),
        "version": _MESSAGE_VERSION,
    }
    return KernelMessage(channel, [json.dumps(header).encode(), parent, b"{}", content, *buffers])


def status_message(state: str, session: str, parent: bytes = b"{}") -> KernelMessage:
    """Make a status message."""
    return make_message("iopub", "status", json.dumps({"execution_state": state}).encode(), parent, session=session)


def state_messages(state: KernelState, parent: bytes = b"{}") -> list[KernelMessage]:
    """Return the kernel's state as a status message.

    Empty for a kernel that has just died: a page that receives "dead" gives the kernel up for good.
    """
    if state.execution_state not in ("starting", "idle", "busy"):
        return []
    return [status_message(state.execution_state, state.session, parent)]
