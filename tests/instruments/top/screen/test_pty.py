"""`ownlab top` in a real terminal: keys in, characters out, and the terminal as it was afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.instruments.top.scenes import scene

from ownlab.json_encoding import encode_json

_CONTROLS = re.compile(r"\x1b(?:\[[0-9;:?<>=$]*[ -/]*[@-~]|\][^\x07]*\x07|[P_][^\x1b]*\x1b\\|[=>()][AB012]?)")
_COLOURS = re.compile(r"\x1b\[([0-9;]*)m")


# These variables would override the size of the terminal.
_SIZELESS = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


class Terminal:
    """A terminal of 80 columns with `ownlab top` in it."""

    def __init__(self, *arguments: str, env: dict[str, str]) -> None:
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        self.resize(80, 24)
        self.output = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ownlab", "top", *arguments],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**_SIZELESS, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **env},
            start_new_session=True,
        )

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def read(self, seconds: float = 0.1) -> None:
        ready, _, _ = select.select([self.ours], [], [], seconds)
        if ready:
            self.output += os.read(self.ours, 1 << 16).decode("utf-8", "replace")

    def shows(self, words: str, since: int = 0) -> int:
        """Wait for words; return the length of the output so far."""
        deadline = time.monotonic() + 180
        while words not in _CONTROLS.sub("", self.output[since:]):
            assert time.monotonic() < deadline, f"{words!r} not in {_CONTROLS.sub('', self.output[since:])!r}"
            assert self.process.poll() is None, self.output[-2000:]
            self.read()
        return len(self.output)

    def ends(self) -> int:
        """Its exit code."""
        deadline = time.monotonic() + 180
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.output[-2000:]
            self.read()
        while select.select([self.ours], [], [], 0)[0]:
            self.read()
        return self.process.wait()

    @property
    def is_as_before(self) -> bool:
        """Lines are echoed and edited again, and the main screen is back."""
        main = self.output.rfind("\x1b[?1049l") > self.output.rfind("\x1b[?1049h")
        return main and termios.tcgetattr(self.theirs) == self.before


@pytest.fixture
def stream(tmp_path: Path) -> dict[str, str]:
    """Return the environment with recorded cards and without runtimes."""
    path = tmp_path / "small.ndjson"
    path.write_bytes(b"".join(encode_json(each) + b"\n" for each in scene(20, "small")))
    return {"OWNLAB_STREAM": str(path), "OWNLAB_HOME": str(tmp_path / "home"), "OWNLAB_STORE": str(tmp_path / "store")}


@contextlib.contextmanager
def terminal(*arguments: str, env: dict[str, str]) -> Iterator[Terminal]:
    opened = Terminal(*arguments, env=env)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.process.wait()
        os.close(opened.ours)
        os.close(opened.theirs)


def test_keys_in_a_real_terminal(stream: dict[str, str]) -> None:
    with terminal("--interval", "0.2", env=stream) as top:
        so_far = top.shows("Small kernels: the card is busy 99 % of the time")
        top.press("e")
        so_far = top.shows("SMs active: 0.75 % (below 50 %)", so_far)
        top.press("e/bob\r")  # at once, as over a slow connection
        so_far = top.shows("only “bob”", so_far)
        top.press("k")
        so_far = top.shows("Process 815 is in another PID namespace", so_far)
        top.press("p")
        so_far = top.shows("PAUSED", so_far)
        top.resize(120, 40)
        top.process.send_signal(signal.SIGWINCH)  # a terminal of its own would send it
        so_far = top.shows("several runs on one card, fewer tiny", so_far)
        top.press("q")
        assert top.ends() == 0
        assert top.is_as_before


def test_without_colour_nothing_is_coloured(stream: dict[str, str]) -> None:
    with terminal(env={**stream, "NO_COLOR": "1"}) as top:
        top.shows("Small kernels")
        top.press("q")
        assert top.ends() == 0
        used = {code for codes in _COLOURS.findall(top.output) for code in codes.split(";")}
        assert used <= {"", "0", "1", "2", "3", "4", "7", "39", "49"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(stream: dict[str, str], number: signal.Signals) -> None:
    with terminal(env=stream) as top:
        top.shows("Small kernels")
        top.process.send_signal(number)
        assert top.ends() == 128 + number
        assert top.is_as_before
        assert "Traceback" not in top.output


def test_a_full_disk_ends_the_screen_with_an_error(stream: dict[str, str], tmp_path: Path) -> None:
    full = tmp_path / "full.ndjson"
    full.symlink_to("/dev/full")
    with terminal("--record", str(full), env=stream) as top:
        assert top.ends() == 3
        assert top.is_as_before
        assert "The recording stopped: the disk is full" in top.output.rpartition("\x1b[?1049l")[2]
