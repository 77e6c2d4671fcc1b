"""The report on a recording: verdicts over time, means, peaks and energy of each card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ownlab.errors import InputError
from ownlab.instruments.top.metrics import COLUMNS, MetricRow, mean_metrics, metric_row
from ownlab.instruments.top.records import CardSample, HostSample, Sample, Verdict
from ownlab.instruments.top.verdict_rules import load_rules
from ownlab.instruments.top.verdict_window import Window
from ownlab.text import facts, text
from ownlab.units import format_seconds

__all__ = ["CardReport", "HostReport", "Point", "Report", "ReportBuilder", "Span", "build_report"]

# One verdict per step; consecutive equal verdicts form a span.
_STEP_SECONDS = 5.0
# The history of a long recording is reduced to between this number of points and twice as many.
_POINTS = 300
# The energy counter is read every ten seconds: below this length, power integrated over time is more accurate.
_COUNTER_SECONDS = 120.0
# Share of the time; the headline leaves out shorter verdicts.
_LEAST_SHARE = 0.05
_MOST_IN_HEADLINE = 3
_PAUSE_SECONDS = 1.0
# Verdicts that need no action.
_NO_ACTION = ("idle", "desktop", "fine", "tensor")

_NO_CARD = CardSample("", 0)
_Interval = tuple[float, float, MetricRow]  # end, seconds, means


class Span(Struct, frozen=True):
    """A time span with one verdict."""

    code: str
    begun: float  # seconds since the epoch
    seconds: float
    sentence: str  # the verdict


class Point(Struct, frozen=True):
    """A card's metrics around a moment, by the names of verdicts.toml; unknown ones are absent."""

    at: float
    seconds: float
    figures: dict[str, float]


class CardReport(Struct, frozen=True):
    """One card over the whole recording."""

    uuid: str
    index: int
    name: str
    seconds: float  # in which the card was present
    headline: str  # the most frequent verdicts
    advice: str
    spans: tuple[Span, ...]
    shares: dict[str, float]  # percent of the time, by code
    means: dict[str, float]  # by the names of verdicts.toml
    peaks: dict[str, float]
    memory_total: int | None
    memory_peak: int | None
    energy: float | None  # joules
    energy_from: str  # "counter", "power"
    no_saturation: str  # why the activity of the card is unknown
    points: tuple[Point, ...]


class HostReport(Struct, frozen=True):
    """The machine that the cards are in."""

    cores: int | None
    means: dict[str, float]  # percent, bytes or bytes per second, by the names of HostSample
    peaks: dict[str, float]
    points: tuple[Point, ...]


class Report(Struct, frozen=True):
    """`ownlab top report --json`."""

    begun: float
    ended: float
    seconds: float  # total of the samples, without pauses between recordings in one file
    samples: int
    cards: tuple[CardReport, ...]
    host: HostReport
    trouble: str  # why cards were unknown at the end


def build_report(samples: Iterable[Sample]) -> Report:
    """Build the report on a recording. Raises InputError if it has no samples."""
    builder = ReportBuilder()
    for sample in samples:
        builder.add(sample)
    return builder.finish()


