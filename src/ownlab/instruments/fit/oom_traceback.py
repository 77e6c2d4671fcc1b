"""The traceback above an out-of-memory message: the phase of the step, and the line of the user's own code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

__all__ = ["CodeLocation", "Phase", "find_location"]

Phase = Literal["loading", "forward", "backward", "optimizer"]

# Frames of Python, of IPython, of rich.
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+)|File (?P<ipython>[^\s:]+\.py):(?P<ipython_line>\d+), in |'
    r"(?P<cell>Cell In ?\[\d+\]), line (?P<cell_line>\d+)|^│ (?P<rich>\S+\.py):(?P<rich_line>\d+) in "
)
# IPython before 8: a line with the file or cell, then the code with an arrow at the line number.
_OLD_FRAME = re.compile(r"^\[?(?P<file>\S+\.py|<ipython-input-\d+)\S* in \S")
_ARROW = re.compile(r"^-+> (\d+) ")
# IPython and rich show lines around the one that ran; ignore these.
_AROUND = re.compile(r"^(?:│ )?\s+\d+ ")
_INSTALLED = re.compile(r"site-packages|dist-packages|/lib/python\d|\\lib\\|<frozen|importlib")
# Searched from the innermost frame outwards, each line for all phases.
_PHASES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    ("optimizer", re.compile(r"torch[/\\]optim[/\\]|optimizer\w*\.step\(|_maybe_opt_step|\bexp_avg|_foreach_")),
    ("backward", re.compile(r"\.backward\(|run_backward|torch[/\\]autograd[/\\]")),
    (
        "loading",
        re.compile(
            r"\bin _apply\b|module\._apply\(|\.to\(device|\.to\(DEVICE|(?:model|net\w*|pipe\w*)\.(?:to|cuda)\(|load_state_dict|"
            r"from_pretrained\(|load_tensors|load_model"
        ),
    ),
    ("forward", re.compile(r"_call_impl|forward_call|\.forward\(|\bin forward\b|F\.\w+\(")),
)


class CodeLocation(NamedTuple):
    """The phase of the step and the line of the user's code."""

    phase: Phase | None = None
    line: str = ""  # "train.py, line 29"; empty without a traceback of the user's code


def find_location(lines: Sequence[str]) -> CodeLocation:
    """Read the innermost frames of the last traceback."""
    frames = list(_frames(lines))
    own = [(re.split(r"[/\\]", file)[-1], number) for file, number in frames if not _INSTALLED.search(file)]
    return CodeLocation(_phase(lines) if frames else None, f"{own[-1][0]}, line {own[-1][1]}" if own else "")


def _frames(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each frame's file (or cell) and line number, outermost first."""
    above = ""
    for line in lines:
        if match := _FRAME.search(line):
            file, number = (part for part in match.groups() if part)
            yield file, number
        elif match := _OLD_FRAME.match(line):
            above = match["file"].removeprefix("<").removeprefix("~/")
        elif above and (match := _ARROW.match(line)):
            yield above, match[1]
            above = ""


def _phase(lines: Sequence[str]) -> Phase | None:
    for line in reversed([line for line in lines if not _AROUND.match(line)]):
        for phase, pattern in _PHASES:
            if pattern.search(line):
                return phase
    return None
