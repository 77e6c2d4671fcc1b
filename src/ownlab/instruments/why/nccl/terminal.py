"""What connects the ranks, as a table in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.why.nccl.explanation import transport_name
from ownlab.instruments.why.nccl.records import Communicator, Connection, Machine, NcclLog
from ownlab.render.console import labelled
from ownlab.render.wide_text import cell_width
from ownlab.text import facts, listing, plural, text

__all__ = ["show_connections"]

_LABEL_WIDTH = 14
_MOST_PAIRS = 12
_MOST_COMMUNICATORS = 3
_MOST_MACHINES = 8


def show_connections(log: NcclLog, out: Console) -> None:
    """Print the machines, and the connections of the largest communicators."""
    described = [(machine.name, _machine(machine)) for machine in log.machines]
    described = [(name, said) for name, said in described if said]
    if described:
        out.print()
    for name, said in described[:_MOST_MACHINES]:
        labelled(out, name or text("machine"), said, width=max(_LABEL_WIDTH, cell_width(name) + 2))
    shown = [group for group in log.communicators if group.connections]
    for group in shown[:_MOST_COMMUNICATORS]:
        out.print()
        out.print(Text(_head(group, log), style="dim"))
        _show_pairs(group, out)
    rest = len(shown) - _MOST_COMMUNICATORS
    if rest > 0:
        more = plural(rest, "One more communicator is in --json.", "{n} more communicators are in --json.")
        out.print(Text(more, style="dim"))


def _machine(machine: Machine) -> str:
    return facts(
        text("network {network}", network=machine.network) if machine.network else None,
        text("plugin {plugin}", plugin=machine.plugin) if machine.plugin else None,
        text("adapters {adapters}", adapters=listing(machine.adapters[:8])) if machine.adapters else None,
        text("interfaces {interfaces}", interfaces=listing(machine.interfaces[:8])) if machine.interfaces else None,
        text("ranks meet at {interface}", interface=machine.bootstrap) if machine.bootstrap else None,
        *(f"{name}={value}" for name, value in sorted(machine.settings.items())[:8]),
    )


def _head(group: Communicator, log: NcclLog) -> str:
    size = text("{count} ranks", count=group.size) if group.size else text("connections between ranks")
    ring = (
        text("the ring of channel 0 is {ranks}", ranks=" ".join(str(rank) for rank in group.ring[:32]))
        if group.ring
        else None
    )
    channels = text("{count} channels", count=log.channels) if log.channels else None
    return facts(size, channels, ring)


def _show_pairs(group: Communicator, out: Console) -> None:
    machines = {rank.rank: rank.machine for rank in group.ranks}
    pairs: dict[tuple[int, int], list[Connection]] = {}
    for each in group.connections:
        pairs.setdefault((min(each.sender, each.receiver), max(each.sender, each.receiver)), []).append(each)
    for (first, second), connections in list(pairs.items())[:_MOST_PAIRS]:
        where = _where(machines.get(first, ""), machines.get(second, ""))
        names = facts(*dict.fromkeys(transport_name(each) for each in connections))
        count = max(each.channels for each in connections)
        line = facts(names, plural(count, "one channel", "{n} channels"), where)
        labelled(out, text("rank {first} - {second}", first=first, second=second), line, width=_LABEL_WIDTH)
    rest = len(pairs) - _MOST_PAIRS
    if rest > 0:
        out.print(
            Text("  " + plural(rest, "One more pair is in --json.", "{n} more pairs are in --json."), style="dim")
        )


def _where(first: str, second: str) -> str | None:
    if not first or not second:
        return None
    return first if first == second else text("{first} to {second}", first=first, second=second)
