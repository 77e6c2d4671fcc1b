"""What stands over the screen until it is answered: help, an explanation, a filter, a signal."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ownlab.instruments.top.formatting import DETAILS, MEASURES, Row, card_name
from ownlab.instruments.top.records import CardSample, Verdict
from ownlab.instruments.top.screen.signals import SIGNALS
from ownlab.instruments.top.screen.widgets import clean
from ownlab.units import format_seconds

__all__ = ["Asked", "Filter", "Page", "explanation", "help_page"]

_KEYS = (
    ("q", "quit"),
    ("↑ ↓", "choose a process"),
    ("← →", "choose a card"),
    ("z  Enter", "the chosen card alone with all its graphs, or all cards"),
    ("e", "explain the chosen card's verdict"),
    ("s  r", "sort by the next column; the other way round"),
    ("/", "only processes with certain words; Esc: all"),
    ("p  Space", "let the picture stand still; samples go on"),
    ("k", "send your own process a signal; it asks first"),
    ("?  h", "this page"),
)


class Page(ModalScreen[None]):
    """A text to read; any of these keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,h,e,space,ctrl+c", "dismiss", "close", priority=True),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
    ]

    def __init__(self, title: str, text: Content) -> None:
        super().__init__()
        self.heading = title
        self.text = text

    def compose(self) -> ComposeResult:
        """Called by Textual."""
        with VerticalScroll(classes="box") as box:
            box.border_title = Content(self.heading)
            box.border_subtitle = "Esc closes"
            yield Static(self.text)

    def action_scroll(self, step: int) -> None:
        """A line up or down, where the text is longer than the terminal."""
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)


class Filter(ModalScreen[str | None]):
    """Asks for words; None: left as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "dismiss(None)", "leave", priority=True)]

    def __init__(self, before: str) -> None:
        super().__init__()
        self.before = before

    def compose(self) -> ComposeResult:
        """Called by Textual."""
        box = Input(self.before, placeholder="a notebook, a person, a command, a PID; nothing: all", classes="line")
        box.border_title = "Only processes with"
        yield box

    def on_mount(self) -> None:
        """Called by Textual: at once, so that what was typed ahead is not lost."""
        self.set_focus(self.query_one(Input))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Called by Textual."""
        self.dismiss(event.value.strip())


class Asked(ModalScreen[int | None]):
    """Which signal, then whether it is really meant; None: none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n,q,ctrl+c", "dismiss(None)", "no", priority=True),
        *(Binding(str(place + 1), f"choose({place})", show=False, priority=True) for place in range(len(SIGNALS))),
        Binding("y", "confirm", "yes", priority=True),
    ]

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        self.chosen: int | None = None

    def compose(self) -> ComposeResult:
        """Called by Textual."""
        box = Static(self.words(), classes="box")
        box.border_title = Content(f"Signal to process {self.row.pid}")
        yield box

    def words(self) -> Content:
        """The question, as far as it has come."""
        row = self.row
        who = "  ".join(part for part in (clean(row.whose), clean(row.command)) if part)
        lines = [Content.styled(who, "bold")]
        if row.process.owner is not None:
            lines.append(
                Content(f"A runtime of a lab: `ownlab runtimes stop {row.process.owner.runtime[:8]}` lets it save.")
            )
        lines.append(Content(""))
        if self.chosen is None:
            lines += [
                Content(f" {place}  {each.name:<8} {each.meaning}") for place, each in enumerate(SIGNALS, start=1)
            ]
            lines += [Content(""), Content("1–3 choose, Esc leaves it alone")]
        else:
            each = SIGNALS[self.chosen]
            lines += [Content.styled(f"Really send {each.name} ({each.meaning})?", "bold"), Content("y yes   n no")]
        return Content("\n").join(lines)

    def action_choose(self, place: int) -> None:
        """One was chosen; it is asked for again."""
        self.chosen = place
        self.query_one(Static).update(self.words())

    def action_confirm(self) -> None:
        """Yes means nothing before a signal was chosen."""
        if self.chosen is not None:
            self.dismiss(SIGNALS[self.chosen].number)


def help_page() -> Content:
    """Keys, and what the words on a card mean."""
    lines = [Content.assemble((f"{keys:<10}", "bold"), what) for keys, what in _KEYS]
    lines.append(Content(""))
    measures = (*MEASURES, *DETAILS)
    lines += [Content.assemble((f"{measure.name:<10}", "bold"), measure.meaning) for measure in measures]
    lines += [
        Content(""),
        Content("Figures are means over the whole interval. GPU of a process is the time in which its kernels ran."),
    ]
    return Content("\n").join(lines)


def explanation(card: CardSample, verdict: Verdict | None) -> tuple[str, Content]:
    """Title and text: what is said of a card, from which figures, and what to try."""
    title = clean(card_name(card))
    if verdict is None:
        return title, Content(clean(card.lost) or "There is no verdict yet: it needs some samples.")
    lines = [Content.styled(clean(verdict.sentence), "bold"), Content("")]
    if verdict.advice:
        lines += [Content.assemble(("Try: ", "bold"), clean(verdict.advice)), Content("")]
    if verdict.because:
        lines += [Content.styled("Because", "bold"), *(Content(f"  {clean(each)}") for each in verdict.because)]
    if verdict.seconds:
        lines.append(Content(f"Drawn from the last {format_seconds(verdict.seconds)}."))
    if verdict.since:
        lines.append(Content(f"So since {time.strftime('%H:%M:%S', time.localtime(verdict.since))}."))
    lines += [Content(""), Content.styled(f"code: {verdict.code}", "dim")]
    return title, Content("\n").join(lines)
