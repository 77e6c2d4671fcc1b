"""The widgets of the full screen, and bars and graphs as text. Widgets draw the view and keep no state."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.widget import Widget

from ownlab.instruments.top.formatting import (
    ACTIVITY,
    BUSY,
    CLOCK,
    DETAILS,
    MEASURES,
    MEASURES_OF_GPM,
    MEMORY,
    POWER,
    Measure,
    ProcessRow,
    card_name,
    card_state,
    format_host_memory,
    format_host_rates,
    format_host_state,
    format_percent,
    percentage,
)
from ownlab.instruments.top.nvml_child import PENDING
from ownlab.instruments.top.records import CardSample, HostSample, Verdict
from ownlab.instruments.top.screen.model import View
from ownlab.render.wide_text import align_left, align_right, cell_width, shorten, wrap_lines
from ownlab.text import text
from ownlab.units import GIB

__all__ = [
    "BLOCKS",
    "PLAIN",
    "CardPanels",
    "Glyphs",
    "HostPanel",
    "ProcessTable",
    "TitleBar",
    "ViewWidget",
    "bar",
    "clean",
    "glyphs_for",
    "graph",
]

Glyphs = str  # from empty to full

BLOCKS: Glyphs = " ▁▂▃▄▅▆▇█"
PLAIN: Glyphs = " .:-=+*#"
_SIDEWAYS = " ▏▎▍▌▋▊▉█"


def glyphs_for(environ: Mapping[str, str], encoding: str | None = None) -> Glyphs:
    """Return block characters if the terminal has them: not the Linux console, and only with UTF-8."""
    encoding = encoding or getattr(sys.stdout, "encoding", None) or "ascii"
    utf8 = encoding.lower().replace("-", "").replace("_", "") == "utf8"
    return BLOCKS if utf8 and environ.get("TERM") not in ("linux", "vt100", "vt220") else PLAIN


def bar(percent: float | None, width: int, glyphs: Glyphs = BLOCKS) -> tuple[str, str]:
    """Return the filled and the empty part of a bar. Every value above 0 is visible; an unknown one is blank."""
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
    """Return a graph of the last `width` percentages as lines from the top, the newest at the right. Unknown is blank."""
    shown = list(values[-width:]) if width > 0 else []
    columns = [_column(value, height, glyphs) for value in shown]
    pad = " " * (width - len(shown))
    return [pad + "".join(column[row] for column in columns) for row in range(height)]


def _column(value: float | None, height: int, glyphs: Glyphs) -> str:
    """Return one value as characters from the top down."""
    if value is None:
        return " " * height
    steps = len(glyphs) - 1
    filled = round(min(100.0, max(0.0, value)) / 100 * height * steps)
    if filled == 0 and value >= 0:
        filled = 1  # a line at the bottom distinguishes 0 from unknown
    whole, part = divmod(filled, steps)
    if whole == height:
        # A gap at the top separates a full column from the graph above.
        return glyphs[-2] + glyphs[-1] * (height - 1)
    return (glyphs[-1] * whole + (glyphs[part] if part else "")).ljust(height)[::-1]


# --- widgets ----------------------------------------------------------------------------------------------------------

# Other users' processes may have any name: control characters are replaced.
_CONTROL_CHARACTERS = dict.fromkeys((*range(32), *range(127, 160)), "�")
_LABEL = 8
_VALUE = cell_width(text("{used} of {total}", used="80.4 GiB", total="141 GiB"))  # the longest value
_DIM = "dim"
_SELECTED = "reverse"
# The columns of the compact table of cards: title and width. The name gets the rest of the line.
_COLUMNS = (
    (text("busy %"), 6),
    (text("SM %"), 5),
    (text("tensor %"), 8),
    (text("DRAM %"), 6),
    (text("used GiB"), 8),
    (text("of"), 4),
    ("W", 4),
    ("°C", 3),
)
# A narrower bar is useless.
_NARROWEST_BAR = 6


def clean(content: str) -> str:
    """Replace control characters in a string from outside."""
    return content.translate(_CONTROL_CHARACTERS)


def styled(content: str, style: str = "") -> Content:
    """Return text that is never interpreted as markup."""
    return Content.styled(content, style) if style else Content(content)


class ViewWidget(Widget):
    """A widget that draws the view."""

    def __init__(self, view: View, glyphs: Glyphs = BLOCKS) -> None:
        super().__init__()
        self.view = view
        self.glyphs = glyphs

    def lines(self, width: int) -> list[Content]:
        """Return the content for this width."""
        raise NotImplementedError

    def render(self) -> Content:
        """Called by Textual."""
        return Content("\n").join(self.lines(max(20, self.size.width)))

    def redraw(self) -> None:
        """Redraw. Without a change of height nothing else is redrawn, for slow connections."""
        self.refresh()


class AutoHeightWidget(ViewWidget):
    """A widget that is as high as its content."""

    def redraw(self) -> None:
        self.refresh(layout=len(self.lines(max(20, self.size.width))) != self.size.height)


class TitleBar(ViewWidget):
    """The first line: source, time, filter and pause."""

    def __init__(self, view: View, heading: str) -> None:
        super().__init__(view)
        self.heading = heading

    def lines(self, width: int) -> list[Content]:
        view = self.view
        at = "" if view.sample is None else time.strftime("%H:%M:%S", time.localtime(view.sample.at))
        states = [
            _format_pause(view),
            view.ended,
            text("only “{filter}”", filter=view.filter) if view.filter else "",
        ]
        right = "  ".join(state for state in (*states, at) if state)
        left = shorten(self.heading, max(0, width - cell_width(right) - 2))
        return [styled(shorten(align_left(left, width - cell_width(right)) + right, width), "bold reverse")]


class CardPanels(AutoHeightWidget):
    """All cards, as panels if there is room, else as a table with two lines each; or only the zoomed card."""

    def __init__(self, view: View, glyphs: Glyphs) -> None:
        super().__init__(view, glyphs)
        self.room = 0  # available lines

    def lines(self, width: int) -> list[Content]:
        view = self.view
        if view.sample is None:
            return [styled(" " + text("Waiting for the first sample …"), _DIM)]
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
        """Return the verdicts on cards that are no longer there."""
        present = {card.uuid for card in self.view.cards}
        gone = [verdict for uuid, verdict in self.view.verdicts.items() if uuid not in present]
        return [
            styled(line, verdict_style(verdict)) for verdict in gone for line in wrap(f" {verdict.sentence}", width, 2)
        ]

    def no_card(self, width: int) -> list[Content]:
        """Explain why there is no card; the host is still shown."""
        reason = self.view.sample.trouble if self.view.sample else ""
        if reason == PENDING:  # a driver without persistence mode takes seconds to start
            return [styled(f" {reason} …", "bold")]
        reason = clean(reason) or text("NVML finds none on this machine")
        message = " " + text("No GPU to watch: {reason}.", reason=reason)
        hint = " " + text("Below are the host and the processes of the lab. See also: ownlab doctor")
        return [
            *(styled(line, "bold") for line in wrap(message, width, 3)),
            styled(shorten(hint, width), _DIM),
        ]

    def panel(self, card: CardSample, width: int, *, zoomed: bool = False) -> list[Content]:
        """Return name, verdict and one line per measure, the least important last: a small screen cuts it off."""
        lines = [self.name_line(card, width), *self.verdict_lines(card, width, advice=True)]
        if card.lost:
            return lines
        measures = (*MEASURES, *DETAILS) if zoomed else MEASURES
        shown = [measure for measure in measures if card.saturation is not None or measure not in MEASURES_OF_GPM]
        height = max(1, min(4, (self.room - len(lines) - 1) // len(shown))) if zoomed else 1
        for measure in shown:
            lines += self.measure_lines(card, measure, width, height)
        if card.saturation is None and card.no_saturation:
            note = "  " + text("saturation unknown: {reason}", reason=clean(card.no_saturation))
            lines.append(styled(shorten(note, width), _DIM))
        return lines

    def name_line(self, card: CardSample, width: int) -> Content:
        selected = len(self.view.cards) > 1 and card is self.view.card
        name = shorten(f"{'>' if selected else ' '}{clean(card_name(card))}", width)
        state = shorten(text("lost") if card.lost else card_state(card), max(0, width - cell_width(name) - 2))
        return styled(name, "bold reverse" if selected else "bold") + styled(
            align_right(state, width - cell_width(name)), _DIM
        )

    def measure_lines(self, card: CardSample, measure: Measure, width: int, height: int) -> list[Content]:
        colour = measure_colour(measure)
        drawn = graph(self.view.series(card.uuid, measure.value, width), graph_width(width), height, self.glyphs)
        first = bar_line(measure.name, measure.value(card), measure.format(card), drawn[0], width, colour, self.glyphs)
        indent = " " * (width - graph_width(width))
        return [first, *(styled(indent + line, colour) for line in drawn[1:])]

    def verdict_lines(self, card: CardSample, width: int, *, advice: bool) -> list[Content]:
        verdict = self.view.verdicts.get(card.uuid)
        if verdict is None:
            return [styled("  " + (clean(card.lost) or text("no verdict yet")), _DIM)]
        sentence = wrap(f"  {clean(verdict.sentence)}", width, 2 if advice else 1)
        lines = [styled(line, verdict_style(verdict)) for line in sentence]
        if advice and verdict.advice:
            lines += [styled(line) for line in wrap(f"  {clean(verdict.advice)}", width, 2)]
        return lines

    def table(self, width: int, room: int) -> list[Content]:
        """Return two lines per card: the values in columns, and the verdict. The selected card is always visible."""
        cards = self.view.cards
        most = max(1, (room - 1) // 2)
        first = max(0, min(self.view.selected_card - most // 2, len(cards) - most))
        named = max(12, width - sum(column + 2 for _, column in _COLUMNS))
        range_text = f" {first + 1}–{first + most} / {len(cards)}" if most < len(cards) else " " + text("card")
        head = align_left(range_text, named) + "".join(f"  {align_right(title, column)}" for title, column in _COLUMNS)
        lines = [styled(shorten(head, width), _DIM)]
        for card in cards[first : first + most]:
            lines += [self.table_line(card, width, named), *self.verdict_lines(card, width, advice=False)]
        return lines

    def table_line(self, card: CardSample, width: int, named: int) -> Content:
        selected = card is self.view.card
        name = align_left(shorten(f"{'>' if selected else ' '}{clean(card_name(card, short=True))}", named), named)
        cells = [measure.format(card).removesuffix(" %") for measure in (BUSY, *ACTIVITY)]
        cells += [
            _format_gib(card.memory_used),
            _format_gib(card.memory_total),
            _format_number(card.power),
            _format_number(card.temperature),
        ]
        values = "".join(f"  {cell or '–':>{column}}" for cell, (_, column) in zip(cells, _COLUMNS, strict=True))
        return styled(name, "bold reverse" if selected else "bold") + styled(shorten(values, width - cell_width(name)))


class HostPanel(AutoHeightWidget):
    """The host in four lines; in one if nothing is known about it."""

    def lines(self, width: int) -> list[Content]:
        sample = self.view.sample
        if sample is None:
            return []
        host = sample.host
        if host.cpu is None and host.memory_used is None and sample.seconds is not None:
            return [styled(" " + text("host  unknown"), _DIM)]
        past = [sample.host for sample in self.view.history]
        memory = [percentage(before.memory_used, before.memory) for before in past]
        heading = text("host")
        return [
            styled(f" {heading}  ", "bold") + styled(shorten(format_host_state(host), width - cell_width(heading) - 3)),
            self.bar(width, text("CPU"), _format_cpu(host), [before.cpu for before in past]),
            self.bar(width, text("RAM"), format_host_memory(host), memory),
            styled(shorten(f"  {format_host_rates(host)}", width)),
        ]

    def bar(self, width: int, name: str, value: str, past: list[float | None]) -> Content:
        drawn = graph(past, graph_width(width), 1, self.glyphs)
        return bar_line(name, past[-1], value, drawn[0], width, "ansi_blue", self.glyphs)


class ProcessTable(ViewWidget):
    """The processes on the cards and those of the lab."""

    # The name of the order of `SORT_KEYS`, the title and the width.
    COLUMNS = (
        ("PID", text("PID"), 8),
        ("card", text("card"), 5),
        ("GPU memory", text("GPU mem"), 9),
        ("GPU", text("GPU"), 6),
        ("CPU", text("CPU"), 6),
        ("RAM", text("RAM"), 9),
    )

    def lines(self, width: int) -> list[Content]:
        rows = self.view.rows()
        height = max(1, self.size.height - 1)
        selected = self.view.selected_row()
        position = rows.index(selected) if selected in rows else 0
        first = max(0, min(position - height + 1 if position >= height else 0, len(rows) - height))
        lines = [self.heading(width, first, height, len(rows))]
        lines += [self.row_line(row, width, row == selected) for row in rows[first : first + height]]
        if not rows:
            lines.append(styled(shorten(f"  {self.explain_empty()}", width), _DIM))
        return lines

    def explain_empty(self) -> str:
        if self.view.filter:
            return text("No process matches “{filter}”. Esc shows all.", filter=self.view.filter)
        if self.view.sample is not None and any(card.processes is None for card in self.view.cards):
            return text("The driver does not report which processes are on these cards.")
        return text("No process uses a card, and the lab runs none.")

    def heading(self, width: int, first: int, height: int, count: int) -> Content:
        mark = "▲" if self.view.reverse else "▼"
        titles = []
        for by, title, room in self.COLUMNS:
            titles.append(align_right(f"{title}{mark}" if by == self.view.sort else title, room))
        rows = f" {first + 1}–{min(count, first + height)} / {count}" if count > height else ""
        line = f"{' '.join(titles)}  {text('owner, command')}{rows}"
        return styled(align_left(shorten(line, width), width), "bold underline")

    def row_line(self, row: ProcessRow, width: int, selected: bool) -> Content:
        values = " ".join(
            align_right(shorten(cell, room), room) for cell, (*_, room) in zip(row.cells, self.COLUMNS, strict=True)
        )
        names = "  ".join(part for part in (clean(row.owner), clean(row.command)) if part)
        line = f"{values}  {shorten(names, max(0, width - cell_width(values) - 2))}"
        return styled(align_left(shorten(line, width), width), _SELECTED if selected else "")


def measure_colour(measure: Measure) -> str:
    """Return one colour for busy, one for activity, one for memory, power and clock."""
    if measure is BUSY:
        return "ansi_cyan"
    return "ansi_magenta" if measure in (MEMORY, POWER, CLOCK) else "ansi_green"


def bar_width(width: int) -> int:
    """Return half of the room beside label and value, or all of it if half is too narrow."""
    room = max(0, width - 2 - _LABEL - _VALUE - 3)
    return min(24, room // 2) if room // 2 >= _NARROWEST_BAR else room


def graph_width(width: int) -> int:
    """Return the room that the bar leaves."""
    return max(0, width - 2 - _LABEL - _VALUE - 3 - bar_width(width))


def bar_line(
    name: str, value: float | None, formatted: str, drawn: str, width: int, colour: str, glyphs: Glyphs
) -> Content:
    """Return name, bar, value and the first line of the graph."""
    filled, empty = bar(value, bar_width(width), glyphs)
    return Content.assemble(
        f"  {align_left(name, _LABEL)}",
        (filled, colour),
        (empty, _DIM),
        f" {align_right(formatted, _VALUE)}  ",
        (drawn, colour),
    )


_GOOD = ("tensor", "memory", "fine", "busy")
_QUIET = ("idle", "desktop", "unknown", "split")
_BROKEN = ("gone", "lost", "silent")


def verdict_style(verdict: Verdict | None) -> str:
    """Green: well used. Yellow: could do more. Red: does not answer. Dim: idle or unknown."""
    if verdict is None or verdict.code in _QUIET:
        return _DIM
    if verdict.code in _BROKEN:
        return "bold ansi_red"
    return "bold ansi_green" if verdict.code in _GOOD else "bold ansi_yellow"


def _format_pause(view: View) -> str:
    if not view.paused:
        return ""
    return text("PAUSED, {count} behind", count=view.missed) if view.missed else text("PAUSED")


def _format_cpu(host: HostSample) -> str:
    share = format_percent(host.cpu)
    if host.cpu is None or host.cores is None:
        return share
    return text("{share} of {cores} cores", share=share, cores=host.cores)


def _format_gib(size: int | None) -> str:
    return "" if size is None else f"{size / GIB:.1f}" if size < 10 * GIB else f"{size / GIB:.0f}"


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def wrap(content: str, width: int, most: int) -> list[str]:
    """Wrap into at most `most` lines, all indented like the first."""
    indent = " " * (len(content) - len(content.lstrip(" ")))
    return [indent + line for line in wrap_lines(content.strip(), max(20, width) - len(indent), most)]
