"""The history of a notebook in the terminal: a line per version, a diff per cell, the cells of a version."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ownlab.lab.notebooks.history.comparison import CellDifference, NotebookDifference, source_of, unified
from ownlab.lab.notebooks.history.records import DeletedNotebook, NotebookHistory, Reason, Version
from ownlab.lab.notebooks.parsing import cells_of
from ownlab.render.wide_text import align_left, cell_width
from ownlab.text import facts, plural, text, translated
from ownlab.units import format_bytes, format_seconds

__all__ = ["describe_reason", "describe_time", "show_deleted", "show_difference", "show_history", "show_version"]

_REASONS: dict[Reason, str] = {
    "opened": text("before editing"),
    "edited": text("edited"),
    "named": text("saved by you"),
    "before-restore": text("before restoring"),
    "restored": text("restored"),
    "deleted": text("deleted"),
    "conflict": text("the other text of a conflict"),
    "recovered": text("the file before a recovery"),
}
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_MINUTE = 60.0


def show_history(notebook: str, history: NotebookHistory, total: int, out: Console) -> None:
    """Print a line per version."""
    if not history.versions:
        out.print(Text(text("There are no versions of {notebook}.", notebook=notebook)))
        out.print(Text(text("A lab records them while you work: ownlab up"), style="dim"))
        return
    rows = [
        (version.id, describe_time(version.at), _age(version.at), _changes(version), describe_reason(version))
        for version in history.versions
    ]
    widths = [max(cell_width(row[column]) for row in rows) for column in range(5)]
    for version, row in zip(history.versions, rows, strict=True):
        cells = [align_left(word, width) for word, width in zip(row, widths, strict=True)]
        styles = ("yellow", "", "dim", "", "")
        line = Text("  ").join(Text(cell, style=style) for cell, style in zip(cells, styles, strict=True))
        if version.name:
            line.append("  ").append(version.name, style="bold")
        line.rstrip()
        _line(out, line)
    out.print()
    size = format_bytes(history.bytes)
    shown = len(history.versions)
    _line(
        out,
        Text(
            plural(total, "1 version, {size} on disk.", "{n} versions, {size} on disk.", size=size)
            if shown == total
            else text("{shown} of {n} versions, {size} on disk.", shown=shown, n=total, size=size),
            style="dim",
        ),
    )


def show_difference(notebook: str, difference: NotebookDifference, out: Console) -> None:
    """Print a unified diff per changed cell; unchanged ones are counted."""
    _line(out, Text(f"--- {notebook}  {_describe(difference.before)}", style="bold"))
    after = text("now") if difference.after is None else _describe(difference.after)
    _line(out, Text(f"+++ {notebook}  {after}", style="bold"))
    same = 0
    for cell in difference.cells:
        if cell.change == "same":
            same += 1
            continue
        out.print()
        _line(out, Text(_describe_cell(cell), style="bold"))
        for line in unified(cell):
            _line(out, Text(line, style=_STYLES.get(line[:1], "")))
    out.print()
    if same == len(difference.cells):
        out.print(Text(text("No cell differs."), style="dim"))
    elif same:
        out.print(Text(plural(same, "1 cell is the same.", "{n} cells are the same."), style="dim"))


def show_version(version: Version, notebook: dict[str, Any], out: Console) -> None:
    """Print the cells of a version, without outputs."""
    _line(out, Text(_describe(version), style="bold"))
    for number, cell in enumerate(cells_of(notebook), 1):
        out.print()
        kind = translated(str(cell.get("cell_type")))
        _line(out, Text(text("Cell {number}, {type}", number=number, type=kind), style="dim"))
        for line in source_of(cell).splitlines():
            _line(out, Text(line))


def show_deleted(gone: Sequence[DeletedNotebook], out: Console) -> None:
    """Print a line per notebook."""
    if not gone:
        out.print(Text(text("No deleted notebook can be restored.")))
        return
    for each in gone:
        when = describe_time(each.deleted_at)
        line = Text.assemble((each.id[:8], "yellow"), f"  {when}  ", (f"{_age(each.deleted_at)}  ", "dim"), each.path)
        _line(out, line)
    out.print()
    out.print(Text(text("Restore one: ownlab history --deleted --restore NOTEBOOK"), style="dim"))


def describe_time(at: float) -> str:
    """Return a local time, to be sorted and searched."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def describe_reason(version: Version) -> str:
    """Return why a version was recorded."""
    return _REASONS[version.reason]


def _age(at: float) -> str:
    seconds = max(0.0, time.time() - at)
    return text("just now") if seconds < _MINUTE else text("{duration} ago", duration=format_seconds(seconds))


def _changes(version: Version) -> str:
    if version.reason == "opened":
        return plural(version.cells, "1 cell", "{n} cells")
    return plural(version.changed, "1 cell changed", "{n} cells changed")


def _describe(version: Version) -> str:
    return facts(
        f"{version.id}  {version.name}" if version.name else version.id,
        describe_time(version.at),
        _age(version.at),
        describe_reason(version),
    )


def _describe_cell(cell: CellDifference) -> str:
    number, kind = cell.number, cell.type
    if cell.change == "added":
        return text("Cell {number} ({type}) was added", number=number, type=kind)
    if cell.change == "removed":
        return text("Cell {number} ({type}) was removed", number=number, type=kind)
    if cell.change == "moved":
        return text("Cell {number} ({type}) was moved", number=number, type=kind)
    if cell.type_before is not None:
        return text("Cell {number} was {before} and is {type}", number=number, before=cell.type_before, type=kind)
    return text("Cell {number} ({type}) was edited", number=number, type=kind)


def _line(out: Console, line: Text) -> None:
    out.print(line, no_wrap=True, overflow="ignore", crop=False)
