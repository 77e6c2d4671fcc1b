"""A recording in a few words: what each card's time went into, over time and in all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ownlab.errors import InputError
from ownlab.instruments.top.metrics import COLUMNS, Row, mean_of, row_of
from ownlab.instruments.top.records import CardSample, HostSample, Sample, Verdict
from ownlab.instruments.top.verdict_rules import load_rules
from ownlab.instruments.top.window import Window
from ownlab.units import format_seconds

__all__ = ["CardReport", "Gathering", "HostReport", "Point", "Report", "Span", "report"]

# A verdict is drawn over each so many seconds, and those that agree are joined.
_STEP_SECONDS = 5.0
# A card's history is kept in at least so many points, and at most twice as many, however long it is.
_POINTS = 300
# The counter of energy is asked every ten seconds; over less than this the sum of power over time is nearer.
_COUNTER_SECONDS = 120.0
# Of the time; what took less is not named in the headline.
_WORTH_NAMING = 0.05
_MOST_NAMED = 3
_PAUSE_SECONDS = 1.0
_CONTENT = ("idle", "desktop", "fine", "tensor")

_NO_CARD = CardSample("", 0)
_Stretch = tuple[float, float, Row]  # when it ended, its seconds, the means over it


class Span(Struct, frozen=True):
    """A stretch of time with one verdict."""

    code: str
    begun: float  # seconds since the epoch
    seconds: float
    sentence: str  # what was said of it


class Point(Struct, frozen=True):
    """A card's figures around a moment, by the names of verdicts.toml; what is not known is absent."""

    at: float
    seconds: float
    figures: dict[str, float]


class CardReport(Struct, frozen=True):
    """One card, over the whole recording."""

    uuid: str
    index: int
    name: str
    seconds: float  # in which it was there
    headline: str  # what its time went into
    advice: str
    spans: tuple[Span, ...]
    shares: dict[str, float]  # percent of the time, by code
    means: dict[str, float]  # by the names of verdicts.toml
    peaks: dict[str, float]
    memory_total: int | None
    memory_peak: int | None
    energy: float | None  # joules
    energy_from: str  # "counter", "power"
    no_saturation: str  # why it is not known how much of the card worked
    points: tuple[Point, ...]


class HostReport(Struct, frozen=True):
    """The machine around the cards."""

    cores: int | None
    means: dict[str, float]  # percent, bytes or bytes a second, by the names of HostSample
    peaks: dict[str, float]
    points: tuple[Point, ...]


class Report(Struct, frozen=True):
    """`ownlab top report --json`."""

    begun: float
    ended: float
    seconds: float  # of samples; pauses between recordings in one file do not count
    samples: int
    cards: tuple[CardReport, ...]
    host: HostReport
    trouble: str  # why cards are not known, where that was so at the end


def report(samples: Iterable[Sample]) -> Report:
    """What a recording says. Raises InputError where there is no sample in it."""
    gathering = Gathering()
    for sample in samples:
        gathering.add(sample)
    return gathering.finish()


class _Means:
    """Sums of what is known, weighted by time."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.weights: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def add(self, figures: dict[str, float], weight: float) -> None:
        self.last.update(figures)
        for name, value in figures.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * weight
            self.weights[name] = self.weights.get(name, 0.0) + weight
            self.peaks[name] = max(value, self.peaks.get(name, value))

    def means(self) -> dict[str, float]:
        """A single sample has no interval: then it is what there is."""
        return {
            name: round(self.sums[name] / weight if weight > 0 else self.last[name], 3)
            for name, weight in self.weights.items()
        }


class _History:
    """A card's rows as points of equal length; where they become too many, each two are made one."""

    def __init__(self) -> None:
        self.points: list[_Stretch] = []
        self.each = 1  # rows to a point
        self.open: list[_Stretch] = []

    def add(self, at: float, seconds: float, row: Row) -> None:
        self.open.append((at, seconds, row))
        if len(self.open) < self.each:
            return
        self.points.append(_joined(self.open))
        self.open = []
        if len(self.points) >= 2 * _POINTS:
            self.points = [_joined(pair) for pair in zip(self.points[::2], self.points[1::2], strict=True)]
            self.each *= 2

    def finish(self) -> tuple[Point, ...]:
        found = [*self.points, *([_joined(self.open)] if self.open else [])]
        return tuple(
            Point(at, round(seconds, 3), {name: round(value, 3) for name, value in _known(row)})
            for at, seconds, row in found
        )


