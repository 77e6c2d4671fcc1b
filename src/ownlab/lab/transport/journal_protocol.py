"""The messages of the journal socket between a supervisor and the clients that follow it. Standard library only."""

from __future__ import annotations

import struct

from ownlab.lab.journal.records import CHANNELS, Record
from ownlab.text import text

__all__ = [
    "ACK",
    "ACK_BYTES",
    "ANSWER",
    "BYE",
    "COMMAND",
    "DROPPED",
    "DUPLICATE",
    "FETCH",
    "FETCHED",
    "FOLLOW",
    "HELLO",
    "ORDERED",
    "PING",
    "RECORD",
    "RELEASED",
    "SEND",
    "STORED",
    "pack",
    "unpack",
]

# Sent by clients.
FOLLOW = b"follow"  # {"only": null or ["status"]}: send me everything from now on, or on iopub status messages only
# With {"page": true} in FOLLOW, somebody looks at the runtime as long as the client is connected.
# With {"acknowledges": true} in FOLLOW, a client that falls behind is dropped instead of kept waiting in memory.
ACK = b"ack"  # the number of bytes in the records that it has handled since FOLLOW
SEND = b"send"  # channel, header, parent header, metadata, content, buffers …: forward this to the kernel; only after FOLLOW
BYE = b"bye"
# Sent by the relay of a runtime on another machine, which has neither its journal nor its control socket.
FETCH = b"fetch"  # number: send me records above it from the journal on disk, as many as are sent at once
ORDERED = b"ordered"  # series, number, then as SEND: forward it if all lower numbers of the series were; otherwise it comes again
COMMAND = b"command"  # id, {"do": …}: as on the control socket
# Sent by the supervisor.
HELLO = b"hello"  # {"position", "busy", "execution_state", "kernel_info", "launch", "kernel_session", "ordered"}
RECORD = b"record"  # head, parts …: a record that was just written to the journal
DUPLICATE = b"again"  # message id: it was sent before and is not forwarded again
PING = b"ping"  # needs no reply: it is sent to learn whether a client is still connected
STORED = b"stored"  # head, parts …: a record that was fetched
FETCHED = (
    b"fetched"  # number, b"more" or b"end": everything up to it was sent; in the journal there is more, or not now
)
ANSWER = b"answer"  # id, {"ok": …}: the answer to a command
DROPPED = b"dropped"  # number: nothing more is sent; records up to this number are on disk; follow again

ACK_BYTES = 1 << 20  # an acknowledgement is due after so many

# The reason for an end that the notebook itself asked for: `runtime.unassign()` of google.colab.
RELEASED = text("its notebook released it")

_HEAD = struct.Struct("<QdBB")


def pack(record: Record, kind: bytes = RECORD) -> list[bytes]:
    """Pack a record into frames."""
    head = _HEAD.pack(record.number, record.at, CHANNELS.index(record.channel), record.to_kernel)
    return [kind, head, *record.parts]


def unpack(frames: list[bytes]) -> Record:
    """Unpack a record from received frames, the kind included."""
    number, at, channel, to_kernel = _HEAD.unpack(frames[1])
    return Record(number, CHANNELS[channel], bool(to_kernel), at, tuple(frames[2:]))
