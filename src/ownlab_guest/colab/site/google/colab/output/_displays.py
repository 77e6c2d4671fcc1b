"""What is put out, as displays that can be told apart, moved and taken away: printed text too.

Jupyter's protocol gives an id and metadata to a display, and none to printed text.
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

UPDATE_SECONDS = 0.1  # printed text is shown at most so often, and long text less often:
# an update sends all text of the display again, so it is not to grow without end.
LONG = 16_384
LONGEST = 65_536

_marks: List[Mark] = []  # of the contexts that are open, the innermost last


def shell() -> Any:
    """This kernel's; None outside of one."""
    return getattr(_message.running_kernel(), "shell", None)


def publish(data: Dict[str, Any], display_id: str, update: bool) -> None:
    """Show a display, or something else in its place."""
    shell().display_pub.publish(data, transient={"display_id": display_id}, update=update)


@contextlib.contextmanager
def marked(mark: Mark) -> Iterator[None]:
    """Each display of this context, printed text too, is given to mark before it is published; it has an id.

    Unless it is captured, and does not get out.
    """
    begin()
    _marks.append(mark)
    try:
        with _watched():
            yield
    finally:
        begin()
        _marks.remove(mark)


def begin() -> None:
    """What is put out from here on stands in other displays than what was before."""
    flush_all()
    _end_text()


def _give_marks(message: Dict[str, Any]) -> Dict[str, Any]:
    """ipykernel calls this with each message of a display that it is about to publish."""
    transient = message["content"].setdefault("transient", {})
    if message["header"]["msg_type"] == "display_data":
        _end_text(but=transient.setdefault("display_id", uuid.uuid4().hex))
    for mark in _marks:
        mark(message)
    return message


def _end_text(but: Optional[str] = None) -> None:
    """What is printed from here on stands beneath what is displayed now."""
    if isinstance(sys.stdout, _Text) and (but is None or sys.stdout.display_id != but):
        sys.stdout.end()


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    publisher: Any = getattr(shell(), "display_pub", None)
    out, err = sys.stdout, sys.stderr
    if isinstance(out, _Text) or not hasattr(out, "pub_thread") or not hasattr(publisher, "register_hook"):
        yield
        return
    publisher.register_hook(_give_marks)
    sys.stdout = sys.stderr = _Text()
    try:
        yield
    finally:
        begin()
        sys.stdout, sys.stderr = out, err
        publisher.unregister_hook(_give_marks)


class _Text(io.TextIOBase):
    """Printed text as one display, which grows."""

    def __init__(self) -> None:
        self.display_id: Optional[str] = None
        self._done = ""  # lines that are complete
        self._line = ""
        self._is_new = False
        self._shown = 0.0

    def write(self, text: str) -> int:
        """Take text; it is shown at once, or with what comes next."""
        # A carriage return begins the line anew: progress bars.
        *lines, self._line = (self._line + text).replace("\r\n", "\n").split("\n")
        self._done += "".join(_after_return(line) + "\n" for line in lines)
        self._line = _after_return(self._line)
        self._is_new = True
        if len(self._done) >= LONGEST:
            self._begin_another()
        if time.monotonic() - self._shown >= UPDATE_SECONDS * (1 + len(self._done) / LONG):
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Show everything."""
        if not self._is_new:
            return
        self._is_new, self._shown = False, time.monotonic()
        is_first = self.display_id is None
        self.display_id = self.display_id or uuid.uuid4().hex
        publish({"text/plain": self._done + self._line.rstrip("\r")}, self.display_id, update=not is_first)

    def end(self) -> None:
        """Show everything; what comes next is another display."""
        self.flush()
        self.display_id, self._done, self._line = None, "", ""

    def _begin_another(self) -> None:
        """Between two lines: there nobody sees it."""
        line, self._line = self._line, ""
        self.end()
        self._line, self._is_new = line, bool(line)


def _after_return(line: str) -> str:
    """What a terminal shows of it, where lines that overwrite each other have the same length."""
    body = line.rstrip("\r")
    return body.rpartition("\r")[2] + line[len(body) :]