def _joined(stretches: Sequence[_Stretch]) -> _Stretch:
    if len(stretches) == 1:
        return stretches[0]
    weights = [seconds for _, seconds, _ in stretches]
    means = mean_of([row for _, _, row in stretches], weights if all(weights) else [1.0] * len(weights))
    return stretches[-1][0], sum(weights), tuple(means.get(name) for name in COLUMNS)


def _known(row: Row) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in zip(COLUMNS, row, strict=True) if value is not None)


class _Card:
    """What is kept of one card."""

    def __init__(self) -> None:
        self.card: CardSample | None = None
        self.figures = _Means()
        self.history = _History()
        self.spans: list[Span] = []
        self.said = ""
        self.advice: dict[tuple[str, str], float] = {}  # code and advice -> seconds
        self.seconds = 0.0
        self.joules = 0.0
        self.memory_peak: int | None = None
        self.counters: list[float] = []  # first and last

    def add(self, sample: Sample, card: CardSample) -> None:
        row = row_of(sample, card)
        seconds = sample.seconds or 0.0
        self.card = card if card.name or self.card is None else self.card
        self.seconds += seconds
        self.figures.add(dict(_known(row)), seconds)
        self.joules += (card.power or 0.0) * seconds
        if card.memory_used is not None:
            self.memory_peak = max(card.memory_used, self.memory_peak or 0)
        if card.energy is not None:
            self.counters[1:] = [card.energy]
        self.history.add(sample.at, seconds, row)

    def say(self, verdict: Verdict, begun: float, seconds: float) -> None:
        key = verdict.code, verdict.advice
        self.advice[key] = self.advice.get(key, 0.0) + seconds
        before, self.said = self.said, verdict.sentence
        last = self.spans[-1] if self.spans else None
        if last is None or last.code != verdict.code or begun - (last.begun + last.seconds) >= _PAUSE_SECONDS:
            self.spans.append(Span(verdict.code, begun, seconds, verdict.sentence))
            return
        # The last step of a span may reach into what comes next: the one before it is a better witness. What is idle
        # says for how long, and there the last is right.
        sentence = verdict.sentence if verdict.since is not None else before
        self.spans[-1] = Span(last.code, last.begun, begun + seconds - last.begun, sentence)

    def best_advice(self, code: str) -> str:
        """Of a verdict that comes in several kinds, the advice that was given longest."""
        given = {advice: seconds for (said, advice), seconds in self.advice.items() if said == code}
        return max(given, key=lambda advice: given[advice], default="")

    def finish(self, uuid: str) -> CardReport:
        card = self.card or CardSample(uuid, 0)
        took: dict[str, float] = {}
        for span in self.spans:
            took[span.code] = took.get(span.code, 0.0) + span.seconds
        total = sum(took.values())
        shares = {code: took[code] / total if total else 1.0 for code in sorted(took, key=lambda each: -took[each])}
        counted = len(self.counters) == 2 and self.seconds >= _COUNTER_SECONDS and self.counters[1] > self.counters[0]
        energy = self.counters[1] - self.counters[0] if counted else self.joules or None
        return CardReport(
            uuid=uuid,
            index=card.index,
            name=card.name,
            seconds=round(self.seconds, 3),
            headline=_headline(shares, total),
            advice=self.best_advice(_worth_advice(shares)),
            spans=tuple(self.spans),
            shares={code: round(100 * share, 2) for code, share in shares.items()},
            means=self.figures.means(),
            peaks=self.figures.peaks,
            memory_total=card.memory_total,
            memory_peak=self.memory_peak,
            energy=None if energy is None else round(energy, 1),
            energy_from="counter" if counted else "power" if energy is not None else "",
            no_saturation="" if "sm" in self.figures.sums else card.no_saturation,
            points=self.history.finish(),
        )


