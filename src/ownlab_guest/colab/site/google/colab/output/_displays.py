"""Outputs as displays with ids, which can be marked, moved and cleared; printed text as well.

Jupyter's protocol gives displays an id and metadata, but not printed text.
"""

import contextlib
import io
import sys
import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, Optional

from .. import _message
from .._display import flush_all

Mark = Callable[[Dict[str, Any]], None]

# Printed text is updated at most this often, and long text less often: each update sends all text of the display again, so
# a display must not grow without limit.
UPDATE_SECONDS = 0.1
LONG_TEXT = 16_384
MAX_TEXT = 65_536

_marks: List[Mark] = []  # of the open contexts, the innermost last


def shell() -> Any:
    """Return this kernel's shell; None outside of a kernel."""
    return getattr(_message.running_kernel(), "shell", None)


def publish(data: Dict[str, Any], display_id: str, update: bool) -> None:
    """Publish a display, or update it."""
    shell().display_pub.publish(data, transient={"display_id": display_id}, update=update)


@contextlib.contextmanager
def marked(mark: Mark) -> Iterator[None]:
    """Pass each display of this context, also printed text, to `mark` before it is published. It has an id then.

    Captured output is not published and not marked.
    """
    start_new_displays()
    _marks.append(mark)
    try:
        with _watched():
            yield
    finally:
        start_new_displays()
        _marks.remove(mark)


def start_new_displays() -> None:
    """Start new displays: output from here on is separate from earlier output."""
    flush_all()
    _end_text()


def _apply_marks(message: Dict[str, Any]) -> Dict[str, Any]:
    """Hook that ipykernel calls with each display message before publishing it."""
    transient = message["content"].setdefault("transient", {})
    if message["header"]["msg_type"] == "display_data":
        _end_text(but=transient.setdefault("display_id", uuid.uuid4().hex))
    for mark in _marks:
        mark(message)
    return message


def _end_text(but: Optional[str] = None) -> None:
    """End the current text display, so that later text comes after the current display."""
    if isinstance(sys.stdout, _Text) and (but is None or sys.stdout.display_id != but):
        sys.stdout.end()


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    publisher: Any = getattr(shell(), "display_pub", None)
    out, err = sys.stdout, sys.stderr
    if isinstance(out, _Text) or not hasattr(out, "pub_thread") or not hasattr(publisher, "register_hook"):
        yield
        return
    publisher.register_hook(_apply_marks)
    sys.stdout = sys.stderr = _Text()
    try:
        yield
    finally:
        start_new_displays()
        sys.stdout, sys.stderr = out, err
        publisher.unregister_hook(_apply_marks)


class _Text(io.TextIOBase):
    """Printed text as one growing display."""

    def __init__(self) -> None:
        self.display_id: Optional[str] = None
        self._done = ""  # complete lines
        self._line = ""
        self._is_new = False
        self._shown = 0.0

    def write(self, text: str) -> int:
        """Add text; it is shown at once or with later text."""
        # A carriage return restarts the line: progress bars.
        *lines, self._line = (self._line + text).replace("\r\n", "\n").split("\n")
        self._done += "".join(_after_return(line) + "\n" for line in lines)
        self._line = _after_return(self._line)
        self._is_new = True
        if len(self._done) >= MAX_TEXT:
            self._split_display()
        if time.monotonic() - self._shown >= UPDATE_SECONDS * (1 + len(self._done) / LONG_TEXT):
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Publish all text."""
        if not self._is_new:
            return
        self._is_new, self._shown = False, time.monotonic()
        is_first = self.display_id is None
        self.display_id = self.display_id or uuid.uuid4().hex
        publish({"text/plain": self._done + self._line.rstrip("\r")}, self.display_id, update=not is_first)

    def end(self) -> None:
        """Publish all text; later text becomes another display."""
        self.flush()
        self.display_id, self._done, self._line = None, "", ""

    def _split_display(self) -> None:
        """Continue in another display, split between two lines where it is invisible."""
        line, self._line = self._line, ""
        self.end()
        self._line, self._is_new = line, bool(line)


def _after_return(line: str) -> str:
    """Return what a terminal shows of a line, if the overwritten parts have the same length."""
    body = line.rstrip("\r")
    return body.rpartition("\r")[2] + line[len(body) :]
