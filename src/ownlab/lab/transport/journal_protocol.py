"""What a supervisor and those who follow its runtime say to each other on the line. Standard library alone."""

from __future__ import annotations

import os
import struct

from ownlab.lab.journal.records import CHANNELS, Record

__all__ = ["AGAIN", "BYE", "FOLLOW", "HELLO", "RECORD", "RELEASED", "SEND", "line_address", "pack", "unpack"]

# Said by a follower.
FOLLOW = b"follow"  # {"only": null or ["status"]}: from now on tell me everything, or of iopub status messages alone
SEND = b"send"  # channel, header, parent header, metadata, content, buffers …: pass this on to the kernel
BYE = b"bye"
# Said by the supervisor.
HELLO = b"hello"  # {"position", "busy", "execution_state", "kernel_info", "launch", "kernel_session"}
RECORD = b"record"  # head, parts …: what has just been written
AGAIN = b"again"  # message id: this was sent before, and is not passed on a second time

# Why a runtime ended, where its own notebook wanted that: `runtime.unassign()` of google.colab.
RELEASED = "its notebook released it"

_HEAD = struct.Struct("<QdBB")


def line_address(sockets: str) -> str:
    """Where a runtime's line is; the folder is its owner's alone."""
    return "ipc://" + os.path.join(sockets, "line")


def pack(record: Record) -> list[bytes]:
    """A record as it is sent."""
    head = _HEAD.pack(record.number, record.at, CHANNELS.index(record.channel), record.to_kernel)
    return [RECORD, head, *record.parts]


def unpack(frames: list[bytes]) -> Record:
    """A record from what was received, RECORD included."""
    number, at, channel, to_kernel = _HEAD.unpack(frames[1])
    return Record(number, CHANNELS[channel], bool(to_kernel), at, tuple(frames[2:]))
