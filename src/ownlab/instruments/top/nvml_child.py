"""The long-lived child process that queries NVML. If the driver hangs or crashes, only the child is affected.

Imports little: the child is started first, and everything else loads while its NVML starts.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.instruments.top.records import CardSample

__all__ = ["GPM_PENDING", "PENDING", "NvmlChild", "prestart", "take_prestarted"]

# The trouble of a sample while the first answer is on its way.
PENDING = text("NVML has not answered yet")
# Why a card's first sample has no saturation. The child sends the code `_GPM_PENDING_CODE` (ownlab_guest.probe.gpm).
GPM_PENDING = text("the first figures come with the second sample")

_GPM_PENDING_CODE = "pending"

_LAUNCH = Path(__file__).resolve().parents[3] / "ownlab_guest" / "launch.py"
# A driver without persistence mode takes seconds to start; longer than this it hangs.
_HANGS_AFTER = 20.0
_LONGEST_PAUSE = 60.0
_MOST_BYTES = 4 * 1024**2


class NvmlChild:
    """Queries NVML in a child process, started on demand and restarted after failures with growing delays."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._child: subprocess.Popen[bytes] | None = None
        self._out = -1
        self._asked_at: float | None = None  # a request is pending
        self._buffer = b""
        self._pause = 1.0
        self._start_at = 0.0
        self._renew_at = 0.0
        self._trouble = ""

    @property
    def pid(self) -> int | None:
        """The process id of the child, while it runs."""
        return None if self._child is None else self._child.pid

    def begin(self) -> None:
        """Send a request without waiting for the answer; start the child if necessary."""
        now = time.monotonic()
        if self._child is None and now >= self._start_at:
            self._start()
        if self._child is None or self._child.stdin is None or self._asked_at is not None:
            return
        self._asked_at = now
        with contextlib.suppress(OSError):  # it has ended; the next `ask` reads why
            self._child.stdin.write(b"\n")
            self._child.stdin.flush()

    def ask(self, *, within: float = 1.0) -> tuple[tuple[CardSample, ...], str]:
        """Return the cards since the last call, and "" or why they are unknown. Blocks for at most `within` seconds."""
        self.begin()
        line = self._read_line(time.monotonic() + within)
        if line:
            return self._take(line)
        if self._asked_at is not None and time.monotonic() - self._asked_at > _HANGS_AFTER:
            self._give_up(text("NVML did not answer in {seconds:g} s", seconds=_HANGS_AFTER))
        return (), self._trouble or PENDING

    def close(self) -> None:
        """Stop the child."""
        child, self._child, self._asked_at, self._buffer = self._child, None, None, b""
        if child is None:
            return
        with contextlib.suppress(OSError):  # its end of the pipe may be closed already
            if child.stdin is not None:
                child.stdin.close()
        os.close(self._out)
        child.kill()
        # A child that is stuck in the driver cannot be killed: another thread waits for it.
        threading.Thread(target=child.wait, daemon=True).start()

    def _start(self) -> None:
        self._out, theirs = os.pipe()
        try:
            self._child = subprocess.Popen(
                # -S: importing site takes as long as the rest of Python, and only one of its folders is needed.
                [sys.executable, "-S", str(_LAUNCH), "probe.nvml_sampler", str(theirs), _bindings()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                pass_fds=(theirs,),
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
            )
        except OSError as exc:
            os.close(self._out)
            self._back_off(text("cannot start {python}: {reason}", python=sys.executable, reason=exc.strerror))
        finally:
            os.close(theirs)

    def _read_line(self, deadline: float) -> bytes:
        while self._child is not None and b"\n" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return b""
            part = os.read(self._out, 1 << 16)
            self._buffer += part
            if not part:
                self._give_up(text("the NVML child process {ending}", ending=_describe_end(self._child)))
            elif len(self._buffer) > _MOST_BYTES:
                self._give_up(text("the NVML child process sent too much data"))
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _take(self, line: bytes) -> tuple[tuple[CardSample, ...], str]:
        self._asked_at = None
        cards, error = _decode(line)
        if error:  # the driver may be repaired meanwhile: a new child will notice
            self._give_up(error)
            return (), self._trouble
        if any(card.lost for card in cards):
            self._renew()
        else:
            self._pause, self._renew_at, self._trouble = 1.0, 0.0, ""
        return cards, ""

    def _renew(self) -> None:
        """Restart the child now and then: NVML finds a lost card after a reset only if it is initialised again."""
        if time.monotonic() >= self._renew_at:
            self.close()
            self._renew_at = time.monotonic() + self._longer_pause()

    def _give_up(self, why: str) -> None:
        self.close()
        self._back_off(why)

    def _back_off(self, why: str) -> None:
        self._trouble = why
        self._start_at = time.monotonic() + self._longer_pause()

    def _longer_pause(self) -> float:
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return pause


_prestarted: list[NvmlChild] = []


def prestart() -> None:
    """Start a child and send the first request, before anything needs it."""
    child = NvmlChild()
    child.begin()
    _prestarted.append(child)


def take_prestarted() -> NvmlChild | None:
    """Return the child that was started in advance, if any."""
    return _prestarted.pop() if _prestarted else None


def _bindings() -> str:
    """Return the folder of NVIDIA's Python bindings; "" if they are not installed."""
    for folder in sys.path:
        if os.path.isfile(os.path.join(folder, "pynvml.py")):
            return folder
    return ""


# Created at the first answer: its libraries load while NVML starts.
_decoder: Any = None


def _decode(line: bytes) -> tuple[tuple[CardSample, ...], str]:
    global _decoder
    import msgspec

    if _decoder is None:
        from ownlab.instruments.top.records import CardSample
        from ownlab.json_encoding import decode_guest_json

        kind = msgspec.defstruct("Answer", [("error", str, ""), ("cards", tuple[CardSample, ...], ())], frozen=True)
        _decoder = partial(decode_guest_json, kind=kind)
    try:
        answer = _decoder(line)
    except msgspec.DecodeError as exc:
        return (), text("the answer of the NVML child process cannot be parsed: {error}", error=exc)
    cards = answer.cards
    if any(card.no_saturation == _GPM_PENDING_CODE for card in cards):
        cards = tuple(
            msgspec.structs.replace(card, no_saturation=GPM_PENDING)
            if card.no_saturation == _GPM_PENDING_CODE
            else card
            for card in cards
        )
    return cards, answer.error


def _describe_end(child: subprocess.Popen[bytes]) -> str:
    from ownlab.processes.runner import describe_exit

    try:
        return describe_exit(child.wait(timeout=0.5))
    except subprocess.TimeoutExpired:
        return text("closed its output but did not exit")