class _Means:
    """Means and peaks of the known values, weighted by time."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.weights: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def add(self, values: dict[str, float], weight: float) -> None:
        self.last.update(values)
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * weight
            self.weights[name] = self.weights.get(name, 0.0) + weight
            self.peaks[name] = max(value, self.peaks.get(name, value))

    def means(self) -> dict[str, float]:
        """A single sample has no interval: then the value itself is the mean."""
        return {
            name: round(self.sums[name] / weight if weight > 0 else self.last[name], 3)
            for name, weight in self.weights.items()
        }


class _History:
    """Rows as points of equal length; if they become too many, pairs are merged."""

    def __init__(self) -> None:
        self.points: list[_Interval] = []
        self.rows_per_point = 1
        self.open: list[_Interval] = []

    def add(self, at: float, seconds: float, row: MetricRow) -> None:
        self.open.append((at, seconds, row))
        if len(self.open) < self.rows_per_point:
            return
        self.points.append(_merge(self.open))
        self.open = []
        if len(self.points) >= 2 * _POINTS:
            self.points = [_merge(pair) for pair in zip(self.points[::2], self.points[1::2], strict=True)]
            self.rows_per_point *= 2

    def finish(self) -> tuple[Point, ...]:
        points = [*self.points, *([_merge(self.open)] if self.open else [])]
        return tuple(
            Point(at, round(seconds, 3), {name: round(value, 3) for name, value in _known_metrics(row)})
            for at, seconds, row in points
        )


def _merge(intervals: Sequence[_Interval]) -> _Interval:
    if len(intervals) == 1:
        return intervals[0]
    weights = [seconds for _, seconds, _ in intervals]
    means = mean_metrics([row for _, _, row in intervals], weights if all(weights) else [1.0] * len(weights))
    return intervals[-1][0], sum(weights), tuple(means.get(name) for name in COLUMNS)


def _known_metrics(row: MetricRow) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in zip(COLUMNS, row, strict=True) if value is not None)


class _CardBuilder:
    """Collects the report on one card."""

    def __init__(self) -> None:
        self.card: CardSample | None = None
        self.metrics = _Means()
        self.history = _History()
        self.spans: list[Span] = []
        self.last_sentence = ""
        self.advice: dict[tuple[str, str], float] = {}  # code and advice -> seconds
        self.seconds = 0.0
        self.joules = 0.0
        self.memory_peak: int | None = None
        self.counters: list[float] = []  # first and last

    def add(self, sample: Sample, card: CardSample) -> None:
        row = metric_row(sample, card)
        seconds = sample.seconds or 0.0
        self.card = card if card.name or self.card is None else self.card
        self.seconds += seconds
        self.metrics.add(dict(_known_metrics(row)), seconds)
        self.joules += (card.power or 0.0) * seconds
        if card.memory_used is not None:
            self.memory_peak = max(card.memory_used, self.memory_peak or 0)
        if card.energy is not None:
            self.counters[1:] = [card.energy]
        self.history.add(sample.at, seconds, row)

    def add_verdict(self, verdict: Verdict, begun: float, seconds: float) -> None:
        key = verdict.code, verdict.advice
        self.advice[key] = self.advice.get(key, 0.0) + seconds
        previous, self.last_sentence = self.last_sentence, verdict.sentence
        last = self.spans[-1] if self.spans else None
        if last is None or last.code != verdict.code or begun - (last.begun + last.seconds) >= _PAUSE_SECONDS:
            self.spans.append(Span(verdict.code, begun, seconds, verdict.sentence))
            return
        # The last step of a span may reach into the next span, so the sentence of the step before it is kept.
        # Idle verdicts state their duration: there the last one is right.
        sentence = verdict.sentence if verdict.since is not None else previous
        self.spans[-1] = Span(last.code, last.begun, begun + seconds - last.begun, sentence)

    def longest_advice(self, code: str) -> str:
        """Return the advice that applied longest: several rules may have the same code."""
        seconds_by_advice = {advice: seconds for (known, advice), seconds in self.advice.items() if known == code}
        return max(seconds_by_advice, key=lambda advice: seconds_by_advice[advice], default="")

    def finish(self, uuid: str) -> CardReport:
        card = self.card or CardSample(uuid, 0)
        seconds: dict[str, float] = {}
        for span in self.spans:
            seconds[span.code] = seconds.get(span.code, 0.0) + span.seconds
        total = sum(seconds.values())
        by_length = sorted(seconds, key=lambda code: -seconds[code])
        shares = {code: seconds[code] / total if total else 1.0 for code in by_length}
        counted = len(self.counters) == 2 and self.seconds >= _COUNTER_SECONDS and self.counters[1] > self.counters[0]
        energy = self.counters[1] - self.counters[0] if counted else self.joules or None
        return CardReport(
            uuid=uuid,
            index=card.index,
            name=card.name,
            seconds=round(self.seconds, 3),
            headline=_headline(shares, total),
            advice=self.longest_advice(_code_for_advice(shares)),
            spans=tuple(self.spans),
            shares={code: round(100 * share, 2) for code, share in shares.items()},
            means=self.metrics.means(),
            peaks=self.metrics.peaks,
            memory_total=card.memory_total,
            memory_peak=self.memory_peak,
            energy=None if energy is None else round(energy, 1),
            energy_from="counter" if counted else "power" if energy is not None else "",
            no_saturation="" if "sm" in self.metrics.sums else card.no_saturation,
            points=self.history.finish(),
        )


class ReportBuilder:
    """Builds a report sample by sample: a recording may be larger than the memory."""

    def __init__(self) -> None:
        self.window = Window(_STEP_SECONDS)
        self.cards: dict[str, _CardBuilder] = {}
        self.host = _Means()
        self.history = _History()
        self.cores: int | None = None
        self.samples = 0
        self.seconds = 0.0
        self.begun = 0.0
        self.last: Sample | None = None
        self.step = 0.0  # seconds since the last verdicts
        self.step_begun = 0.0

    def add(self, sample: Sample) -> None:
        """Add the next sample."""
        seconds = sample.seconds or 0.0
        if self.last is None:
            self.begun = self.step_begun = sample.at - seconds
        elif sample.seconds is None or sample.at - seconds - self.last.at > _PAUSE_SECONDS:
            self._add_verdicts()  # another recording was appended; the time between them is unknown
            self.window, self.step_begun = Window(_STEP_SECONDS), sample.at - seconds
        self.last = sample
        self.samples += 1
        self.seconds += seconds
        self.window.add(sample)
        for card in sample.cards:
            if not card.lost and card.uuid:
                self.cards.setdefault(card.uuid, _CardBuilder()).add(sample, card)
        self.host.add(_host_values(sample.host), seconds)
        self.history.add(sample.at, seconds, metric_row(sample, _NO_CARD))
        self.cores = sample.host.cores or self.cores
        self.step += seconds
        if self.step >= _STEP_SECONDS:
            self._add_verdicts()

    def _add_verdicts(self) -> None:
        """Add the verdicts on the time since the last ones."""
        if self.last is None or (self.step <= 0 and any(card.spans for card in self.cards.values())):
            return
        ended = self.last.at
        for verdict in self.window.verdicts():
            if verdict.card in self.cards:
                self.cards[verdict.card].add_verdict(verdict, self.step_begun, max(0.0, ended - self.step_begun))
        self.step, self.step_begun = 0.0, ended

    def finish(self) -> Report:
        """Return the report so far; more samples may follow. Raises InputError without any sample."""
        if self.last is None:
            raise InputError(text("The recording contains no sample."))
        self._add_verdicts()
        cards = (card.finish(uuid) for uuid, card in self.cards.items())
        return Report(
            begun=self.begun,
            ended=self.last.at,
            seconds=round(self.seconds, 3),
            samples=self.samples,
            cards=tuple(sorted(cards, key=lambda card: card.index)),
            host=HostReport(self.cores, self.host.means(), self.host.peaks, self.history.finish()),
            trouble=self.last.trouble,
        )


def _code_for_advice(shares: dict[str, float]) -> str:
    """Return the longest verdict that needs action, else the longest."""
    actionable = (code for code, share in shares.items() if code not in _NO_ACTION and share >= _LEAST_SHARE)
    return next(actionable, next(iter(shares), ""))


def _headline(shares: dict[str, float], seconds: float) -> str:
    """Return "Starved for 84 % of 12 min; idle 10 %"."""
    titles = load_rules().titles
    longest = [(code, share) for code, share in shares.items() if share >= _LEAST_SHARE][:_MOST_IN_HEADLINE]
    if not longest:
        return text("No data")
    code, share = longest[0]
    title = load_rules().headlines[code].fill()
    if seconds <= 0:
        return title
    duration = format_seconds(round(seconds) or 1)
    if share > 1 - _LEAST_SHARE:
        first = text("{verdict} for all of {duration}", verdict=title, duration=duration)
    else:
        percent = f"{100 * share:.0f} %"
        first = text("{verdict} for {share} of {duration}", verdict=title, share=percent, duration=duration)
    others = [
        text("{verdict} {percent:.0f} %", verdict=titles[code].fill(), percent=100 * share)
        for code, share in longest[1:]
    ]
    return facts(first, *others, separator="; ")


def _host_values(host: HostSample) -> dict[str, float]:
    return {
        name: float(value)
        for name in HostSample.__struct_fields__
        if name != "cores" and (value := getattr(host, name)) is not None
    }
