"""The long-lived child that asks NVML: a driver may hang or crash it, and nobody here waits for it.

Imports little: whoever wants figures quickly starts the child first, and the rest while its NVML starts.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ownlab.instruments.top.records import CardSample

__all__ = ["PENDING", "CardsChild", "hasten", "take_hastened"]

# Said while the first answer is on its way.
PENDING = "NVML has not answered yet"

_LAUNCH = Path(__file__).resolve().parents[3] / "ownlab_guest" / "launch.py"
# A driver without persistence mode takes seconds to start; longer than this it hangs.
_HANGS_AFTER = 20.0
_LONGEST_PAUSE = 60.0
_MOST_BYTES = 4 * 1024**2


class CardsChild:
    """Asks NVML in a child of its own; started when first needed, and again, later and later, where it fails."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._child: subprocess.Popen[bytes] | None = None
        self._out = -1
        self._asked_at: float | None = None  # an answer is on its way
        self._said = b""
        self._pause = 1.0
        self._start_at = 0.0
        self._renew_at = 0.0
        self._trouble = ""

    @property
    def pid(self) -> int | None:
        """The child's number, while there is one."""
        return None if self._child is None else self._child.pid

    def begin(self) -> None:
        """Put the question, and do not wait: the child, if need be, starts meanwhile."""
        now = time.monotonic()
        if self._child is None and now >= self._start_at:
            self._start()
        if self._child is None or self._child.stdin is None or self._asked_at is not None:
            return
        self._asked_at = now
        with contextlib.suppress(OSError):  # it has ended; what it said is read by whoever waits for the answer
            self._child.stdin.write(b"\n")
            self._child.stdin.flush()

    def ask(self, *, within: float = 1.0) -> tuple[tuple[CardSample, ...], str]:
        """What each card did since it was asked last, and "" or why that is not known. Blocks for `within` seconds at most."""
        self.begin()
        line = self._read_line(time.monotonic() + within)
        if line:
            return self._take(line)
        if self._asked_at is not None and time.monotonic() - self._asked_at > _HANGS_AFTER:
            self._give_up(f"NVML did not answer in {_HANGS_AFTER:g} s")
        return (), self._trouble or PENDING

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
                # Without site, which takes as long as all of Python: one folder is all that it would be needed for.
                [sys.executable, "-S", str(_LAUNCH), "probe.nvml_sampler", str(theirs), _bindings()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                pass_fds=(theirs,),
                start_new_session=True,  # Ctrl-C in a terminal is meant for us
            )
        except OSError as exc:
            os.close(self._out)
            self._back_off(f"{sys.executable} cannot be started: {exc.strerror}")
        finally:
            os.close(theirs)

    def _read_line(self, deadline: float) -> bytes:
        while self._child is not None and b"\n" not in self._said:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return b""
            part = os.read(self._out, 1 << 16)
            self._said += part
            if not part:
                self._give_up(f"the child that asks NVML {_how_it_ended(self._child)}")
            elif len(self._said) > _MOST_BYTES:
                self._give_up("the child that asks NVML says too much")
        line, _, self._said = self._said.partition(b"\n")
        return line

    def _take(self, line: bytes) -> tuple[tuple[CardSample, ...], str]:
        self._asked_at = None
        cards, error = _decode(line)
        if error:  # the driver may be mended meanwhile: a new child will see
            self._give_up(error)
            return (), self._trouble
        if any(card.lost for card in cards):
            self._renew()
        else:
            self._pause, self._renew_at, self._trouble = 1.0, 0.0, ""
        return cards, ""

    def _renew(self) -> None:
        """NVML that has lost a card finds it after a reset only when it starts anew: now and then, a new child tries."""
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


_hastened: list[CardsChild] = []


def hasten() -> None:
    """Start a child and put the first question, before anybody has a use for it."""
    child = CardsChild()
    child.begin()
    _hastened.append(child)


def take_hastened() -> CardsChild | None:
    """The child that was started in advance, if one was."""
    return _hastened.pop() if _hastened else None


def _bindings() -> str:
    """The folder of NVIDIA's bindings in this environment; "" where they are not installed."""
    for folder in sys.path:
        if os.path.isfile(os.path.join(folder, "pynvml.py")):
            return folder
    return ""


# Made when the first answer has come: the libraries for it load while NVML starts.
_decoder: Any = None


def _decode(line: bytes) -> tuple[tuple[CardSample, ...], str]:
    global _decoder
    import msgspec

    if _decoder is None:
        from ownlab.instruments.top.records import CardSample

        answer = msgspec.defstruct("Answer", [("error", str, ""), ("cards", tuple[CardSample, ...], ())], frozen=True)
        _decoder = msgspec.json.Decoder(answer)
    try:
        found = _decoder.decode(line)
    except msgspec.DecodeError as exc:
        return (), f"the child that asks NVML said what cannot be read: {exc}"
    return found.cards, found.error


def _how_it_ended(child: subprocess.Popen[bytes]) -> str:
    from ownlab.processes.runner import describe_exit

    try:
        return describe_exit(child.wait(timeout=0.5))
    except subprocess.TimeoutExpired:
        return "closed its answers and did not end"
