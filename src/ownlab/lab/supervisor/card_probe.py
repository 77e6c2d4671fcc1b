"""Reads the cards in a short child process, while a runtime waits for one or before it counts as idle."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from ownlab.lab.store.rows import Device
from ownlab.lab.supervisor.state_writer import log

__all__ = ["CardProbe"]

_TIMEOUT = 90.0  # seconds: a driver that has to initialise each card is slow


class CardProbe:
    """Runs one probe at a time and never blocks. The probe prints a JSON array of devices, with "utilisation" (percent)
    where it is known."""

    def __init__(self, argv: list[str] | None) -> None:
        self._argv = argv
        self.pid = 0  # 0 after it was reaped
        self._out = -1
        self._output = b""
        self._deadline = 0.0
        self.answers = 0
        self.devices: tuple[Device, ...] = ()
        self.working: frozenset[str] = frozenset()

    def start(self, env: dict[str, str]) -> None:
        """Start the probe unless it is running. `due` is None while no answer is pending."""
        if not self._argv or self._out >= 0:
            return
        out, inward = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(out, False)
        try:
            self.pid = os.posix_spawn(
                self._argv[0], self._argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, inward, 1)], setsigmask=()
            )
        except OSError as exc:
            log(f"the cards cannot be read: {exc.strerror}: {self._argv[0]}")
            os.close(out)
            return
        finally:
            os.close(inward)
        self._out, self._output, self._deadline = out, b"", time.monotonic() + _TIMEOUT

    def descriptors(self) -> list[int]:
        return [self._out] if self._out >= 0 else []

    def due(self) -> float | None:
        return self._deadline if self._out >= 0 else None

    def expire(self, now: float) -> None:
        if self._out >= 0 and self._deadline <= now:
            log("the cards cannot be read: no answer")
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
            self._finish()

    def serve(self) -> None:
        """Read from the pipe, which is readable."""
        try:
            chunk = os.read(self._out, 1 << 16)
        except BlockingIOError:
            return
        self._output += chunk
        if not chunk:
            self._finish()

    def _finish(self) -> None:
        os.close(self._out)
        self._out = -1
        self.answers += 1
        try:
            entries = json.loads(self._output)
            self.devices = tuple(_device(entry) for entry in entries)
            self.working = frozenset(entry["uuid"] for entry in entries if (entry.get("utilisation") or 0) >= 5)
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            log(f"the cards cannot be read: {exc!r}")


def _device(given: dict[str, Any]) -> Device:
    known = {key: value for key, value in given.items() if key in Device._fields}
    return Device(**{**known, "strangers": tuple(known.get("strangers", ()))})
