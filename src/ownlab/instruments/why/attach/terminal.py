"""The processes that were looked at, in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.why.attach.records import AttachedProcess, Observed
from ownlab.instruments.why.formatting import format_share
from ownlab.render.console import labelled
from ownlab.text import facts, plural, text
from ownlab.units import format_bytes

__all__ = ["show_processes"]

_MOST_SHOWN = 12
_LABEL_WIDTH = 18
_ROLES = {"training": text("training"), "worker": text("worker"), "other": text("other")}


def show_processes(observed: Observed, out: Console) -> None:
    """Print what the kernel counts of each process."""
    out.print()
    shown = [each for each in observed.processes if each.role != "other"]
    for each in shown[:_MOST_SHOWN]:
        labelled(out, f"{_ROLES[each.role]} {each.pid}", _counted(each), width=_LABEL_WIDTH)
    rest = len(observed.processes) - len(shown[:_MOST_SHOWN])
    if rest > 0:
        out.print(Text("  " + plural(rest, "One more process is in --json.", "{n} more are in --json."), style="dim"))


def _counted(process: AttachedProcess) -> str:
    return facts(
        text("{cores:.2f} cores", cores=process.cpu_share) if process.cpu_share is not None else None,
        text("waits for a core {share} of the time", share=format_share(process.queue_share))
        if process.queue_share is not None
        else None,
        text("reads {size} from disks", size=format_bytes(process.read_bytes))
        if process.read_bytes is not None
        else None,
        text("{size} in swap", size=format_bytes(process.swapped_bytes)) if process.swapped_bytes else None,
    )
