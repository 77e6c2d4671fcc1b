"""What the screen shows at one moment: history, verdicts, and how a person wants to see it. Knows no terminal."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ownlab.errors import OwnlabError
from ownlab.instruments.top.formatting import SORTS, Row, matching, process_rows, sorted_rows
from ownlab.instruments.top.records import CardSample, Sample, Verdict
from ownlab.instruments.top.source import Source, follow
from ownlab.instruments.top.window import Window

__all__ = ["Feed", "View"]

# Ten minutes at one sample a second: more than the widest graph.
KEPT = 600


class View:
    """Samples as they come, and one way to look at them."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.history: deque[Sample] = deque(maxlen=KEPT)
        self.verdicts: dict[str, Verdict] = {}
        self.ended = ""  # why there will be no more samples
        self.sort = next(iter(SORTS))
        self.reverse = False
        self.filter = ""
        self.chosen_card = 0  # its place among the cards
        self.zoomed = False
        self.chosen_pid: int | None = None
        self._behind: list[Sample] | None = None  # what came while the picture stands still

    # -- samples --------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether the picture stands still. Samples go on being taken, and recorded."""
        return self._behind is not None

    @property
    def missed(self) -> int:
        """How many samples came since the picture stands still."""
        return len(self._behind or ())

    def add(self, sample: Sample) -> None:
        """Take a sample in; while the picture stands still it waits."""
        if self._behind is not None:
            self._behind = [*self._behind[-KEPT:], sample]
            return
        self.history.append(sample)
        self.window.add(sample)
        self.verdicts = {verdict.card: verdict for verdict in self.window.verdicts()}
        self.chosen_card = min(self.chosen_card, max(0, len(sample.cards) - 1))

    def pause(self) -> None:
        """Let the picture stand still, or go on with all that came meanwhile."""
        if self._behind is None:
            self._behind = []
            return
        behind, self._behind = self._behind, None
        for sample in behind:
            self.add(sample)

    @property
    def sample(self) -> Sample | None:
        """The newest that is shown."""
        return self.history[-1] if self.history else None

    # -- cards ----------------------------------------------------------------------------------------------------

    @property
    def cards(self) -> tuple[CardSample, ...]:
        """Those of the newest sample."""
        return self.sample.cards if self.sample else ()

    @property
    def card(self) -> CardSample | None:
        """The chosen one."""
        return self.cards[self.chosen_card] if self.chosen_card < len(self.cards) else None

    def choose_card(self, step: int) -> None:
        """The next card, or the one before; after the last comes the first."""
        if self.cards:
            self.chosen_card = (self.chosen_card + step) % len(self.cards)

    def series(self, uuid: str, value: Callable[[CardSample], float | None], most: int) -> list[float | None]:
        """The last values of a card, oldest first; None where it was not there."""
        found: list[float | None] = []
        for sample in list(self.history)[-most:]:
            card = next((card for card in sample.cards if card.uuid == uuid), None)
            found.append(None if card is None or card.lost else value(card))
        return found

    # -- processes ------------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Processes as they are to be listed: of the zoomed card alone, where there is one."""
        if self.sample is None:
            return []
        rows = matching(process_rows(self.sample), self.filter)
        if self.zoomed and self.card is not None:
            index = self.card.index
            rows = [row for row in rows if index in row.cards]
        return sorted_rows(rows, self.sort, reverse=self.reverse)

    def chosen_row(self) -> Row | None:
        """The process that keys speak of; the first, until another is chosen."""
        rows = self.rows()
        return next((row for row in rows if row.pid == self.chosen_pid), rows[0] if rows else None)

    def choose_row(self, step: int) -> None:
        """The process after the chosen one, or before it."""
        rows = self.rows()
        if rows:
            pids = [row.pid for row in rows]
            place = pids.index(self.chosen_pid) if self.chosen_pid in pids else 0
            self.chosen_pid = pids[min(len(pids) - 1, max(0, place + step))]

    def next_sort(self) -> None:
        """Sort by the next column."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]


class Feed:
    """Takes samples, and tells of each, and of the end: None for the end of a recording, or what went wrong."""

    def __init__(
        self, source: Source, *, interval: float, speed: float | None, record: Callable[[Sample], None]
    ) -> None:
        self.source = source
        self.interval = interval
        self.speed = speed  # None: live
        self.record = record
        self._stop = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._thread: threading.Thread | None = None

    def start(self, tell: Callable[[Sample], None], ended: Callable[[OwnlabError | None], None]) -> None:
        """Begin. Both are called in the feed's own thread."""
        self._thread = threading.Thread(target=self._run, args=(tell, ended), name="ownlab-feed", daemon=True)
        self._thread.start()

    def hold(self, held: bool) -> None:
        """A recording waits while its picture stands still. What is live goes on: it may be recorded."""
        if held and self.speed is not None:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    def stop(self) -> None:
        """End it; a sample that is being taken has its second."""
        self._stop.set()
        self._goes_on.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def _run(self, tell: Callable[[Sample], None], ended: Callable[[OwnlabError | None], None]) -> None:
        try:
            for sample in follow(self.source, interval=self.interval, speed=self.speed, stop=self._stop):
                self.record(sample)
                tell(sample)
                self._goes_on.wait()
        except OwnlabError as exc:
            ended(exc)
        else:
            if not self._stop.is_set():
                ended(None)
