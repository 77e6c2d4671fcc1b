"""The dialogs of the full screen: help, explanation of a verdict, filter, signal."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ownlab.instruments.top.formatting import DETAILS, MEASURES, ProcessRow, card_name
from ownlab.instruments.top.records import CardSample, Verdict
from ownlab.instruments.top.screen.signals import SIGNALS
from ownlab.instruments.top.screen.widgets import clean
from ownlab.render.wide_text import align_left
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["FilterDialog", "SignalDialog", "TextDialog", "explain_verdict", "help_page"]

_KEYS = (
    ("q", text("quit")),
    ("↑ ↓", text("select a process")),
    ("← →", text("select a card")),
    ("z  Enter", text("zoom: only the selected card with all its graphs, or all cards")),
    ("e", text("explain the verdict on the selected card")),
    ("s  r", text("sort by the next column; reverse the order")),
    ("/", text("show only processes with certain words; Esc shows all")),
    ("p  Space", text("pause the display; sampling continues")),
    ("k", text("send a signal to one of your processes, after a question")),
    ("?  h", text("this page")),
)


class TextDialog(ModalScreen[None]):
    """A text to read; any of these keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,h,e,space,ctrl+c", "dismiss", text("close"), priority=True),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
    ]

    def __init__(self, title: str, content: Content) -> None:
        super().__init__()
        self.heading = title
        self.content = content

    def compose(self) -> ComposeResult:
        """Called by Textual."""
        with VerticalScroll(classes="box") as box:
            box.border_title = Content(self.heading)
            box.border_subtitle = text("Esc closes")
            yield Static(self.content)

    def action_scroll(self, step: int) -> None:
        """Scroll a line, if the text is longer than the terminal."""
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)


class FilterDialog(ModalScreen[str | None]):
    """Asks for words to filter by; None: cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "dismiss(None)", text("leave"), priority=True)]

    def __init__(self, before: str) -> None:
        super().__init__()
        self.before = before

    def compose(self) -> ComposeResult:
        """Called by Textual."""
        box = Input(self.before, placeholder=text("a notebook, person, command or PID; empty: all"), classes="line")
        box.border_title = text("Only processes with")
        yield box

    def on_mount(self) -> None:
        """Called by Textual: focus at once, so that keys typed ahead are not lost."""
        self.set_focus(self.query_one(Input))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Called by Textual."""
        self.dismiss(event.value.strip())


class SignalDialog(ModalScreen[int | None]):
    """Asks for a signal, then for confirmation; None: cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n,q,ctrl+c", "dismiss(None)", text("no"), priority=True),
        *(Binding(str(number + 1), f"select({number})", show=False, priority=True) for number in range(len(SIGNALS))),
        Binding("y", "confirm", text("yes"), priority=True),
    ]

    def __init__(self, row: ProcessRow) -> None:
        super().__init__()
        self.row = row
        self.selected: int | None = None

    def compose(self) -> ComposeResult:
        """Called by Textual."""
        box = Static(self.question(), classes="box")
        box.border_title = Content(text("Signal process {pid}", pid=self.row.pid))
        yield box

    def question(self) -> Content:
        """Return the current question: which signal, or whether to send it."""
        row = self.row
        name = "  ".join(part for part in (clean(row.owner), clean(row.command)) if part)
        lines = [Content.styled(name, "bold")]
        if row.process.owner is not None:
            hint = text(
                "This is a runtime of a lab: `ownlab runtimes stop {runtime}` lets it save first.",
                runtime=row.process.owner.runtime[:8],
            )
            lines.append(Content(hint))
        lines.append(Content(""))
        if self.selected is None:
            lines += [
                Content(f" {number}  {choice.name:<8} {choice.meaning}")
                for number, choice in enumerate(SIGNALS, start=1)
            ]
            lines += [Content(""), Content(text("1–3 select, Esc cancels"))]
        else:
            choice = SIGNALS[self.selected]
            question = text("Really send {signal} ({meaning})?", signal=choice.name, meaning=choice.meaning)
            lines += [Content.styled(question, "bold"), Content(text("y yes   n no"))]
        return Content("\n").join(lines)

    def action_select(self, number: int) -> None:
        """Select a signal, and ask for confirmation."""
        self.selected = number
        self.query_one(Static).update(self.question())

    def action_confirm(self) -> None:
        """Send the selected signal; without one do nothing."""
        if self.selected is not None:
            self.dismiss(SIGNALS[self.selected].number)


def help_page() -> Content:
    """Return the keys, and the meaning of the measures."""
    lines = [Content.assemble((align_left(keys, 10), "bold"), action) for keys, action in _KEYS]
    lines.append(Content(""))
    measures = (*MEASURES, *DETAILS)
    lines += [Content.assemble((align_left(measure.name, 10), "bold"), measure.meaning) for measure in measures]
    lines += [
        Content(""),
        Content(
            text("Values are means over the whole interval. GPU of a process is the time in which its kernels ran.")
        ),
    ]
    return Content("\n").join(lines)


def explain_verdict(card: CardSample, verdict: Verdict | None) -> tuple[str, Content]:
    """Return title and text: the verdict, its reasons and the advice."""
    title = clean(card_name(card))
    if verdict is None:
        return title, Content(clean(card.lost) or text("There is no verdict yet: it needs some samples."))
    lines = [Content.styled(clean(verdict.sentence), "bold"), Content("")]
    if verdict.advice:
        lines += [Content.assemble((text("Try: "), "bold"), clean(verdict.advice)), Content("")]
    if verdict.because:
        lines += [
            Content.styled(text("Reasons"), "bold"),
            *(Content(f"  {clean(reason)}") for reason in verdict.because),
        ]
    if verdict.seconds:
        lines.append(Content(text("Based on the last {duration}.", duration=format_seconds(verdict.seconds))))
    if verdict.since:
        since = time.strftime("%H:%M:%S", time.localtime(verdict.since))
        lines.append(Content(text("Since {time}.", time=since)))
    lines += [Content(""), Content.styled(text("code: {code}", code=verdict.code), "dim")]
    return title, Content("\n").join(lines)
