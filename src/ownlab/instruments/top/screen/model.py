"""The state of the full screen: samples, verdicts, selection and filter; and the thread that takes samples. No terminal."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ownlab.errors import OwnlabError
from ownlab.instruments.top.formatting import SORT_KEYS, ProcessRow, filter_rows, process_rows, sort_rows
from ownlab.instruments.top.records import CardSample, Sample, Verdict
from ownlab.instruments.top.source import Source, follow
from ownlab.instruments.top.verdict_window import Window

__all__ = ["Feed", "View"]

# Ten minutes at one sample a second: more than the widest graph.
HISTORY_LENGTH = 600


class View:
    """The samples so far, and how the user wants to see them."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.history: deque[Sample] = deque(maxlen=HISTORY_LENGTH)
        self.verdicts: dict[str, Verdict] = {}
        self.ended = ""  # why no more samples follow
        self.sort = next(iter(SORT_KEYS))
        self.reverse = False
        self.filter = ""
        self.selected_card = 0  # position in the list of cards
        self.zoomed = False
        self.selected_pid: int | None = None
        self._waiting: list[Sample] | None = None  # samples that arrived while paused

    # -- samples --------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether the display is paused. Sampling and recording continue."""
        return self._waiting is not None

    @property
    def missed(self) -> int:
        """Number of samples since the pause began."""
        return len(self._waiting or ())

    def add(self, sample: Sample) -> None:
        """Add a sample; while paused it is only stored."""
        if self._waiting is not None:
            self._waiting = [*self._waiting[-HISTORY_LENGTH:], sample]
            return
        self.history.append(sample)
        self.window.add(sample)
        self.verdicts = {verdict.card: verdict for verdict in self.window.verdicts()}
        self.selected_card = min(self.selected_card, max(0, len(sample.cards) - 1))

    def toggle_pause(self) -> None:
        """Pause, or continue with all samples that arrived meanwhile."""
        if self._waiting is None:
            self._waiting = []
            return
        waiting, self._waiting = self._waiting, None
        for sample in waiting:
            self.add(sample)

    @property
    def sample(self) -> Sample | None:
        """The newest sample on display."""
        return self.history[-1] if self.history else None

    # -- cards ----------------------------------------------------------------------------------------------------

    @property
    def cards(self) -> tuple[CardSample, ...]:
        """The cards of the newest sample."""
        return self.sample.cards if self.sample else ()

    @property
    def card(self) -> CardSample | None:
        """The selected card."""
        return self.cards[self.selected_card] if self.selected_card < len(self.cards) else None

    def select_card(self, step: int) -> None:
        """Select the next or previous card, cyclically."""
        if self.cards:
            self.selected_card = (self.selected_card + step) % len(self.cards)

    def series(self, uuid: str, value: Callable[[CardSample], float | None], most: int) -> list[float | None]:
        """Return the last values of a card, oldest first; None where the card was absent."""
        values: list[float | None] = []
        for sample in list(self.history)[-most:]:
            card = next((card for card in sample.cards if card.uuid == uuid), None)
            values.append(None if card is None or card.lost else value(card))
        return values

    # -- processes ------------------------------------------------------------------------------------------------

    def rows(self) -> list[ProcessRow]:
        """Return the processes in display order; when zoomed, only those of the selected card."""
        if self.sample is None:
            return []
        rows = filter_rows(process_rows(self.sample), self.filter)
        if self.zoomed and self.card is not None:
            index = self.card.index
            rows = [row for row in rows if index in row.cards]
        return sort_rows(rows, self.sort, reverse=self.reverse)

    def selected_row(self) -> ProcessRow | None:
        """Return the selected process; the first by default."""
        rows = self.rows()
        return next((row for row in rows if row.pid == self.selected_pid), rows[0] if rows else None)

    def select_row(self, step: int) -> None:
        """Select another process, `step` rows down."""
        rows = self.rows()
        if rows:
            pids = [row.pid for row in rows]
            position = pids.index(self.selected_pid) if self.selected_pid in pids else 0
            self.selected_pid = pids[min(len(pids) - 1, max(0, position + step))]

    def next_sort(self) -> None:
        """Sort by the next column."""
        names = list(SORT_KEYS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]


class Feed:
    """Takes samples in a thread, so that a hanging driver never blocks the keyboard."""

    def __init__(
        self, source: Source, *, interval: float, speed: float | None, record: Callable[[Sample], None]
    ) -> None:
        self.source = source
        self.interval = interval
        self.speed = speed  # None: live
        self.record = record
        self._stop = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._thread: threading.Thread | None = None

    def start(self, on_sample: Callable[[Sample], None], on_end: Callable[[OwnlabError | None], None]) -> None:
        """Start the thread, which calls `on_sample`, and `on_end` with the error or None at the end of a recording."""
        self._thread = threading.Thread(target=self._run, args=(on_sample, on_end), name="ownlab-feed", daemon=True)
        self._thread.start()

    def set_paused(self, paused: bool) -> None:
        """Pause a replay. Live sampling continues, because it may be recorded."""
        if paused and self.speed is not None:
            self._running.clear()
        else:
            self._running.set()

    def stop(self) -> None:
        """Stop the thread; a sample in progress may take another second."""
        self._stop.set()
        self._running.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def _run(self, on_sample: Callable[[Sample], None], on_end: Callable[[OwnlabError | None], None]) -> None:
        try:
            for sample in follow(self.source, interval=self.interval, speed=self.speed, stop=self._stop):
                self.record(sample)
                on_sample(sample)
                self._running.wait()
        except OwnlabError as exc:
            on_end(exc)
        else:
            if not self._stop.is_set():
                on_end(None)
