"""Runtimes, cards, usage and runtime types in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ownlab.lab.runtimes.records import CardState, Runtime, Snapshot, TypeList, Usage, UsageLine
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, align_right, cell_width
from ownlab.text import facts, listing, plural, sentences, template, text
from ownlab.units import PARTS, format_bytes, format_seconds

__all__ = [
    "STATES",
    "describe_state",
    "name_of",
    "short_id",
    "short_path",
    "show_runtimes",
    "show_types",
    "show_usage",
]

# Width of the first column in a pipe, which has no width of its own.
_PIPE_NAME_WIDTH = 40
_SHARES = {2: "⅙", 3: "¼", 4: "⅓", 6: "½", 8: "⅔", 9: "¾", 12: "1"}
# Columns of the table of runtimes (title, width) after the notebook, which gets the rest of the line.
_COLUMNS = (
    (text("state"), 16),
    (text("RAM"), 8),
    (text("VRAM"), 10),
    (text("time left"), 10),
    (text("units/h"), 7),
)
STATES = {
    "waiting": text("waiting"),
    "starting": text("starting"),
    "running": text("running"),
    "ending": text("ending"),
}


def show_runtimes(snapshot: Snapshot, out: Console) -> None:
    """Print two lines per runtime and per script on a cluster, one per card, and warnings and notices."""
    if snapshot.runtimes:
        _show_table(snapshot, out)
    elif not snapshot.jobs:
        out.print(text("No runtime is running. Start a lab and open a notebook: ownlab up"), markup=False)
    if snapshot.jobs:
        out.print()
        _show_jobs(snapshot, out)
    if snapshot.cards:
        out.print()
        for card in snapshot.cards:
            _show_card(card, snapshot, out)
    for runtime in snapshot.runtimes:
        if runtime.warned and runtime.mine and runtime.ends_at is not None:
            out.print()
            labelled(out, "", _warning(runtime, runtime.ends_at - snapshot.at), indent=0, width=0)
    out.print()
    store = (
        template("{folder} (shared by all users of this machine)")
        if snapshot.shared
        else template("{folder} (private)")
    )
    labelled(out, text("store"), store.fill(folder=snapshot.store), indent=0, width=7)
    for notice in snapshot.notices:
        labelled(out, text("note"), notice, indent=0, width=7)


def name_of(runtime: Runtime) -> str:
    """Return the notebook of a runtime, relative to its lab's folder if known; its id if it has no notebook."""
    return short_path(runtime.notebook, runtime.lab) or short_id(runtime.id)


def short_path(notebook: str, folder: str | None) -> str:
    """Return a notebook's path, relative to its lab's folder if it is inside."""
    return notebook.removeprefix(f"{folder.rstrip('/')}/") if folder else notebook


def describe_state(runtime: Runtime, now: float) -> str:
    """Return the state, such as "busy 2 h 10 min" or "waiting, next"."""
    if runtime.state == "waiting":
        return text("waiting, next") if runtime.place == 1 else text("waiting, no. {place}", place=runtime.place or "?")
    if runtime.state != "running":
        return STATES[runtime.state]
    duration = _duration(now - runtime.changed_at)
    return text("busy {duration}", duration=duration) if runtime.busy else text("idle {duration}", duration=duration)


def short_id(runtime: str) -> str:
    """Return the beginning of an id, enough to identify a runtime and for `ownlab runtimes stop`."""
    return runtime[:8]


def _show_table(snapshot: Snapshot, out: Console) -> None:
    room = out.width if out.width < 1000 else _PIPE_NAME_WIDTH + sum(width + 2 for _, width in _COLUMNS)
    room = max(room - sum(width + 2 for _, width in _COLUMNS), 12)
    head = align_left(text("notebook"), room) + "".join(f"  {_placed(title, width)}" for title, width in _COLUMNS)
    _line(out, Text(head, style="dim"))
    for runtime in snapshot.runtimes:
        _line(out, _figures(runtime, snapshot.at, room))
        cards = facts(*(_share(card.index, card.parts) for card in runtime.cards if card.index is not None))
        node = text("node {node}", node=runtime.node) if runtime.node else ""
        about = facts(short_id(runtime.id), runtime.person, runtime.label, node, cards, runtime.why, separator=" · ")
        labelled(out, "", Text(about, style="dim"), indent=2, width=0)


