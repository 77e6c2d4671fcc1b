"""The stacks of a running process and of all below it, sampled by py-spy.

py-spy reads the memory of the process from outside (process_vm_readv), without stopping it. Its "raw" format has one line per stack, from
the outside in: `process 12:"python train.py";thread (12): MainThread;train (/home/ada/train.py:12) 34`, and then the number of samples.
"""

from __future__ import annotations

import re
import shutil
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ownlab.errors import InputError
from ownlab.instruments.why.attach.refusals import refusal
from ownlab.instruments.why.records import Place
from ownlab.processes.runner import run
from ownlab.text import text

__all__ = ["Stack", "find_py_spy", "is_user_code", "parse_stacks", "sample_stacks"]

# Samples per second: a part of 5 % is known to a few per cent after 10 s, and each sample costs the machine about a millisecond.
_RATE = 25
# What py-spy needs beside the time of sampling: to find Python's symbols in a large program, on a busy machine.
_EXTRA_SECONDS = 120.0
_PROCESS = re.compile(r"process (\d+):")
_THREAD = re.compile(r"thread \((\w+)\)(?:: (.*))?")
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d[\d.]*/|^<")


class Stack(NamedTuple):
    """One stack, and how often it was seen."""

    pid: int
    thread: str
    frames: tuple[Place, ...]  # the innermost last
    samples: int


def find_py_spy() -> str:
    """The program, beside this Python or on PATH. InputError if there is none."""
    scripts = sysconfig.get_path("scripts")
    found = shutil.which("py-spy", path=scripts) or shutil.which("py-spy")
    if found is None:
        raise InputError(
            text("--pid needs py-spy, which is not installed."),
            hint=text("Install it beside ownlab: pip install 'ownlab[attach]'"),
        )
    return found


def sample_stacks(pid: int, seconds: float) -> list[Stack]:
    """Sample a process and its children. InputError, with the reason, if that is impossible."""
    program = find_py_spy()
    with tempfile.TemporaryDirectory(prefix="ownlab-why-") as folder:
        path = Path(folder) / "stacks.txt"
        options = [
            "--rate",
            str(_RATE),
            "--duration",
            str(max(1, round(seconds))),
            "--format",
            "raw",
            "--output",
            str(path),
        ]
        flags = ["--idle", "--threads", "--subprocesses", "--full-filenames", "--nonblocking"]
        ran = run([program, "record", "--pid", str(pid), *options, *flags], deadline=seconds + _EXTRA_SECONDS)
        stacks = parse_stacks(path.read_text(errors="replace").splitlines()) if path.exists() else []
    if not stacks:
        raise refusal(pid, ran.output)
    return stacks


def parse_stacks(lines: Iterable[str]) -> list[Stack]:
    """Parse py-spy's raw format. Lines that are none are left out."""
    stacks = []
    for line in lines:
        head, _, number = line.rpartition(" ")
        if not number.isdigit() or not head:
            continue
        pid, thread, frames = 0, "", []
        for part in head.split(";"):
            if (process := _PROCESS.match(part)) is not None:
                pid = int(process[1])
            elif (found := _THREAD.match(part)) is not None:
                thread = found[2] or found[1]
            elif (frame := _FRAME.match(part)) is not None:
                frames.append(Place(frame["file"], int(frame["line"] or 0), frame["function"]))
        if frames:
            stacks.append(Stack(pid, thread, tuple(frames), int(number)))
    return stacks


def is_user_code(place: Place) -> bool:
    """Whether a frame is the user's own code rather than a library's."""
    return not _LIBRARY.search(place.file)
