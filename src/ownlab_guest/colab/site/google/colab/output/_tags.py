"""Outputs with tags, which can be taken away again.

Jupyter's protocol knows how to clear a whole cell, and how to update one display. So what is put out in a context with
tags becomes displays with an id, printed text too, and taking it away makes them empty. That needs no page that knows
of tags, and a notebook that is run without one ends up the same.
"""

import contextlib
import io
import sys
import time
import uuid
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Optional, Set, Tuple, Union

from .. import _message
from . import _util

Tags = Union[str, Iterable[str]]

UPDATE_SECONDS = 0.1  # printed text is shown at most so often

_active: Set[str] = set()
_tagged: List[Tuple[str, FrozenSet[str]]] = []  # the displays of the cell _cell, and their tags
_cell = ""


def get_active_tags() -> Set[str]:
    """The tags that an output gets now."""
    return set(_active)


@contextlib.contextmanager
def use_tags(tags: Tags, append: bool = True) -> Iterator[Set[str]]:
    """Outputs in this context have these tags, beside those of the contexts around it unless append is False."""
    before, wanted = set(_active), set(_listed(tags))
    _set_active(before | wanted if append else wanted)
    try:
        with _tagging():
            yield get_active_tags()
    finally:
        _set_active(before)


def clear(wait: bool = False, output_tags: Tags = ()) -> None:
    """Clear this cell's outputs; with tags, only those that have them all.

    With wait they stay until the next output comes; those with tags go at once.
    """
    if not isinstance(wait, bool):
        raise ValueError("wait must be a boolean value")  # noqa: TRY004 Colab's class
    shell = _shell()
    if shell is None:
        return
    _util.flush_all()
    wanted = set(_listed(output_tags))
    if not wanted:
        shell.display_pub.clear_output(wait)
        _tagged.clear()
        return
    _forget_other_cells()
    for each in list(_tagged):
        display_id, tags = each
        if tags >= wanted:
            _tagged.remove(each)
            _publish({}, display_id, update=True)


@contextlib.contextmanager
def temporary() -> Iterator[str]:
    """What is put out in this context goes when it ends, unless it ends by an exception."""
    tag = uuid.uuid4().hex
    with use_tags(tag):
        yield tag
    clear(output_tags=tag)


def _listed(tags: Tags) -> List[str]:
    return [tags] if isinstance(tags, str) else list(tags)


def _set_active(tags: Set[str]) -> None:
    _util.flush_all()  # what was put out before has the tags of before
    _end_text()
    _active.clear()
    _active.update(tags)


def _shell() -> Any:
    kernel = _message.running_kernel()
    return getattr(kernel, "shell", None)


def _publish(data: Dict[str, Any], display_id: str, update: bool) -> None:
    _shell().display_pub.publish(data, transient={"display_id": display_id}, update=update)


def _forget_other_cells() -> None:
    global _cell
    cell = str(_message.running_request().get("header", {}).get("msg_id", ""))
    if cell != _cell:
        _tagged.clear()
        _cell = cell


def _remember(display_id: str) -> None:
    _forget_other_cells()
    _tagged.append((display_id, frozenset(_active)))


def _give_id(message: Dict[str, Any]) -> Dict[str, Any]:
    """A display that has no id gets one. ipykernel calls this with each message that it is about to publish."""
    if message.get("header", {}).get("msg_type") == "display_data":
        transient = message["content"].setdefault("transient", {})
        _end_text(but=transient.get("display_id"))
        _remember(transient.setdefault("display_id", uuid.uuid4().hex))
    return message


def _end_text(but: Optional[str] = None) -> None:
    """What is printed from here on stands beneath what is displayed now."""
    if isinstance(sys.stdout, _Text) and (but is None or sys.stdout.display_id != but):
        sys.stdout.end()


@contextlib.contextmanager
def _tagging() -> Iterator[None]:
    """What is put out meanwhile is a display with an id; unless it is captured, and does not get out."""
    shell, is_inner = _shell(), isinstance(sys.stdout, _Text)
    if is_inner or not hasattr(sys.stdout, "pub_thread") or not hasattr(shell.display_pub, "register_hook"):
        yield
        return
    publisher, out, err = shell.display_pub, sys.stdout, sys.stderr
    publisher.register_hook(_give_id)
    sys.stdout = sys.stderr = _Text()
    try:
        yield
    finally:
        _util.flush_all()
        sys.stdout, sys.stderr = out, err
        publisher.unregister_hook(_give_id)


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
        if time.monotonic() - self._shown >= UPDATE_SECONDS:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Show everything."""
        if not self._is_new:
            return
        self._is_new, self._shown = False, time.monotonic()
        is_first = self.display_id is None
        self.display_id = self.display_id or uuid.uuid4().hex
        _publish({"text/plain": self._done + self._line.rstrip("\r")}, self.display_id, update=not is_first)

    def end(self) -> None:
        """Show everything; what comes next is another display."""
        self.flush()
        self.display_id, self._done, self._line = None, "", ""


def _after_return(line: str) -> str:
    """What a terminal shows of it, where lines that overwrite each other have the same length."""
    body = line.rstrip("\r")
    return body.rpartition("\r")[2] + line[len(body) :]