def _show_jobs(snapshot: Snapshot, out: Console) -> None:
    for job in snapshot.jobs:
        duration = _duration(snapshot.at - job.submitted_at)
        state = (
            text("running, submitted {duration} ago", duration=duration)
            if job.state == "running"
            else text("waiting for {duration}", duration=duration)
        )
        left = "" if job.ends_at is None else text("{left} left", left=_duration(max(0.0, job.ends_at - snapshot.at)))
        line = Text(job.script, style="bold")
        line.append("  ").append(
            facts(state, left, separator=", "), style="yellow" if job.state == "waiting" else "green"
        )
        _line(out, line)
        number = text("{engine} job {number}", engine=job.engine, number=job.reference) if job.reference else job.engine
        nodes = plural(len(job.nodes), "node {nodes}", "nodes {nodes}", nodes=listing(job.nodes)) if job.nodes else ""
        about = facts(short_id(job.id), number, job.label, nodes, job.why, separator=" · ")
        labelled(out, "", Text(about, style="dim"), indent=2, width=0)


def _figures(runtime: Runtime, now: float, room: int) -> Text:
    line = Text(
        align_left(_fitted(short_path(runtime.notebook, runtime.lab) or text("(no notebook)"), room), room),
        style="bold",
    )
    over = any(card.vram is not None and card.booked is not None and card.vram > card.booked for card in runtime.cards)
    left = "" if runtime.ends_at is None else _duration(max(0.0, runtime.ends_at - now))
    cells = (
        (describe_state(runtime, now), "green" if runtime.busy else "yellow" if runtime.state == "waiting" else ""),
        ("" if runtime.ram is None else format_bytes(runtime.ram), ""),
        ("" if runtime.vram is None else f"{format_bytes(runtime.vram)}{' !' if over else ''}", "red" if over else ""),
        (left, "yellow" if runtime.warned else ""),
        (f"{runtime.units_per_hour:g}", ""),
    )
    for (cell, style), (_, width) in zip(cells, _COLUMNS, strict=True):
        line.append("  ").append(_placed(cell, width), style=style or "not bold")
    return line


def _show_card(card: CardState, snapshot: Snapshot, out: Console) -> None:
    parts = [card.name]
    if card.memory is not None:
        if card.memory_used is None:
            parts.append(format_bytes(card.memory))
        else:
            used, memory = format_bytes(card.memory_used), format_bytes(card.memory)
            parts.append(text("{used} of {memory} used", used=used, memory=memory))
    if card.utilisation is not None:
        parts.append(text("{percent} % busy", percent=card.utilisation))
    if not card.holders and not card.strangers:
        parts.append(text("not in use"))
    elif card.holders and card.free_parts:
        share = _SHARES.get(card.free_parts, f"{card.free_parts}/{PARTS}")
        parts.append(text("{share} free", share=share))
    labelled(out, text("card {index}", index=card.index), facts(*parts), indent=0, width=8)
    known = {runtime.id: name_of(runtime) for runtime in snapshot.runtimes}
    for holder in card.holders:
        usage = (
            template("used by {user} ({notebook}) for {duration}")
            if holder.parts == PARTS
            else template("{share} used by {user} ({notebook}) for {duration}")
        ).fill(
            share=_SHARES.get(holder.parts, f"{holder.parts}/{PARTS}"),
            user=holder.person,
            notebook=known.get(holder.runtime) or holder.notebook or short_id(holder.runtime),
            duration=_duration(snapshot.at - holder.since),
        )
        labelled(out, "", usage, indent=0, width=8)
    for stranger in card.strangers:
        labelled(out, "", Text(text("used by {process}", process=stranger), style="yellow"), indent=0, width=8)
    for warning in _overuse(card, snapshot):
        labelled(out, "", Text(warning, style="red"), indent=0, width=8)


def _overuse(card: CardState, snapshot: Snapshot) -> Iterator[str]:
    for runtime in snapshot.runtimes:
        for share in runtime.cards:
            if share.uuid == card.uuid and share.vram is not None and share.booked and share.vram > share.booked:
                yield text(
                    "! {notebook} uses {used} here, more than its share of {share}: others on this card may run out of memory",
                    notebook=name_of(runtime),
                    used=format_bytes(share.vram),
                    share=format_bytes(share.booked),
                )


def _warning(runtime: Runtime, left: float) -> Text:
    end = (
        template("{notebook} ends in {duration} ({reason}).")
        if runtime.ends_why
        else template("{notebook} ends in {duration}.")
    )
    duration = _duration(max(0.0, left))
    warning: str = end.fill(notebook=name_of(runtime), duration=duration, reason=runtime.ends_why)
    if runtime.may_extend:
        advice = text("To extend it: ownlab runtimes extend {runtime}", runtime=short_id(runtime.id))
        warning = sentences(warning, advice)
    return Text(warning, style="yellow")


