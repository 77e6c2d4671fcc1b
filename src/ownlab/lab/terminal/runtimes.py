"""Runtimes, cards and usage in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ownlab.lab.environments.registry import EnvironmentList
from ownlab.lab.runtimes.records import CardState, Runtime, Snapshot, TypeList, Usage, UsageLine
from ownlab.render.console import labelled
from ownlab.units import PARTS, format_bytes, format_seconds

__all__ = [
    "describe_state",
    "name_of",
    "short_id",
    "short_path",
    "show_environments",
    "show_runtimes",
    "show_types",
    "show_usage",
]

# A pipe has no width: there the first column is this wide.
_NAME_IN_A_PIPE = 40
_SHARES = {2: "⅙", 3: "¼", 4: "⅓", 6: "½", 8: "⅔", 9: "¾", 12: "1"}
# Right-hand columns of the table of runtimes: title and width; what is left of the line is the notebook's.
_COLUMNS = (("state", 16), ("RAM", 8), ("VRAM", 10), ("time left", 10), ("units/h", 7))


def show_runtimes(snapshot: Snapshot, out: Console) -> None:
    """Two lines for each runtime, a line for each card, and what people should know."""
    if snapshot.runtimes:
        _show_table(snapshot, out)
    else:
        out.print("Nothing runs. Start a lab and open a notebook: ownlab up", markup=False)
    if snapshot.cards:
        out.print()
        for card in snapshot.cards:
            _show_card(card, snapshot, out)
    for runtime in snapshot.runtimes:
        if runtime.warned and runtime.mine and runtime.ends_at is not None:
            out.print()
            labelled(out, "", _warning(runtime, runtime.ends_at - snapshot.at), indent=0, width=0)
    out.print()
    kind = "shared by the people of this machine" if snapshot.shared else "your own"
    labelled(out, "store", f"{snapshot.store} ({kind})", indent=0, width=7)
    for notice in snapshot.notices:
        labelled(out, "note", notice, indent=0, width=7)


def name_of(runtime: Runtime) -> str:
    """Its notebook, from the lab's folder on where that is known; else its id."""
    return short_path(runtime.notebook, runtime.lab) or short_id(runtime.id)


def short_path(notebook: str, folder: str | None) -> str:
    """A notebook's path from its lab's folder on, where it is in there."""
    return notebook.removeprefix(f"{folder.rstrip('/')}/") if folder else notebook


def describe_state(runtime: Runtime, now: float) -> str:
    """ "busy 2 h 10 min", "waiting, next"."""
    if runtime.state == "waiting":
        return "waiting, next" if runtime.place == 1 else f"waiting, no. {runtime.place or '?'}"
    if runtime.state != "running":
        return runtime.state
    return f"{'busy' if runtime.busy else 'idle'} {_duration(now - runtime.changed_at)}"


def short_id(runtime: str) -> str:
    """Enough of an id to tell runtimes apart; `ownlab runtimes stop` takes it."""
    return runtime[:8]


def _show_table(snapshot: Snapshot, out: Console) -> None:
    room = out.width if out.width < 1000 else _NAME_IN_A_PIPE + sum(width + 2 for _, width in _COLUMNS)
    room = max(room - sum(width + 2 for _, width in _COLUMNS), 12)
    head = "notebook".ljust(room) + "".join(f"  {_placed(title, width)}" for title, width in _COLUMNS)
    _line(out, Text(head, style="dim"))
    for runtime in snapshot.runtimes:
        _line(out, _figures(runtime, snapshot.at, room))
        cards = ", ".join(_share(card.index, card.parts) for card in runtime.cards if card.index is not None)
        about = [short_id(runtime.id), runtime.person, runtime.label, cards, runtime.why]
        labelled(out, "", Text(" · ".join(part for part in about if part), style="dim"), indent=2, width=0)


def _figures(runtime: Runtime, now: float, room: int) -> Text:
    line = Text(_fitted(short_path(runtime.notebook, runtime.lab) or "(no notebook)", room).ljust(room), style="bold")
    over = any(card.vram is not None and card.booked is not None and card.vram > card.booked for card in runtime.cards)
    left = "" if runtime.ends_at is None else _duration(max(0.0, runtime.ends_at - now))
    cells = (
        (describe_state(runtime, now), "green" if runtime.busy else "yellow" if runtime.state == "waiting" else ""),
        ("" if runtime.ram is None else format_bytes(runtime.ram), ""),
        ("" if runtime.vram is None else f"{format_bytes(runtime.vram)}{' !' if over else ''}", "red" if over else ""),
        (left, "yellow" if runtime.warned else ""),
        (f"{runtime.units_per_hour:g}", ""),
    )
    for (text, style), (_, width) in zip(cells, _COLUMNS, strict=True):
        line.append("  ").append(_placed(text, width), style=style or "not bold")
    return line


def _show_card(card: CardState, snapshot: Snapshot, out: Console) -> None:
    parts = [card.name]
    if card.memory is not None:
        used = "" if card.memory_used is None else f"{format_bytes(card.memory_used)} of "
        parts.append(f"{used}{format_bytes(card.memory)}{' used' if used else ''}")
    if card.utilisation is not None:
        parts.append(f"{card.utilisation} % busy")
    if not card.holders and not card.strangers:
        parts.append("free")
    elif card.holders and card.free_parts:
        parts.append(f"{_SHARES.get(card.free_parts, f'{card.free_parts}/{PARTS}')} free")
    labelled(out, f"card {card.index}", ", ".join(parts), indent=0, width=8)
    known = {runtime.id: name_of(runtime) for runtime in snapshot.runtimes}
    for one in card.holders:
        share, what = _share(None, one.parts), known.get(one.runtime) or one.notebook or short_id(one.runtime)
        words = f"{share}held by {one.person} ({what}) for {_duration(snapshot.at - one.since)}"
        labelled(out, "", words, indent=0, width=8)
    for stranger in card.strangers:
        labelled(out, "", Text(f"taken by {stranger}", style="yellow"), indent=0, width=8)
    for words in _overuse(card, snapshot):
        labelled(out, "", Text(words, style="red"), indent=0, width=8)


