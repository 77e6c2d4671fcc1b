"""Reads the cards anew while a runtime waits for one, or before it is called idle: a short child process."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from ownlab.lab.store.rows import Device
from ownlab.lab.supervisor.state_writer import say

__all__ = ["Probe"]

_PATIENCE = 90.0  # seconds: a driver that has to start each card anew is slow


class Probe:
    """One question at a time, never waited for. What it prints: a JSON array of devices, with "utilisation" (percent)
    where that is known."""

    def __init__(self, argv: list[str] | None) -> None:
        self._argv = argv
        self.pid = 0  # 0 once it was waited for
        self._out = -1
        self._said = b""
        self._until = 0.0
        self.answers = 0
        self.devices: tuple[Device, ...] = ()
        self.working: frozenset[str] = frozenset()

    def ask(self, env: dict[str, str]) -> None:
        """Start it, unless it runs already; `due` tells whether an answer is awaited."""
        if not self._argv or self._out >= 0:
            return
        out, inward = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(out, False)
        try:
            self.pid = os.posix_spawn(
                self._argv[0], self._argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, inward, 1)], setsigmask=()
            )
        except OSError as exc:
            say(f"the cards cannot be read: {exc.strerror}: {self._argv[0]}")
            os.close(out)
            return
        finally:
            os.close(inward)
        self._out, self._said, self._until = out, b"", time.monotonic() + _PATIENCE

    def descriptors(self) -> list[int]:
        return [self._out] if self._out >= 0 else []

    def due(self) -> float | None:
        return self._until if self._out >= 0 else None

    def expire(self, now: float) -> None:
        if self._out >= 0 and self._until <= now:
            say("the cards cannot be read: no answer")
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
            self._finish()

    def serve(self) -> None:
        """Its pipe has something."""
        try:
            chunk = os.read(self._out, 1 << 16)
        except BlockingIOError:
            return
        self._said += chunk
        if not chunk:
            self._finish()

    def _finish(self) -> None:
        os.close(self._out)
        self._out = -1
        self.answers += 1
        try:
            found = json.loads(self._said)
            self.devices = tuple(_device(one) for one in found)
            self.working = frozenset(one["uuid"] for one in found if (one.get("utilisation") or 0) >= 5)
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            say(f"the cards cannot be read: {exc!r}")


def _device(given: dict[str, Any]) -> Device:
    known = {key: value for key, value in given.items() if key in Device._fields}
    return Device(**{**known, "strangers": tuple(known.get("strangers", ()))})
