"""The output of a run's cells in the terminal, as it arrives.

A terminal gets text as it is printed, so that progress bars move. A file or a pipe gets whole lines: of a line that is overwritten
again and again (a progress bar) its last state, and about every ten seconds the present one, so that a log shows that something moves.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any, TextIO

from ownlab.lab.terminal.runtime_log import describe_output
from ownlab.text import CONTROL_CHARACTERS

__all__ = ["CellOutput", "OverwrittenLines", "clean", "write"]

# A notebook may print anything. Of the control sequences only colours are kept, and only on a terminal.
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TERMINAL = {number: char for number, char in CONTROL_CHARACTERS.items() if number not in b"\r\b"}
_STATE_SECONDS = 10.0


class CellOutput:
    """Writes what cells print to stdout and stderr to ours, and one line or text for everything else."""

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self._streams = {"stdout": _stream(stdout), "stderr": _stream(stderr)}

    def show(self, output: Mapping[str, Any]) -> None:
        """Write one output of a notebook."""
        if output.get("output_type") == "stream":
            self._streams["stderr" if output.get("name") == "stderr" else "stdout"].add(str(output.get("text", "")))
        elif shown := describe_output(output):
            self.finish()
            self._streams["stdout"].add(f"{shown}\n")

    def tick(self) -> None:
        """Called about every second."""
        for stream in self._streams.values():
            stream.tick()

    def finish(self) -> None:
        """Complete the last line."""
        for stream in self._streams.values():
            stream.finish()


class OverwrittenLines:
    """Text as a terminal would show it: \\r returns to the start of the line, and \\b goes back by one character."""

    def __init__(self) -> None:
        self.line, self._column = "", 0

    def add(self, printed: str) -> list[str]:
        """Return the lines that are complete now."""
        done = []
        for part in re.split("([\r\n\b])", printed.replace("\r\n", "\n")):
            if part == "\n":
                done.append(self.line)
                self.line, self._column = "", 0
            elif part == "\r":
                self._column = 0
            elif part == "\b":
                self._column = max(0, self._column - 1)
            else:
                end = self._column + len(part)
                self.line, self._column = self.line[: self._column] + part + self.line[end:], end
        return done


class _Terminal:
    def __init__(self, stream: TextIO) -> None:
        self._stream, self._unfinished = stream, False

    def add(self, printed: str) -> None:
        if printed:
            write(self._stream, clean(printed, colours=True))
            self._unfinished = not printed.endswith("\n")

    def tick(self) -> None:
        """Nothing is held back."""

    def finish(self) -> None:
        if self._unfinished:
            write(self._stream, "\x1b[0m\n")
            self._unfinished = False


class _Lines:
    def __init__(self, stream: TextIO) -> None:
        self._stream, self._text = stream, OverwrittenLines()
        self._written, self._since = "", time.monotonic()  # the state of the current line that was written last

    def add(self, printed: str) -> None:
        lines = self._text.add(clean(printed, colours=False))
        if lines:
            if lines[0] == self._written and lines[0]:
                del lines[0]  # its last state is there already
            self._write(lines)
            self._written = ""

    def tick(self) -> None:
        if time.monotonic() - self._since >= _STATE_SECONDS and self._text.line not in ("", self._written):
            self._written = self._text.line
            self._write([self._written])

    def finish(self) -> None:
        if self._text.line:
            self.add("\n")

    def _write(self, lines: list[str]) -> None:
        self._since = time.monotonic()
        write(self._stream, "".join(f"{line.rstrip()}\n" for line in lines))


def _stream(stream: TextIO) -> _Terminal | _Lines:
    return _Terminal(stream) if stream.isatty() else _Lines(stream)


def clean(printed: str, *, colours: bool) -> str:
    """Remove what could control a terminal, except \\r, \\b and, if wanted, colours."""

    def kept(match: re.Match[str]) -> str:
        return match[0] if colours and _COLOUR.fullmatch(match[0]) else ""

    parts = _SEQUENCES.split(printed)
    found = [*map(kept, _SEQUENCES.finditer(printed)), ""]
    return "".join(part.translate(_TERMINAL) + after for part, after in zip(parts, found, strict=True))


def write(stream: TextIO, output: str) -> None:
    """Write to a stream that may have been closed, or that cannot encode everything."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(output.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except OSError:
        # The terminal was closed. Python would complain about the unwritten buffer at its end.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
