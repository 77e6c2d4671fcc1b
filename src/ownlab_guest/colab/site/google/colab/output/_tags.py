"""Outputs with tags, which can be cleared selectively.

Jupyter's protocol can clear a whole cell, or update one display. So tagged output, printed text as well, becomes displays
with an id, and clearing replaces them with empty ones. This works in every front end, and without one.
"""

import contextlib
import uuid
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Set, Tuple, Union

from .. import _message
from . import _displays

Tags = Union[str, Iterable[str]]

_active: Set[str] = set()
_tagged: List[Tuple[str, FrozenSet[str]]] = []  # the displays of the cell _cell, and their tags
_cell = ""


def get_active_tags() -> Set[str]:
    """Return the tags that an output gets now."""
    return set(_active)


@contextlib.contextmanager
def use_tags(tags: Tags, append: bool = True) -> Iterator[Set[str]]:
    """Tag outputs in this context, in addition to the tags of outer contexts unless append is False."""
    before, wanted = set(_active), set(_listed(tags))
    _set_active(before | wanted if append else wanted)
    try:
        with _displays.marked(_remember):
            yield get_active_tags()
    finally:
        _set_active(before)


def clear(wait: bool = False, output_tags: Tags = ()) -> None:
    """Clear this cell's outputs; with tags, only those that have all of them.

    With wait they stay until the next output; tagged ones are cleared at once.
    """
    if not isinstance(wait, bool):
        raise ValueError("wait must be a boolean value")  # noqa: TRY004 Colab's class
    shell = _displays.shell()
    if shell is None:
        return
    _displays.start_new_displays()
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
            _displays.publish({}, display_id, update=True)


@contextlib.contextmanager
def temporary() -> Iterator[str]:
    """Clear the outputs of this context when it ends without an exception."""
    tag = uuid.uuid4().hex
    with use_tags(tag):
        yield tag
    clear(output_tags=tag)


def _listed(tags: Tags) -> List[str]:
    return [tags] if isinstance(tags, str) else list(tags)


def _set_active(tags: Set[str]) -> None:
    _displays.start_new_displays()  # earlier output keeps its tags
    _active.clear()
    _active.update(tags)


def _forget_other_cells() -> None:
    global _cell
    cell = str(_message.running_request().get("header", {}).get("msg_id", ""))
    if cell != _cell:
        _tagged.clear()
        _cell = cell


def _remember(message: Dict[str, Any]) -> None:
    if message["header"]["msg_type"] == "display_data":
        _forget_other_cells()
        entry = message["content"]["transient"]["display_id"], frozenset(_active)
        if entry not in _tagged:  # each outer context reports it
            _tagged.append(entry)
