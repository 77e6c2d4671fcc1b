"""What the screen is made of. Each draws itself from the view; none keeps anything."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.widget import Widget

from ownlab.instruments.top.formatting import (
    BUSY,
    DETAILS,
    MEASURED,
    MEASURES,
    SATURATION,
    Measure,
    Row,
    card_name,
    card_state,
    host_words,
    memory_words,
    of_total,
    percent,
)
from ownlab.instruments.top.nvml_child import PENDING
from ownlab.instruments.top.records import CardSample, Verdict
from ownlab.instruments.top.screen.model import View
from ownlab.units import GIB

__all__ = ["BLOCKS", "PLAIN", "Cards", "Glyphs", "Host", "Processes", "Title", "bar", "clean", "glyphs_for", "graph"]

Glyphs = str  # from nothing to full; what stands in between are parts of one character

BLOCKS: Glyphs = " ▁▂▃▄▅▆▇█"
PLAIN: Glyphs = " .:-=+*#"
_SIDEWAYS = " ▏▎▍▌▋▊▉█"


def glyphs_for(environ: Mapping[str, str], encoding: str | None = None) -> Glyphs:
    """Blocks, where the terminal has them: the console of Linux has not, nor has one that is not UTF-8."""
    encoding = encoding or getattr(sys.stdout, "encoding", None) or "ascii"
    utf8 = encoding.lower().replace("-", "").replace("_", "") == "utf8"
    return BLOCKS if utf8 and environ.get("TERM") not in ("linux", "vt100", "vt220") else PLAIN


def bar(percent: float | None, width: int, glyphs: Glyphs = BLOCKS) -> tuple[str, str]:
    """The filled part and the empty one. Something that is more than nothing shows."""
    if percent is None:
        return "", " " * width
    share = min(100.0, max(0.0, percent)) / 100
    if glyphs is not BLOCKS:
        filled = round(share * width) or (1 if share > 0 else 0)
        return "#" * filled, "." * (width - filled)
    eighths = round(share * width * 8) or (1 if share > 0 else 0)
    whole, part = divmod(eighths, 8)
    filled_text = "█" * whole + (_SIDEWAYS[part] if part else "")
    return filled_text, " " * (width - len(filled_text))


def graph(values: Sequence[float | None], width: int, height: int = 1, glyphs: Glyphs = BLOCKS) -> list[str]:
    """The last `width` values from 0 to 100, newest at the right, as lines from the top."""
    shown = list(values[-width:]) if width > 0 else []
    columns = [_column(value, height, glyphs) for value in shown]
    pad = " " * (width - len(shown))
    return [pad + "".join(column[row] for column in columns) for row in range(height)]


def _column(value: float | None, height: int, glyphs: Glyphs) -> str:
    """One value as characters from the top down."""
    if value is None:
        return " " * height
    steps = len(glyphs) - 1
    filled = round(min(100.0, max(0.0, value)) / 100 * height * steps)
    if filled == 0 and value >= 0:
        filled = 1  # a line at the bottom: it was measured, and was nothing
    whole, part = divmod(filled, steps)
    if whole == height:
        # A full column leaves a little at its top, so that the graph above is not joined to it.
        return glyphs[-2] + glyphs[-1] * (height - 1)
    return (glyphs[-1] * whole + (glyphs[part] if part else "")).ljust(height)[::-1]


# --- widgets
# Other people's processes may have any name: what would steer this terminal is shown as a sign instead.
_SIGNS = dict.fromkeys((*range(32), *range(127, 160)), "�")
_LABEL = 8
_FIGURE = 19  # "80.4 GiB of 141 GiB"
_DIM = "dim"
_CHOSEN = "reverse"
# Of cards that have two lines each: title and width; what is left of the line is the name's.
_SHORT = (("busy %", 6), ("SM %", 5), ("tensor %", 8), ("DRAM %", 6), ("used GiB", 8), ("of", 4), ("W", 4), ("°C", 3))
# Fewer columns than this cannot hold a bar that tells anything.
_NARROWEST_BAR = 6


def clean(text: str) -> str:
    """What others named, without what steers a terminal."""
    return text.translate(_SIGNS)


def fitted(text: str, room: int) -> str:
    """Cut at the end, with a sign that it was."""
    return text if len(text) <= room else text[: max(0, room - 1)] + "…"


def styled(text: str, style: str = "") -> Content:
    """Text that is never taken for markup."""
    return Content.styled(text, style) if style else Content(text)


def joined(lines: list[Content]) -> Content:
    """Lines below each other."""
    return Content("\n").join(lines)


class Drawn(Widget):
    """A widget that draws the view."""

    def __init__(self, view: View, glyphs: Glyphs = BLOCKS) -> None:
        super().__init__()
        self.view = view
        self.glyphs = glyphs

    def lines(self, width: int) -> list[Content]:
        """What it shows, in this many columns."""
        raise NotImplementedError

    def render(self) -> Content:
        """Called by Textual."""
        return joined(self.lines(max(20, self.size.width)))

    def redraw(self) -> None:
        """Draw it anew. Where it is as high as before nothing else is drawn with it: connections may be slow."""
        self.refresh()


class Grows(Drawn):
    """A widget that is as high as what it shows."""

    def redraw(self) -> None:
        self.refresh(layout=len(self.lines(max(20, self.size.width))) != self.size.height)


class Title(Drawn):
    """The first line: what this is, when, and how it is looked at."""

    def __init__(self, view: View, heading: str) -> None:
        super().__init__(view)
        self.heading = heading

    def lines(self, width: int) -> list[Content]:
        view = self.view
        at = "" if view.sample is None else time.strftime("%H:%M:%S", time.localtime(view.sample.at))
        states = [
            f"PAUSED, {view.missed} behind" if view.paused and view.missed else "PAUSED" if view.paused else "",
            view.ended,
            f"only “{view.filter}”" if view.filter else "",
        ]
        right = "  ".join(state for state in (*states, at) if state)
        left = fitted(self.heading, max(0, width - len(right) - 2))
        return [styled((left.ljust(width - len(right)) + right)[:width], "bold reverse")]


class Cards(Grows):
    """All cards, each in a panel where there is room, else in two lines; or one that is zoomed, alone."""

    def __init__(self, view: View, glyphs: Glyphs) -> None:
        super().__init__(view, glyphs)
        self.room = 0  # lines that it may take

    def lines(self, width: int) -> list[Content]:
        view = self.view
        if view.sample is None:
            return [styled(" Waiting for the first sample …", _DIM)]
        gone = self.gone(width)
        if not view.cards:
            return [*gone, *self.no_card(width)]
        if view.zoomed and view.card is not None:
            return self.panel(view.card, width, zoomed=True)[: self.room]
        panels = [self.panel(card, width) for card in view.cards]
        if sum(map(len, panels)) + len(gone) <= self.room or len(panels) == 1:
            return [*gone, *(line for panel in panels for line in panel)][: self.room]
        return [*gone, *self.table(width, self.room - len(gone))]

    def gone(self, width: int) -> list[Content]:
        """What is said of cards that are no longer there."""
        here = {card.uuid for card in self.view.cards}
        lost = [verdict for uuid, verdict in self.view.verdicts.items() if uuid not in here]
        return [styled(line, verdict_style(each)) for each in lost for line in wrapped(f" {each.sentence}", width, 2)]

    def no_card(self, width: int) -> list[Content]:
        """The host alone is a view as well; why there is no card must be said."""
        why = self.view.sample.trouble if self.view.sample else ""
        if why == PENDING:  # a driver without persistence mode takes seconds to start
            return [styled(f" {why} …", "bold")]
        said = f" No GPU to watch: {clean(why) or 'this machine has none that NVML knows'}."
        return [
            *(styled(line, "bold") for line in wrapped(said, width, 3)),
            styled(fitted(" Below are the host, and what the lab runs. See also: ownlab doctor", width), _DIM),
        ]

    def panel(self, card: CardSample, width: int, *, zoomed: bool = False) -> list[Content]:
        """Name, verdict, one line for each measure: what a small screen cuts off is the least important."""
        lines = [self.name_line(card, width), *self.verdict_lines(card, width, advice=True)]
        if card.lost:
            return lines
        measures = (*MEASURES, *DETAILS) if zoomed else MEASURES
        shown = [each for each in measures if card.saturation is not None or each not in MEASURED]
        height = max(1, min(4, (self.room - len(lines) - 1) // len(shown))) if zoomed else 1
        for measure in shown:
            lines += self.measure_lines(card, measure, width, height)
        if card.saturation is None and card.no_saturation:
            lines.append(styled(fitted(f"  saturation not known: {clean(card.no_saturation)}", width), _DIM))
        return lines

    def name_line(self, card: CardSample, width: int) -> Content:
        chosen = len(self.view.cards) > 1 and card is self.view.card
        name = fitted(f"{'>' if chosen else ' '}{clean(card_name(card))}", width)
        state = fitted("lost" if card.lost else card_state(card), max(0, width - len(name) - 2))
        return styled(name, "bold reverse" if chosen else "bold") + styled(state.rjust(width - len(name)), _DIM)

    def measure_lines(self, card: CardSample, measure: Measure, width: int, height: int) -> list[Content]:
        colour = colour_of(measure)
        drawn = graph(self.view.series(card.uuid, measure.value, width), graph_width(width), height, self.glyphs)
        first = bar_line(measure.name, measure.value(card), measure.words(card), drawn[0], width, colour, self.glyphs)
        indent = " " * (width - graph_width(width))
        return [first, *(styled(indent + line, colour) for line in drawn[1:])]

    def verdict_lines(self, card: CardSample, width: int, *, advice: bool) -> list[Content]:
        verdict = self.view.verdicts.get(card.uuid)
        if verdict is None:
            return [styled("  " + (clean(card.lost) or "no verdict yet"), _DIM)]
        said = wrapped(f"  {clean(verdict.sentence)}", width, 2 if advice else 1)
        lines = [styled(line, verdict_style(verdict)) for line in said]
        if advice and verdict.advice:
            lines += [styled(line) for line in wrapped(f"  {clean(verdict.advice)}", width, 2)]
        return lines

    def table(self, width: int, room: int) -> list[Content]:
        """Two lines for each card: the figures in columns, and what they mean. The chosen one is in sight."""
        cards = self.view.cards
        most = max(1, (room - 1) // 2)
        first = max(0, min(self.view.chosen_card - most // 2, len(cards) - most))
        named = max(12, width - sum(column + 2 for _, column in _SHORT))
        where = f" {first + 1}–{first + most} of {len(cards)}" if most < len(cards) else " card"
        head = where.ljust(named) + "".join(f"  {title:>{column}}" for title, column in _SHORT)
        lines = [styled(fitted(head, width), _DIM)]
        for card in cards[first : first + most]:
            lines += [self.table_line(card, width, named), *self.verdict_lines(card, width, advice=False)]
        return lines

    def table_line(self, card: CardSample, width: int, named: int) -> Content:
        chosen = card is self.view.card
        name = fitted(f"{'>' if chosen else ' '}{clean(card_name(card, short=True))}", named).ljust(named)
        cells = [measure.words(card).removesuffix(" %") for measure in (BUSY, *SATURATION)]
        cells += [_gib(card.memory_used), _gib(card.memory_total), _number(card.power), _number(card.temperature)]
        figures = "".join(f"  {cell or '–':>{column}}" for cell, (_, column) in zip(cells, _SHORT, strict=True))
        return styled(name, "bold reverse" if chosen else "bold") + styled(fitted(figures, width - len(name)))


class Host(Grows):
    """The machine around the cards, in four lines; in one where nothing is known of it."""

    def lines(self, width: int) -> list[Content]:
        sample = self.view.sample
        if sample is None:
            return []
        host = sample.host
        if host.cpu is None and host.memory_used is None and sample.seconds is not None:
            return [styled(" host  nothing is known of it", _DIM)]
        past = [each.host for each in self.view.history]
        cores = "" if host.cores is None or host.cpu is None else f" of {host.cores} cores"
        first, second = host_words(host)
        return [
            styled(" host  ", "bold") + styled(fitted(first, width - 7)),
            self.bar(width, "CPU", f"{percent(host.cpu)}{cores}", [each.cpu for each in past]),
            self.bar(width, "RAM", memory_words(host), [of_total(each.memory_used, each.memory) for each in past]),
            styled(fitted(f"  {second}", width)),
        ]

    def bar(self, width: int, name: str, words: str, past: list[float | None]) -> Content:
        drawn = graph(past, graph_width(width), 1, self.glyphs)
        return bar_line(name, past[-1], words, drawn[0], width, "ansi_blue", self.glyphs)


class Processes(Drawn):
    """Who uses the cards, and what the lab started."""

    COLUMNS = (("PID", 8), ("card", 5), ("GPU mem", 9), ("GPU", 6), ("CPU", 6), ("RAM", 9))

    def lines(self, width: int) -> list[Content]:
        rows = self.view.rows()
        height = max(1, self.size.height - 1)
        chosen = self.view.chosen_row()
        place = rows.index(chosen) if chosen in rows else 0
        first = max(0, min(place - height + 1 if place >= height else 0, len(rows) - height))
        lines = [self.heading(width, first, height, len(rows))]
        lines += [self.row_line(row, width, row == chosen) for row in rows[first : first + height]]
        if not rows:
            lines.append(styled(fitted(f"  {self.nothing()}", width), _DIM))
        return lines

    def nothing(self) -> str:
        if self.view.filter:
            return f"No process has “{self.view.filter}” in it. Esc shows all again."
        if self.view.sample is not None and any(card.processes is None for card in self.view.cards):
            return "The driver does not tell which processes are on these cards."
        return "No process is on a card, and no lab runs any."

    def heading(self, width: int, first: int, height: int, count: int) -> Content:
        mark = "▲" if self.view.reverse else "▼"
        heads = []
        for title, room in self.COLUMNS:
            by = {"GPU mem": "GPU memory"}.get(title, title)
            heads.append(f"{title}{mark}".rjust(room) if by == self.view.sort else title.rjust(room))
        more = f" {first + 1}–{min(count, first + height)} of {count}" if count > height else ""
        text = " ".join(heads) + "  whose, command" + more
        return styled(fitted(text, width).ljust(width), "bold underline")

    def row_line(self, row: Row, width: int, chosen: bool) -> Content:
        figures = " ".join(
            fitted(cell, room).rjust(room) for cell, (_, room) in zip(row.cells, self.COLUMNS, strict=True)
        )
        words = "  ".join(part for part in (clean(row.whose), clean(row.command)) if part)
        line = f"{figures}  {fitted(words, max(0, width - len(figures) - 2))}"
        return styled(line.ljust(width)[:width], _CHOSEN if chosen else "")


def colour_of(measure: Measure) -> str:
    """Busy is what nvidia-smi says; saturation is what was done; memory and power stand apart."""
    if measure.name == "busy":
        return "ansi_cyan"
    return "ansi_magenta" if measure.name in ("memory", "power", "clock") else "ansi_green"


def bar_width(width: int) -> int:
    """Of a line: half of what label and figure leave, where that is enough to tell anything."""
    room = max(0, width - 2 - _LABEL - _FIGURE - 3)
    return min(24, room // 2) if room // 2 >= _NARROWEST_BAR else room


def graph_width(width: int) -> int:
    """What the bar leaves."""
    return max(0, width - 2 - _LABEL - _FIGURE - 3 - bar_width(width))


def bar_line(
    name: str, value: float | None, words: str, drawn: str, width: int, colour: str, glyphs: Glyphs
) -> Content:
    """Name, bar, figure, and the first line of the graph."""
    filled, empty = bar(value, bar_width(width), glyphs)
    return Content.assemble(
        f"  {name:<{_LABEL}}", (filled, colour), (empty, _DIM), f" {words:>{_FIGURE}}  ", (drawn, colour)
    )


_WELL = ("tensor", "memory", "fine", "busy")
_QUIET = ("idle", "desktop", "unknown", "split")
_BROKEN = ("gone", "lost", "silent")


def verdict_style(verdict: Verdict | None) -> str:
    """Green: it is used well. Yellow: something is left on the table. Red: it does not answer."""
    if verdict is None or verdict.code in _QUIET:
        return _DIM
    if verdict.code in _BROKEN:
        return "bold ansi_red"
    return "bold ansi_green" if verdict.code in _WELL else "bold ansi_yellow"


def _gib(size: int | None) -> str:
    return "" if size is None else f"{size / GIB:.1f}" if size < 10 * GIB else f"{size / GIB:.0f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def wrapped(text: str, width: int, most: int) -> list[str]:
    """A text in at most so many lines, those after the first as far in as the first."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    return textwrap.wrap(
        text.strip(), max(20, width), max_lines=most, placeholder=" …", initial_indent=indent, subsequent_indent=indent
    ) or [""]
