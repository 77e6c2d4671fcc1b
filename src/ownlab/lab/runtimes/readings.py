"""How full and how busy the cards are right now: from a long-lived child that asks NVML, or from a recorded machine."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.guests.children import describe_exit
from ownlab.lab.store.rows import Device
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Machine

__all__ = ["CardReading", "NvmlWatch", "recorded_readings"]

_LAUNCH = Path(__file__).resolve().parents[3] / "ownlab_guest" / "launch.py"
# A driver without persistence mode takes seconds to start; longer than this it hangs.
_HANGS_AFTER = 20.0
_LONGEST_PAUSE = 60.0
_MOST_BYTES = 4 * 1024**2


class CardReading(Struct, frozen=True):
    """One card or MIG instance. None: the driver does not tell."""

    uuid: str
    memory_used: int | None = None
    utilisation: int | None = None  # percent
    processes: dict[int, int | None] | None = None  # pid -> bytes


class _Answer(Struct, frozen=True):
    error: str = ""
    cards: tuple[CardReading, ...] = ()


class NvmlWatch:
    """Asks NVML in a child of its own, which a driver may hang or crash; started when first needed, and again later."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._child: subprocess.Popen[bytes] | None = None
        self._out = -1
        self._asked_at: float | None = None  # an answer is on its way
        self._said = b""
        self._pause = 1.0
        self._start_at = 0.0
        self._trouble = ""

    def ask(self, *, within: float = 1.0) -> tuple[tuple[CardReading, ...], str]:
        """The readings, and "" or why there are none. Blocks for `within` seconds at most."""
        now = time.monotonic()
        if self._child is None:
            if now < self._start_at:
                return (), self._trouble
            self._start()
        if self._asked_at is None:
            try:
                self._write_line()
            except OSError:  # it has ended; what it said is read below
                self._asked_at = now
        line = self._read_line(now + within)
        if line:
            return self._take(line)
        if self._child is not None and time.monotonic() - (self._asked_at or now) > _HANGS_AFTER:
            self._give_up(f"NVML did not answer in {_HANGS_AFTER:g} s")
        return (), self._trouble or "NVML has not answered yet"

    def close(self) -> None:
        """End the child."""
        child, self._child, self._asked_at, self._said = self._child, None, None, b""
        if child is None:
            return
        with contextlib.suppress(OSError):  # its end of the pipe may be closed already
            if child.stdin is not None:
                child.stdin.close()
        os.close(self._out)
        child.kill()
        # One that is stuck in the driver cannot be killed: it is waited for elsewhere, so that nobody here hangs.
        threading.Thread(target=child.wait, daemon=True).start()

    def _start(self) -> None:
        self._out, theirs = os.pipe()
        try:
            self._child = subprocess.Popen(
                [sys.executable, str(_LAUNCH), "probe.watch", str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                pass_fds=(theirs,),
                start_new_session=True,  # Ctrl-C in a terminal is meant for the lab
            )
        except OSError as exc:
            os.close(self._out)
            self._back_off(f"{sys.executable} cannot be started: {exc.strerror}")
        finally:
            os.close(theirs)

    def _write_line(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._asked_at = time.monotonic()
            self._child.stdin.write(b"\n")
            self._child.stdin.flush()

    def _read_line(self, deadline: float) -> bytes:
        while self._child is not None and b"\n" not in self._said:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return b""
            part = os.read(self._out, 1 << 16)
            self._said += part
            if not part:
                self._give_up(f"the child that asks NVML {_how_it_ended(self._child)}")
                return b""
            if len(self._said) > _MOST_BYTES:
                self._give_up("the child that asks NVML says too much")
                return b""
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _take(self, line: bytes) -> tuple[tuple[CardReading, ...], str]:
        self._asked_at = None
        try:
            answer = msgspec.json.decode(line, type=_Answer)
        except msgspec.DecodeError as exc:
            self._give_up(f"the child that asks NVML said what cannot be read: {exc}")
            return (), self._trouble
        if answer.error:  # the driver may be mended meanwhile: a new child will see
            self._give_up(answer.error)
            return (), self._trouble
        self._pause, self._trouble = 1.0, ""
        return answer.cards, ""

    def _give_up(self, why: str) -> None:
        self.close()
        self._back_off(why)

    def _back_off(self, why: str) -> None:
        self._trouble = why
        self._start_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _how_it_ended(child: subprocess.Popen[bytes]) -> str:
    try:
        return describe_exit(child.wait(timeout=0.5))
    except subprocess.TimeoutExpired:
        return "closed its answers and did not end"


def recorded_readings(machine: Machine, devices: tuple[Device, ...]) -> tuple[CardReading, ...]:
    """What the record says of these devices; its processes are those of another machine and of no use here."""
    cards: dict[tuple[str, int], Card] = {(card.vendor, card.index): card for card in value_of(machine.cards) or ()}
    found = []
    for device in devices:
        card = cards.get((device.vendor, device.number))
        if card is not None and not device.whole_only:
            found.append(CardReading(device.uuid, value_of(card.memory_used), value_of(card.utilisation), {}))
    return tuple(found)
