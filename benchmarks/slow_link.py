"""A link of a given rate and delay between two network namespaces, for kernels without netem: packets pass through this process.

Both ends are TUN devices, so that TCP has its real windows and its slow start. Needs root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Link", "slow_link"]

_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001  # linux/if_tun.h
_MTU = 60_000  # few packets: each is a pass through Python
_BUFFER = 16 * 2**20  # bytes that the link holds before it drops packets: more than 1 Gbit/s × 50 ms


class Link(NamedTuple):
    """The two ends: prefixes of commands, and the server's address."""

    server: list[str]
    client: list[str]
    address: str


def _tun(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
    return descriptor


class _Direction:
    """Packets from one end to the other: each leaves when the line is free, and arrives a delay later."""

    def __init__(self, source: int, target: int, bytes_per_second: float, delay: float) -> None:
        self._source, self._target, self._rate, self._delay = source, target, bytes_per_second, delay
        self._queue: deque[tuple[float, bytes]] = deque()
        self._held = 0
        self._ready = threading.Event()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def _read(self) -> None:
        free = time.monotonic()
        with contextlib.suppress(OSError):
            while packet := os.read(self._source, 65_536):
                if self._held > _BUFFER:
                    continue
                free = max(time.monotonic(), free) + len(packet) / self._rate
                self._held += len(packet)
                self._queue.append((free + self._delay, packet))
                self._ready.set()

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                if not self._queue:
                    self._ready.wait()
                    self._ready.clear()
                    continue
                due, packet = self._queue.popleft()
                if (pause := due - time.monotonic()) > 0:
                    time.sleep(pause)
                os.write(self._target, packet)
                self._held -= len(packet)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


@contextlib.contextmanager
def slow_link(bytes_per_second: float, round_trip: float) -> Iterator[Link]:
    """Make the link; it is removed afterwards."""
    names = [f"ownlab{end}{os.getpid() % 10_000}" for end in "ab"]
    ends = [_tun(name) for name in names]
    try:
        for name, address in zip(names, ("10.203.0.1/24", "10.203.0.2/24"), strict=True):
            _run("ip", "netns", "add", name)
            _run("ip", "link", "set", name, "netns", name)
            _run("ip", "-n", name, "addr", "add", address, "dev", name)
            _run("ip", "-n", name, "link", "set", name, "mtu", str(_MTU), "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
        for source, target in (ends, reversed(ends)):
            _Direction(source, target, bytes_per_second, round_trip / 2)
        server, client = (["ip", "netns", "exec", name] for name in names)
        yield Link(server, client, "10.203.0.1")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        for end in ends:
            os.close(end)
