"""The full screen of `ownlab top`: its layout, its keys, and when it redraws."""

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
from ownlab.instruments.top.screen.dialogs import FilterDialog, SignalDialog, TextDialog, explain_verdict, help_page
from ownlab.instruments.top.screen.model import Feed, View
from ownlab.instruments.top.screen.signals import refusal_reason, send_signal
from ownlab.instruments.top.screen.widgets import (
    BLOCKS,
    CardPanels,
    Glyphs,
    HostPanel,
    ProcessTable,
    TitleBar,
    ViewWidget,
    glyphs_for,
)
from ownlab.text import text

__all__ = ["TopApp", "run_screen"]

# Lines for title, host, keys and at least four of the processes. The cards get the rest of the height.
_HOST_LINES = 4
_OTHER_LINES = 1 + _HOST_LINES + 1 + 4


class MainScreen(Screen[None]):
    """The screen below the dialogs.

    The keys are bound here and not in the app, so that dialogs do not inherit them. All have priority: a key that opens
    a dialog must have opened it before the next key, typed ahead, is handled.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, f"app.{action}", label, show=bool(label), key_display=display, priority=True)
        for keys, action, label, display in (
            ("q", "quit", text("quit"), None),
            ("question_mark,h", "help", text("help"), "?"),
            ("z,enter", "zoom", text("zoom"), "z"),
            ("e", "explain", text("explain"), None),
            ("s", "sort", text("sort"), None),
            ("r", "reverse", "", None),
            ("slash", "filter", text("filter"), "/"),
            ("p,space", "pause", text("pause"), "p"),
            ("k", "signal", text("signal"), None),
            ("escape", "reset_view", "", None),
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
        yield TitleBar(self.view, self.heading)
        yield CardPanels(self.view, self.glyphs)
        yield HostPanel(self.view, self.glyphs)
        yield ProcessTable(self.view, self.glyphs)
        yield Footer(compact=True)


class TopApp(App[OwnlabError]):
    """The app. Returns None, or the error that ended it."""

    TITLE = "ownlab top"
    ENABLE_COMMAND_PALETTE = False
    # The terminal's own colours work on light and dark backgrounds and over any connection.
    CSS = """
    MainScreen { layout: vertical; overflow: hidden; }
    TitleBar { height: 1; }
    CardPanels { height: auto; }
    HostPanel { height: auto; }
    ProcessTable { height: 1fr; min-height: 3; }
    TextDialog, SignalDialog, FilterDialog { align: center middle; background: transparent; }
    .box { width: 76; max-width: 100%; height: auto; max-height: 90%; border: round ansi_blue; padding: 0 1; scrollbar-size-vertical: 1; }
    .line { width: 60; max-width: 100%; border: round ansi_blue; }
    Toast { max-width: 70; }
    """

    def __init__(self, view: View, feed: Feed, heading: str, glyphs: Glyphs = BLOCKS) -> None:
        # Not only by the theme: otherwise NO_COLOR makes colours grey instead of removing them.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.view = view
        self.feed = feed
        self.heading = heading
        self.glyphs = glyphs
        self.height = 24  # of the terminal
        self.ending_signal = 0

    def get_default_screen(self) -> MainScreen:
        """Called by Textual."""
        return MainScreen(self.view, self.heading, self.glyphs)

    def on_mount(self) -> None:
        """Called by Textual: draw before the first sample."""
        self.feed.start(self._on_sample, self._on_end)
        self.draw()

    def on_ready(self) -> None:
        """Called by Textual once there is a screen: samples may have arrived before, and a short recording may be over."""
        self.draw()

    def on_unmount(self) -> None:
        """Called by Textual."""
        self.feed.stop()

    def on_resize(self, event: Resize) -> None:
        """Called by Textual."""
        self.height = event.size.height  # the app's own size is not updated yet
        # Textual notifies its screens by a timer of 8 ms, which it skips on a busy machine.
        for screen in self.screen_stack:
            screen.post_message(Resize(event.size, event.size))
        self.draw()

    # -- samples: the first two are called in the feed's thread -------------------------------------------------------

    def _on_sample(self, sample: Sample) -> None:
        self.call_later(self.add_sample, sample)

    def _on_end(self, error: OwnlabError | None) -> None:
        self.call_later(self.end, error)

    def add_sample(self, sample: Sample) -> None:
        """Add a sample and redraw."""
        self.view.add(sample)
        self.draw()

    def end(self, error: OwnlabError | None) -> None:
        """No more samples follow: exit after an error, stay at the end of a recording."""
        if error is not None:
            self.exit(error)
            return
        self.view.ended = text("end of the recording")
        self.draw()

    def end_by_signal(self, number: int) -> None:
        """Exit because of a signal."""
        self.ending_signal = number
        self.exit()

    def draw(self) -> None:
        """Redraw all widgets."""
        screen = self.screen_stack[0] if self.screen_stack else None
        if screen is None or not screen.is_mounted:
            return
        for panels in screen.query(CardPanels):  # none while the screen is being removed
            panels.room = max(2, self.height - _OTHER_LINES)
        for widget in screen.query(ViewWidget):
            widget.redraw()

    # -- keys ---------------------------------------------------------------------------------------------------------

    async def action_help(self) -> None:
        """Show the keys and the meaning of the measures."""
        await self.push_screen(TextDialog("ownlab top", help_page()))

    def action_zoom(self) -> None:
        """Show only the selected card, or all."""
        self.view.zoomed = not self.view.zoomed and self.view.card is not None
        self.draw()

    async def action_explain(self) -> None:
        """Explain the verdict on the selected card."""
        card = self.view.card
        if card is None:
            self.notify(text("There is no card to explain."))
            return
        await self.push_screen(TextDialog(*explain_verdict(card, self.view.verdicts.get(card.uuid))))

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.view.next_sort()
        self.draw()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.view.reverse = not self.view.reverse
        self.draw()

    async def action_filter(self) -> None:
        """Ask for words. Waits for the dialog, which gets the keys typed after this one."""
        await self.push_screen(FilterDialog(self.view.filter), self.filter)

    def filter(self, words: str | None) -> None:
        """Show only processes with these words."""
        if words is not None:
            self.view.filter = words
            self.draw()

    def action_reset_view(self) -> None:
        """Remove the filter, else the zoom."""
        if self.view.filter:
            self.view.filter = ""
        else:
            self.view.zoomed = False
        self.draw()

    def action_pause(self) -> None:
        """Pause or continue."""
        self.view.toggle_pause()
        self.feed.set_paused(self.view.paused)
        self.draw()

    def action_row(self, step: int) -> None:
        """Select another process."""
        self.view.select_row(step)
        self.draw()

    def action_card(self, step: int) -> None:
        """Select another card."""
        self.view.select_card(step)
        self.draw()

    async def action_signal(self) -> None:
        """Ask which signal to send to the selected process, if it may be signalled at all."""
        row = self.view.selected_row()
        if row is None:
            self.notify(text("There is no process to signal."))
            return
        if self.feed.speed is not None:
            self.notify(text("Recorded processes cannot be signalled."), severity="warning")
            return
        refusal = refusal_reason(row.process)
        if refusal:
            self.notify(refusal, severity="warning", markup=False)
            return

        def on_answer(number: int | None) -> None:
            if number is not None:
                self.send(row.process, number)

        await self.push_screen(SignalDialog(row), on_answer)

    def send(self, process: ProcessSample, number: int) -> None:
        """Send a signal and show the result."""
        try:
            send_signal(process, number)
        except OwnlabError as exc:
            self.notify(exc.message, severity="warning", markup=False)
        else:
            name = signal.Signals(number).name
            self.notify(text("Sent {signal} to process {pid}.", signal=name, pid=process.pid), markup=False)


def run_screen(view: View, feed: Feed, heading: str) -> None:
    """Run until the user quits. Errors are raised after the terminal is restored."""
    app = TopApp(view, feed, heading, glyphs_for(os.environ))
    asyncio.run(_run(app))
    if app.return_value is not None:
        raise app.return_value
    if app.ending_signal:
        raise SystemExit(128 + app.ending_signal)


async def _run(app: TopApp) -> None:
    """Handle signals in the event loop: one in the middle of drawing would leave the terminal in a bad state."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # keep ignoring SIGHUP under nohup
            loop.add_signal_handler(number, app.end_by_signal, number)
    # The mouse stays with the terminal, for selecting and copying.
    await app.run_async(mouse=False)
