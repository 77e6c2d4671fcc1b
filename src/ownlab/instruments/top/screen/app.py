"""The full screen: keys, and when what is drawn anew."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Footer

from ownlab.errors import OwnlabError
from ownlab.instruments.top.records import ProcessSample, Sample
from ownlab.instruments.top.screen.dialogs import Asked, Filter, Page, explanation, help_page
from ownlab.instruments.top.screen.model import Feed, View
from ownlab.instruments.top.screen.signals import send_signal, whose_refusal
from ownlab.instruments.top.screen.widgets import BLOCKS, Cards, Drawn, Glyphs, Host, Processes, Title, glyphs_for

__all__ = ["TopApp", "run_screen"]

# Title, host, keys and the least of the processes: what is left of the height is the cards'.
_HOST_LINES = 4
_OTHERS = 1 + _HOST_LINES + 1 + 4


class Main(Screen[None]):
    """What is seen when no dialog stands over it.

    Its keys are its own, and not the app's, so that dialogs do not have them. All have priority: then a key that opens
    a dialog has opened it before the next one, typed ahead, is looked at.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, f"app.{action}", words, show=bool(words), key_display=shown, priority=True)
        for keys, action, words, shown in (
            ("q", "quit", "quit", None),
            ("question_mark,h", "help", "help", "?"),
            ("z,enter", "zoom", "zoom", "z"),
            ("e", "explain", "explain", None),
            ("s", "sort", "sort", None),
            ("r", "reverse", "", None),
            ("slash", "filter", "filter", "/"),
            ("p,space", "pause", "pause", "p"),
            ("k", "signal", "signal", None),
            ("escape", "widen", "", None),
            ("up", "row(-1)", "", None),
            ("down", "row(1)", "", None),
            ("pageup", "row(-10)", "", None),
            ("pagedown", "row(10)", "", None),
            ("left", "card(-1)", "", None),
            ("right", "card(1)", "", None),
            ("ctrl+c", "quit", "", None),
            ("ctrl+z", "suspend_process", "", None),
        )
    ]

    def __init__(self, view: View, heading: str, glyphs: Glyphs) -> None:
        super().__init__()
        self.view = view
        self.heading = heading
        self.glyphs = glyphs

    def compose(self) -> ComposeResult:
        """Called by Textual."""
        yield Title(self.view, self.heading)
        yield Cards(self.view, self.glyphs)
        yield Host(self.view, self.glyphs)
        yield Processes(self.view, self.glyphs)
        yield Footer(compact=True)


