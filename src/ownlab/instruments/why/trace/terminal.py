"""What took longest in a trace, and what the host did while the GPU was idle, in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from ownlab.instruments.why.formatting import NAMES, format_ms
from ownlab.instruments.why.trace.records import TimedName, TraceSummary
from ownlab.render.console import labelled
from ownlab.text import facts, plural, text
from ownlab.units import format_bytes

__all__ = ["show_trace"]

_LABEL_WIDTH = 10
_MOST_SHOWN = 6
_LONGEST_NAME = 70


def show_trace(trace: TraceSummary, out: Console) -> None:
    """Print the tables of a trace."""
    if trace.idle_ms:
        idle = sorted(trace.idle_ms.items(), key=lambda item: -item[1])
        out.print()
        out.print(Text(text("While the GPU is idle, the host does in a mean step:"), style="dim"))
        out.print(Text("  " + facts(*(f"{NAMES.get(name, name)} {format_ms(ms)}" for name, ms in idle if ms >= 0.001))))
    if trace.kernels:
        _show(text("The longest kernels:"), trace.kernels, out)
    else:
        _show(text("The longest operators, with what they call:"), trace.operators, out)
    if trace.copies:
        out.print()
        out.print(Text(text("Copies:"), style="dim"))
        for each in trace.copies[:_MOST_SHOWN]:
            line = facts(each.kind, plural(each.count, "once", "{n} times"), format_bytes(each.bytes))
            labelled(out, format_ms(each.ms), line, width=_LABEL_WIDTH)
    if trace.runtime:
        _show(text("Functions of the driver that wait, allocate or copy:"), trace.runtime, out)


def _show(head: str, names: Iterable[TimedName], out: Console) -> None:
    listed = list(names)
    if not listed:
        return
    out.print()
    out.print(Text(head, style="dim"))
    for each in listed[:_MOST_SHOWN]:
        name = each.name if len(each.name) <= _LONGEST_NAME else each.name[: _LONGEST_NAME - 1] + "…"
        line = facts(name, plural(each.count, "once", "{n} times"))
        labelled(out, format_ms(each.ms), line, width=_LABEL_WIDTH)