class Gathering:
    """Takes a recording in, sample by sample: it may be longer than memory."""

    def __init__(self) -> None:
        self.window = Window(_STEP_SECONDS)
        self.cards: dict[str, _Card] = {}
        self.host = _Means()
        self.history = _History()
        self.cores: int | None = None
        self.samples = 0
        self.seconds = 0.0
        self.begun = 0.0
        self.last: Sample | None = None
        self.step = 0.0  # seconds since verdicts were drawn
        self.step_begun = 0.0

    def add(self, sample: Sample) -> None:
        """Take the next sample in."""
        seconds = sample.seconds or 0.0
        if self.last is None:
            self.begun = self.step_begun = sample.at - seconds
        elif sample.seconds is None or sample.at - seconds - self.last.at > _PAUSE_SECONDS:
            self._judge()  # another recording, appended: what was between them is not known
            self.window, self.step_begun = Window(_STEP_SECONDS), sample.at - seconds
        self.last = sample
        self.samples += 1
        self.seconds += seconds
        self.window.add(sample)
        for card in sample.cards:
            if not card.lost and card.uuid:
                self.cards.setdefault(card.uuid, _Card()).add(sample, card)
        self.host.add(_host_figures(sample.host), seconds)
        self.history.add(sample.at, seconds, row_of(sample, _NO_CARD))
        self.cores = sample.host.cores or self.cores
        self.step += seconds
        if self.step >= _STEP_SECONDS:
            self._judge()

    def _judge(self) -> None:
        """Draw verdicts over what came since the last time."""
        if self.last is None or (self.step <= 0 and any(card.spans for card in self.cards.values())):
            return
        ended = self.last.at
        for verdict in self.window.verdicts():
            if verdict.card in self.cards:
                self.cards[verdict.card].say(verdict, self.step_begun, max(0.0, ended - self.step_begun))
        self.step, self.step_begun = 0.0, ended

    def finish(self) -> Report:
        """What was taken in so far; InputError where that is nothing. More may follow."""
        if self.last is None:
            raise InputError("the recording has no sample in it")
        self._judge()
        found = (card.finish(uuid) for uuid, card in self.cards.items())
        return Report(
            begun=self.begun,
            ended=self.last.at,
            seconds=round(self.seconds, 3),
            samples=self.samples,
            cards=tuple(sorted(found, key=lambda card: card.index)),
            host=HostReport(self.cores, self.host.means(), self.host.peaks, self.history.finish()),
            trouble=self.last.trouble,
        )


def _worth_advice(shares: dict[str, float]) -> str:
    """The longest verdict that something can be done about; else the longest."""
    wanting = (code for code, share in shares.items() if code not in _CONTENT and share >= _WORTH_NAMING)
    return next(wanting, next(iter(shares), ""))


def _headline(shares: dict[str, float], seconds: float) -> str:
    """ "Starved for 84 % of 12 min; idle 10 %"."""
    titles = load_rules().titles
    named = [(code, share) for code, share in shares.items() if share >= _WORTH_NAMING][:_MOST_NAMED]
    if not named:
        return "Nothing was seen of it"
    first, share = named[0]
    title = titles[first][0].upper() + titles[first][1:]
    if seconds <= 0:
        return title
    of = "all" if share > 1 - _WORTH_NAMING else f"{100 * share:.0f} %"
    rest = "".join(f"; {titles[code]} {100 * part:.0f} %" for code, part in named[1:])
    return f"{title} for {of} of {format_seconds(round(seconds) or 1)}{rest}"


def _host_figures(host: HostSample) -> dict[str, float]:
    return {
        name: float(value)
        for name in HostSample.__struct_fields__
        if name != "cores" and (value := getattr(host, name)) is not None
    }
