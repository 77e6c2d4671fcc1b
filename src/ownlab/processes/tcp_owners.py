"""The user at the other end of a TCP connection, if that end is on this machine."""

from __future__ import annotations

import socket
import sys

__all__ = ["peer_uid"]

_ESTABLISHED = "01"  # include/net/tcp_states.h. In other states the kernel may show user 0
_MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address in IPv6: ::ffff:127.0.0.1


def peer_uid(connection: socket.socket) -> int | None:
    """Return the id of the user who opened this connection; None if it is not of this machine, or closed already."""
    try:
        peer, own = _packed(connection.getpeername()), _packed(connection.getsockname())
    except OSError:  # it is closed
        return None
    tables = {"tcp": (peer[0][12:], own[0][12:]), "tcp6": (peer[0], own[0])}
    if not peer[0].startswith(_MAPPED):
        del tables["tcp"]
    for name, (peer_address, own_address) in tables.items():
        ends = [f"{_shown(peer_address)}:{peer[1]:04X}", f"{_shown(own_address)}:{own[1]:04X}", _ESTABLISHED]
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as table:
                for line in table:
                    fields = line.split(maxsplit=8)
                    if fields[1:4] == ends:
                        return int(fields[7])
        except FileNotFoundError:  # IPv6 is disabled
            continue
    return None


def _packed(address: tuple[object, ...]) -> tuple[bytes, int]:
    """The address as 16 bytes, and the port."""
    host, port = str(address[0]).partition("%")[0], int(str(address[1]))
    if ":" in host:
        return socket.inet_pton(socket.AF_INET6, host), port
    return _MAPPED + socket.inet_pton(socket.AF_INET, host), port


def _shown(address: bytes) -> str:
    """The address as /proc/net shows it: words of 32 bits in the order of this processor."""
    words = (address[start : start + 4] for start in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
