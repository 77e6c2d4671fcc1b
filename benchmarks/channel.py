"""A page's websocket to a kernel, in Jupyter's binary protocol; it follows the kernel's journal where the server has one."""

from __future__ import annotations

import json
import struct
import uuid
from typing import Any

import websocket
from benchmarks.lab import Server

__all__ = ["Channel"]

PROTOCOL = "v1.kernel.websocket.jupyter.org"


class Channel:
    """Counts received messages and reads only the header of each: the same work on both sides."""

    def __init__(self, server: Server, kernel: str, after: str | None = None) -> None:
        """`after`: a number, or "now"; None for Jupyter's own behaviour."""
        self.session, self.received = uuid.uuid4().hex, 0
        query = f"session_id={self.session}" + ("" if after is None else f"&ownlab_after={after}")
        self._skip = 0 if after is None else 8  # the message's number
        self._socket = websocket.create_connection(
            f"{server.url.replace('http', 'ws')}/api/kernels/{kernel}/channels?{query}",
            header=server.headers,
            subprotocols=[PROTOCOL],
            timeout=300,
        )

    def run(self, code: str, cell: str = "cell-0") -> None:
        """Run a cell and receive all its messages."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": self.session, "username": "",
                  "date": "2026-01-01T00:00:00Z", "version": "5.3"}  # fmt: skip
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        self._socket.send_binary(_pack(header, {}, {"cellId": cell}, content))
        while True:
            kind, parent, body = self._next()
            if kind == "status" and parent == header["msg_id"] and b'"idle"' in body:
                return

    def _next(self) -> tuple[str, str, bytes]:
        while isinstance(data := self._socket.recv(), str):
            pass  # a word of our server's, no message
        self.received += len(data)
        view = memoryview(data)[self._skip :]
        (count,) = struct.unpack_from("<Q", view)
        places = struct.unpack_from(f"<{count}Q", view, 8)
        header, parent = (json.loads(bytes(view[places[at] : places[at + 1]])) for at in (1, 2))
        small = b"" if places[5] - places[4] > 1000 else bytes(view[places[4] : places[5]])
        return header["msg_type"], parent.get("msg_id", ""), small

    def close(self) -> None:
        self._socket.close()


def _pack(*parts: dict[str, Any]) -> bytes:
    pieces = [b"shell", *(json.dumps(part).encode() for part in parts)]
    places = [8 * (len(pieces) + 2)]
    for piece in pieces:
        places.append(places[-1] + len(piece))
    return struct.pack(f"<{len(places) + 1}Q", len(places), *places) + b"".join(pieces)