def _overuse(card: CardState, snapshot: Snapshot) -> Iterator[str]:
    for runtime in snapshot.runtimes:
        for share in runtime.cards:
            if share.uuid == card.uuid and share.vram is not None and share.booked and share.vram > share.booked:
                yield (
                    f"! {name_of(runtime)} uses {format_bytes(share.vram)} here, more than its"
                    f" {format_bytes(share.booked)}: others on this card may run out of memory"
                )


def _warning(runtime: Runtime, left: float) -> Text:
    words = Text(f"{name_of(runtime)} ends in {_duration(max(0.0, left))}", style="yellow")
    words.append(f" ({runtime.ends_why})." if runtime.ends_why else ".")
    if runtime.may_extend:
        words.append(f" Go on longer: ownlab runtimes extend {short_id(runtime.id)}")
    return words


def show_usage(usage: Usage, out: Console) -> None:
    """A block for each week: a line for each person, and what they ran."""
    if not usage.lines:
        words = "the last week" if usage.weeks == 1 else f"the last {usage.weeks} weeks"
        out.print(f"Nothing ran here in {words}.", markup=False)
        return
    room = max(min(out.width, 110) - 3 * 12 - 2, 16)
    for week in dict.fromkeys(line.week for line in usage.lines):
        titles = "".join(title.rjust(12) for title in ("time", "card time", "units"))
        _line(out, Text(week.ljust(room), style="bold").append(titles, style="dim"))
        for line in usage.lines:
            if line.week == week:
                _show_usage_line(line, room, out)


def _show_usage_line(line: UsageLine, room: int, out: Console) -> None:
    if line.notebook is None and line.label is None:
        name, style = f"  {line.person}", ""
        if line.card_hours_left is not None:
            name += f" ({_hours(line.card_hours_left)} of card time left)"
    else:
        what = f"{line.notebook or '(no notebook)'}, {line.label or ''}".rstrip(", ")
        name, style = f"    {_fitted(what, room - 4)}", "dim"
    cells = (_hours(line.hours), _hours(line.card_hours), f"{line.units:.1f}")
    figures = "".join(cell.rjust(12) for cell in cells)
    _line(out, Text(_fitted(name, room).ljust(room) + figures, style=style))


def _hours(hours: float) -> str:
    """ "30.5 h", "12 min", "0"."""
    if hours * 3600 < 1:
        return "0"
    return f"{hours:.1f} h" if hours >= 1 else format_seconds(hours * 3600)


def _line(out: Console, text: Text) -> None:
    text.rstrip()
    out.print(text, no_wrap=True, overflow="ignore", crop=False)


def _share(index: int | None, parts: int) -> str:
    """ "½ of card 0", "card 0"; without an index "½ " or nothing."""
    share = _SHARES.get(parts, f"{parts}/{PARTS}")
    if index is None:
        return "" if parts == PARTS else f"{share} "
    return f"card {index}" if parts == PARTS else f"{share} of card {index}"


def _placed(text: str, width: int) -> str:
    """Words to the left, figures to the right."""
    return text.ljust(width) if width == _COLUMNS[0][1] else text.rjust(width)


def _fitted(name: str, room: int) -> str:
    """The end of a path tells more than its beginning."""
    return name if len(name) <= room else f"…{name[len(name) - room + 1 :]}"


def _duration(seconds: float) -> str:
    return format_seconds(seconds if seconds >= 60 else round(max(0.0, seconds)) or 0) if seconds >= 1 else "0 s"


def show_types(found: TypeList, out: Console) -> None:
    """One line for each: its label, its name for `jupyter execute --kernel_name`, what an hour costs."""
    labels = max(len(listed.type.label) for listed in found.types) + 2
    names = max(len(listed.type.name) for listed in found.types) + 2
    for listed in found.types:
        kind = listed.type
        line = Text.assemble(
            (kind.label.ljust(labels), "bold"),
            kind.name.ljust(names),
            (f"{kind.units_per_hour:g} unit{'' if kind.units_per_hour == 1 else 's'}/h", "dim"),
            ("" if listed.written else "  not written yet", "yellow"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
    out.print()
    out.print(Text(f"Written for Jupyter in {found.folder}", style="dim"), no_wrap=True, overflow="ignore", crop=False)
    if found.export:
        words = Text("For `jupyter execute`, papermill and VS Code, first: ").append(found.export, style="cyan")
        out.print(words, no_wrap=True, overflow="ignore", crop=False)
    if found.gone:
        out.print(f"Written, and no longer there: {', '.join(found.gone)}")
    if found.gone or not all(listed.written for listed in found.types):
        out.print("Bring the list up to date: ownlab types refresh")
    if all(listed.type.kind is None for listed in found.types):
        out.print("There is no card here that can be used. `ownlab doctor` says why.")


def show_environments(found: EnvironmentList, out: Console) -> None:
    """One line for each, and what to do where there is none."""
    if not found.environments:
        out.print("None was added. Runtimes start in ownlab's own environment.")
        out.print(Text("Add one: ownlab env add NAME --python PATH", style="dim"))
        return
    names = max(len(environment.name) for environment in found.environments) + 2
    for environment in found.environments:
        line = Text.assemble(
            (environment.name.ljust(names), "bold"),
            f"Python {environment.version}".ljust(16),
            environment.python,
            ("" if environment.is_there else "  is gone", "bold red"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