def show_usage(usage: Usage, out: Console) -> None:
    """Print a block per week: a line per user, and the notebooks they ran."""
    if not usage.lines:
        message = plural(usage.weeks, "Nothing ran here in the last week.", "Nothing ran here in the last {n} weeks.")
        out.print(message, markup=False)
        return
    room = max(min(out.width, 110) - 3 * 12 - 2, 16)
    for week in dict.fromkeys(line.week for line in usage.lines):
        titles = "".join(align_right(title, 12) for title in (text("time"), text("card time"), text("units")))
        _line(out, Text(align_left(week, room), style="bold").append(titles, style="dim"))
        for line in usage.lines:
            if line.week == week:
                _show_usage_line(line, room, out)


def _show_usage_line(line: UsageLine, room: int, out: Console) -> None:
    if line.notebook is None and line.label is None:
        name, style = f"  {line.person}", ""
        if line.card_hours_left is not None:
            left = _hours(line.card_hours_left)
            name = text("  {user} ({hours} of card time left)", user=line.person, hours=left)
    else:
        what = facts(line.notebook or text("(no notebook)"), line.label)
        name, style = f"    {_fitted(what, room - 4)}", "dim"
    cells = (_hours(line.hours), _hours(line.card_hours), f"{line.units:.1f}")
    figures = "".join(align_right(cell, 12) for cell in cells)
    _line(out, Text(align_left(_fitted(name, room), room) + figures, style=style))


def _hours(hours: float) -> str:
    """ "30.5 h", "12 min", "0"."""
    if hours * 3600 < 1:
        return "0"
    return f"{hours:.1f} h" if hours >= 1 else format_seconds(hours * 3600)


def _line(out: Console, line: Text) -> None:
    line.rstrip()
    out.print(line, no_wrap=True, overflow="ignore", crop=False)


def _share(index: int, parts: int) -> str:
    """ "½ of card 0", "card 0"."""
    if parts == PARTS:
        return text("card {index}", index=index)
    return text("{share} of card {index}", share=_SHARES.get(parts, f"{parts}/{PARTS}"), index=index)


def _placed(cell: str, width: int) -> str:
    """Align text to the left and numbers to the right."""
    return align_left(cell, width) if width == _COLUMNS[0][1] else align_right(cell, width)


def _fitted(name: str, room: int) -> str:
    """Shorten a path at its beginning, which says less than its end."""
    if cell_width(name) <= room:
        return name
    while cell_width(name) > room - 1:
        name = name[1:]
    return f"…{name}"


def _duration(seconds: float) -> str:
    return format_seconds(seconds if seconds >= 60 else round(max(0.0, seconds)) or 0) if seconds >= 1 else "0 s"


def show_types(listing: TypeList, out: Console) -> None:
    """Print a line per type: its label, its name for `jupyter execute --kernel_name`, its cost per hour."""
    labels = max(cell_width(listed.type.label) for listed in listing.types) + 2
    names = max(cell_width(listed.type.name) for listed in listing.types) + 2
    for listed in listing.types:
        kind = listed.type
        line = Text.assemble(
            (align_left(kind.label, labels), "bold"),
            align_left(kind.name, names),
            (_describe_rate(kind.units_per_hour), "dim"),
            ("" if listed.written else f"  {text('not installed yet')}", "yellow"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
    out.print()
    out.print(
        text("`ownlab run -t` takes these names, also without `ownlab-`. In a lab, ownlab-cpu is python3."),
        soft_wrap=True,
    )
    folder = text("Kernelspecs for Jupyter: {folder}", folder=listing.folder)
    out.print(Text(folder, style="dim"), no_wrap=True, overflow="ignore", crop=False)
    if listing.export:
        advice = Text(text("Before `jupyter execute`, papermill or VS Code, run: ")).append(
            listing.export, style="cyan"
        )
        out.print(advice, no_wrap=True, overflow="ignore", crop=False)
    if listing.gone:
        out.print(text("Installed, but no longer available: {types}", types=facts(*listing.gone)))
    if listing.gone or not all(listed.written for listed in listing.types):
        out.print(text("Update the kernelspecs: ownlab types refresh"))
    if all(listed.type.kind is None for listed in listing.types):
        out.print(text("No usable card was found. `ownlab doctor` shows why."))


def _describe_rate(units: float) -> str:
    return text("1 unit/h") if units == 1 else text("{units:g} units/h", units=units)
