"""The messages of the journal socket between a supervisor and the clients that follow it. Standard library only."""

from __future__ import annotations

import os
import struct

from ownlab.lab.journal.records import CHANNELS, Record

__all__ = ["BYE", "DUPLICATE", "FOLLOW", "HELLO", "RECORD", "RELEASED", "SEND", "journal_address", "pack", "unpack"]

# Sent by clients.
FOLLOW = b"follow"  # {"only": null or ["status"]}: send me everything from now on, or on iopub status messages only
SEND = b"send"  # channel, header, parent header, metadata, content, buffers …: forward this to the kernel
BYE = b"bye"
# Sent by the supervisor.
HELLO = b"hello"  # {"position", "busy", "execution_state", "kernel_info", "launch", "kernel_session"}
RECORD = b"record"  # head, parts …: a record that was just written to the journal
DUPLICATE = b"again"  # message id: it was sent before and is not forwarded again

# The reason for an end that the notebook itself asked for: `runtime.unassign()` of google.colab.
RELEASED = "its notebook released it"

_HEAD = struct.Struct("<QdBB")


def journal_address(sockets: str) -> str:
    """The address of a runtime's journal socket. Only the owner may enter its folder."""
    return "ipc://" + os.path.join(sockets, "line")


def pack(record: Record) -> list[bytes]:
    """Pack a record into frames."""
    head = _HEAD.pack(record.number, record.at, CHANNELS.index(record.channel), record.to_kernel)
    return [RECORD, head, *record.parts]


def unpack(frames: list[bytes]) -> Record:
    """Unpack a record from received frames, RECORD included."""
    number, at, channel, to_kernel = _HEAD.unpack(frames[1])
    return Record(number, CHANNELS[channel], bool(to_kernel), at, tuple(frames[2:]))
