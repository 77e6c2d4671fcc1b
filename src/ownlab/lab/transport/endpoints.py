"""Endpoints: the URLs at which a runtime is reached, ipc:///FOLDER/NAME or tcp://HOST:PORT. Standard library only.

A Unix socket is protected by its folder, which only its owner may enter. On TCP both sides encrypt, and have the same
pair of keys, as Jupyter's clients do: who does not have the secret key is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ownlab.errors import LabError
from ownlab.text import text

if TYPE_CHECKING:  # supervisors fork before they import it
    import zmq

__all__ = ["JUPYTER_CHANNELS", "Endpoint", "channel_endpoint", "unix_endpoint", "with_endpoint"]

# Jupyter's five channels, in the order of their numbers on Unix sockets.
JUPYTER_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")

_IPC, _TCP = "ipc://", "tcp://"


class Endpoint(NamedTuple):
    """Where a socket is bound, and the keys of both sides; without keys nothing is encrypted."""

    url: str
    public_key: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"  # never the secret key: it might get into a log

    @property
    def is_unix(self) -> bool:
        """Whether it is a Unix socket."""
        return self.url.startswith(_IPC)

    @property
    def path(self) -> str:
        """The path of a Unix socket."""
        if not self.is_unix:
            raise LabError(text("{url} is not a Unix socket.", url=self.url))
        return self.url[len(_IPC) :]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of a TCP endpoint. Host "": all addresses of the machine ("*"); port 0: any free one."""
        host, _, port = self.url.removeprefix(_TCP).rpartition(":")
        if not self.url.startswith(_TCP) or not host or not port.isdecimal() or int(port) > 65535:
            raise LabError(text("{url} is not an endpoint: ipc:///PATH or tcp://HOST:PORT is required.", url=self.url))
        return "" if host == "*" else host.removeprefix("[").removesuffix("]"), int(port)

    def connect(self, socket: zmq.Socket[bytes]) -> None:
        """Connect a client's socket."""
        if self.public_key:
            socket.curve_publickey, socket.curve_secretkey = self.public_key.encode(), self.secret_key.encode()
            socket.curve_serverkey = self.public_key.encode()
        socket.connect(self.url)


def unix_endpoint(folder: str, name: str) -> Endpoint:
    """The socket of this name in a private folder."""
    return Endpoint(_IPC + os.path.join(folder, name))


def channel_endpoint(connection: Mapping[str, Any], channel: str) -> Endpoint:
    """The endpoint of a channel, from a Jupyter connection file."""
    ip, port = connection["ip"], connection.get(f"{channel}_port") or 0
    if connection.get("transport") == "ipc":
        return Endpoint(f"{_IPC}{ip}-{port}")
    host = f"[{ip}]" if ":" in ip else ip
    keys = str(connection.get("curve_publickey") or ""), str(connection.get("curve_secretkey") or "")
    return Endpoint(f"{_TCP}{host}:{port}", *keys)


def with_endpoint(connection: Mapping[str, Any], channel: str, endpoint: Endpoint) -> dict[str, Any]:
    """The connection, with the endpoint at which a channel was bound."""
    if endpoint.is_unix:
        ip, _, port = endpoint.path.rpartition("-")
        return {**connection, "transport": "ipc", "ip": ip, f"{channel}_port": int(port)}
    return {**connection, "transport": "tcp", f"{channel}_port": endpoint.address[1]}