class TopApp(App[OwnlabError]):
    """`ownlab top`. Ends with None, or with what went wrong."""

    TITLE = "ownlab top"
    ENABLE_COMMAND_PALETTE = False
    # The terminal's own colours: right on a light background as on a dark one, and over any connection.
    CSS = """
    Main { layout: vertical; overflow: hidden; }
    Title { height: 1; }
    Cards { height: auto; }
    Host { height: auto; }
    Processes { height: 1fr; min-height: 3; }
    Page, Asked, Filter { align: center middle; background: transparent; }
    .box { width: 76; max-width: 100%; height: auto; max-height: 90%; border: round ansi_blue; padding: 0 1; scrollbar-size-vertical: 1; }
    .line { width: 60; max-width: 100%; border: round ansi_blue; }
    Toast { max-width: 70; }
    """

    def __init__(self, view: View, feed: Feed, heading: str, glyphs: Glyphs = BLOCKS) -> None:
        # Said here and not by the theme alone: only then NO_COLOR takes colours away, and does not make them grey.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.view = view
        self.feed = feed
        self.heading = heading
        self.glyphs = glyphs
        self.height = 24  # of the terminal
        self.ended_by = 0  # a signal

    def get_default_screen(self) -> Main:
        """Called by Textual."""
        return Main(self.view, self.heading, self.glyphs)

    def on_mount(self) -> None:
        """Called by Textual: the first picture is there before the first sample."""
        self.feed.start(self._told, self._ended)
        self.draw()

    def on_ready(self) -> None:
        """Called by Textual once there is a screen: samples may have come before, and a short recording may be over."""
        self.draw()

    def on_unmount(self) -> None:
        """Called by Textual."""
        self.feed.stop()

    def on_resize(self, event: Resize) -> None:
        """Called by Textual."""
        self.height = event.size.height  # the app's own size is still the old one
        # Textual tells its screens by a timer of 8 ms, which it skips where the machine is too busy to come to it in time.
        for screen in self.screen_stack:
            screen.post_message(Resize(event.size, event.size))
        self.draw()

    # -- samples: these two are called in the feed's thread -----------------------------------------------------------

    def _told(self, sample: Sample) -> None:
        self.call_later(self.take, sample)

    def _ended(self, error: OwnlabError | None) -> None:
        self.call_later(self.end, error)

    def take(self, sample: Sample) -> None:
        """A sample has come."""
        self.view.add(sample)
        self.draw()

    def end(self, error: OwnlabError | None) -> None:
        """There will be no more: a recording's end can be looked at, trouble cannot."""
        if error is not None:
            self.exit(error)
            return
        self.view.ended = "end of the recording"
        self.draw()

    def end_by(self, number: int) -> None:
        """A signal has come."""
        self.ended_by = number
        self.exit()

    def draw(self) -> None:
        """All that depends on the view."""
        screen = self.screen_stack[0] if self.screen_stack else None
        if screen is None or not screen.is_mounted:
            return
        screen.query_one(Cards).room = max(2, self.height - _OTHERS)
        for widget in screen.query(Drawn):
            widget.redraw()

    # -- keys ---------------------------------------------------------------------------------------------------------

    async def action_help(self) -> None:
        """What the keys do, and what the words mean."""
        await self.push_screen(Page("ownlab top", help_page()))

    def action_zoom(self) -> None:
        """The chosen card alone, or all."""
        self.view.zoomed = not self.view.zoomed and self.view.card is not None
        self.draw()

    async def action_explain(self) -> None:
        """Why the verdict on the chosen card is what it is."""
        card = self.view.card
        if card is None:
            self.notify("There is no card here to explain.")
            return
        await self.push_screen(Page(*explanation(card, self.view.verdicts.get(card.uuid))))

    def action_sort(self) -> None:
        """By the next column."""
        self.view.next_sort()
        self.draw()

    def action_reverse(self) -> None:
        """The other way round."""
        self.view.reverse = not self.view.reverse
        self.draw()

    async def action_filter(self) -> None:
        """Ask for words. It is waited for: what is typed after the key is meant for it."""
        await self.push_screen(Filter(self.view.filter), self.filter)

    def filter(self, words: str | None) -> None:
        """Show only processes with these words."""
        if words is not None:
            self.view.filter = words
            self.draw()

    def action_widen(self) -> None:
        """Out of what was narrowed last: the filter, then the zoom."""
        if self.view.filter:
            self.view.filter = ""
        else:
            self.view.zoomed = False
        self.draw()

    def action_pause(self) -> None:
        """Stand still, or go on."""
        self.view.pause()
        self.feed.hold(self.view.paused)
        self.draw()

    def action_row(self, step: int) -> None:
        """Another process."""
        self.view.choose_row(step)
        self.draw()

    def action_card(self, step: int) -> None:
        """Another card."""
        self.view.choose_card(step)
        self.draw()

    async def action_signal(self) -> None:
        """Ask which signal the chosen process gets; others' processes are refused before anything is asked."""
        row = self.view.chosen_row()
        if row is None:
            self.notify("There is no process to signal.")
            return
        if self.feed.speed is not None:
            self.notify("This is a recording: its processes are not here.", severity="warning")
            return
        refusal = whose_refusal(row.process)
        if refusal:
            self.notify(refusal, severity="warning", markup=False)
            return

        def answered(number: int | None) -> None:
            if number is not None:
                self.send(row.process, number)

        await self.push_screen(Asked(row), answered)

    def send(self, process: ProcessSample, number: int) -> None:
        """Send it, and say so."""
        try:
            send_signal(process, number)
        except OwnlabError as exc:
            self.notify(exc.message, severity="warning", markup=False)
        else:
            self.notify(f"{signal.Signals(number).name} was sent to process {process.pid}.", markup=False)


def run_screen(view: View, feed: Feed, heading: str) -> None:
    """Until a person leaves it; what went wrong meanwhile is raised once the terminal is as it was."""
    app = TopApp(view, feed, heading, glyphs_for(os.environ))
    asyncio.run(_run(app))
    if app.return_value is not None:
        raise app.return_value
    if app.ended_by:
        raise SystemExit(128 + app.ended_by)


async def _run(app: TopApp) -> None:
    """A signal in the midst of drawing would leave the terminal as it is then: the loop hears it between two events."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP: so do we
            loop.add_signal_handler(number, app.end_by, number)
    # The mouse stays the terminal's: people mark and copy with it.
    await app.run_async(mouse=False)
