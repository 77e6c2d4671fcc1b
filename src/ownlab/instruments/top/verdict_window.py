"""A sliding window over the last samples of each card, and the verdict on each card."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import NamedTuple

from ownlab.instruments.top.metrics import (
    COLUMNS,
    MetricRow,
    compute_processes,
    mean_metrics,
    metric_row,
    other_memory_metrics,
)
from ownlab.instruments.top.records import CardSample, ProcessSample, Sample, Verdict
from ownlab.instruments.top.verdict_rules import (
    Metrics,
    find_rule,
    load_rules,
    matching_notes,
    render_sentence,
    render_state,
    verdict_reasons,
)
from ownlab.text import plural, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["Window", "describe_process"]

_BUSY, _PCIE = COLUMNS.index("busy"), COLUMNS.index("pcie_share")
# A shorter idle time is not mentioned.
_LEAST_IDLE_SECONDS = 1.0
_KINDS = ("compute", "graphics")


class _Moment(NamedTuple):
    """One card in one sample."""

    seconds: float
    idle: bool
    row: MetricRow


class _CardHistory:
    """One card: its moments within the window, and since when it has been idle, however long that is."""

    def __init__(self, card: CardSample) -> None:
        self.card = card
        self.moments: deque[_Moment] = deque()
        self.seconds = 0.0
        self.at = 0.0  # the last sample that had this card
        self.idle_since: float | None = None
        self.was_busy = False  # before it became idle: then the start of the idle time is known

    def add(self, moment: _Moment, card: CardSample, at: float, longest: float) -> None:
        self.card, self.at = card, at
        self.moments.append(moment)
        self.seconds += moment.seconds
        while self.seconds - self.moments[0].seconds >= longest and len(self.moments) > 1:
            self.seconds -= self.moments.popleft().seconds
        if not moment.idle:
            self.idle_since, self.was_busy = None, True
        elif self.idle_since is None:
            self.idle_since = at - moment.seconds

    def clear(self) -> None:
        self.moments.clear()
        self.seconds, self.idle_since, self.was_busy = 0.0, None, False


class Window:
    """Takes samples one by one and gives, at any moment, a verdict on each card."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self.last: Sample | None = None
        self.cards: dict[str, _CardHistory] = {}

    def add(self, sample: Sample) -> None:
        """Add a sample. The same one twice counts once: a paused replay repeats it."""
        if self.last is not None and sample.at == self.last.at:
            return
        self.last = sample
        for card in sample.cards:
            history = self.cards.get(self._key(card))
            if history is None:
                history = self.cards[self._key(card)] = _CardHistory(card)
            if card.lost:
                history.clear()
                # A lost card may have lost its UUID too.
                history.card, history.at = (card if card.uuid else _mark_lost(history.card, card.lost)), sample.at
                continue
            row = metric_row(sample, card)
            # The first sample has no interval: it counts only while it is the only one.
            moment = _Moment(min(sample.seconds or 0.0, self.seconds), _is_idle(row), row)
            history.add(moment, card, sample.at, self.seconds)
        # MIG instances are created and deleted in normal use; whole cards are not.
        for key, history in list(self.cards.items()):
            if history.card.parent and history.at != sample.at and not sample.trouble:
                del self.cards[key]

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return one verdict per card, ordered by card number."""
        if self.last is None:
            return ()
        ordered = sorted(self.cards.values(), key=lambda history: history.card.index)
        return tuple(_verdict(history, self.last) for history in ordered)

    def _key(self, card: CardSample) -> str:
        if card.uuid:
            return card.uuid
        by_index = (key for key, history in self.cards.items() if history.card.index == card.index)
        return next(by_index, f"card {card.index}")


def _mark_lost(card: CardSample, reason: str) -> CardSample:
    return CardSample(card.uuid, card.index, card.name, card.bus_id, lost=reason)


def _is_idle(row: MetricRow) -> bool:
    """Copies to and from the host are not kernels, but they are work."""
    limit = load_rules().idle_below
    busy, pcie = row[_BUSY], row[_PCIE]
    return busy is not None and busy < limit and (pcie is None or pcie < limit)


def _verdict(history: _CardHistory, last: Sample) -> Verdict:
    card = history.card
    away = last.at - history.at
    if away and not last.trouble:
        return _state_verdict(card, "gone", ago=_format_whole_seconds(away))
    # A single late answer does not matter yet.
    if away and not 0 < away < load_rules().settle_seconds:
        return _state_verdict(card, "silent", ago=_format_whole_seconds(away), reason=last.trouble)
    if card.lost:
        return _state_verdict(card, "lost", reason=card.lost)
    instances = sum(other.parent == card.uuid for other in last.cards if other.parent)
    if instances:
        return _state_verdict(card, "split", count=str(instances))
    return _metric_verdict(history, last)


def _state_verdict(card: CardSample, code: str, **values: str) -> Verdict:
    state = load_rules().states[code]
    return Verdict(card.uuid, code, render_state(state, **values), state.advice.fill())


def _metric_verdict(history: _CardHistory, last: Sample) -> Verdict:
    card = history.card
    moments = _relevant_moments(history)
    seconds = [moment.seconds for moment in moments]
    total = sum(seconds)
    metrics = mean_metrics([moment.row for moment in moments], seconds if total > 0 else [1.0] * len(moments))
    holders = compute_processes(last, card)
    metrics |= {"holders": float(len(holders)), **other_memory_metrics(card)}
    measured = card.saturation is not None or "sm" in metrics
    rule = find_rule(metrics, measured=measured)
    templates = (rule.inferred_sentence,) if rule.inferred_sentence and not measured else rule.sentence
    values = {
        **_memory_values(card, metrics),
        **_idle_values(history, last.at),
        "who": _describe_holders(holders, last.at),
    }
    return Verdict(
        card=card.uuid,
        code=rule.code,
        sentence=render_sentence(templates, metrics, **values),
        advice=rule.advice.fill(),
        because=verdict_reasons(rule, metrics) + matching_notes(metrics),
        seconds=round(total, 3),
        since=history.idle_since if rule.code in ("idle", "held") else None,
        inferred=not measured and (rule.measured is False or bool(rule.inferred_sentence)),
    )


def _relevant_moments(history: _CardHistory) -> list[_Moment]:
    """Return what belongs to the present.

    A card that has been idle for a while is idle, and the time before work began does not describe the work.
    """
    moments = list(history.moments)
    # The first sample of all has no interval.
    if len(moments) > 1 and not moments[0].seconds:
        del moments[0]
    idle = list(takewhile(lambda moment: moment.idle, reversed(moments)))
    if len(idle) == len(moments) or sum(moment.seconds for moment in idle) >= load_rules().settle_seconds:
        return idle
    begin = next(position for position, moment in enumerate(moments) if not moment.idle)
    return moments[begin:]


def _idle_values(history: _CardHistory, now: float) -> dict[str, str]:
    if history.idle_since is None or now - history.idle_since < _LEAST_IDLE_SECONDS:
        return {}
    return {"idle" if history.was_busy else "idle_at_least": _format_whole_seconds(now - history.idle_since)}


def _format_whole_seconds(seconds: float) -> str:
    return format_seconds(max(1, round(seconds)))


def _memory_values(card: CardSample, metrics: Metrics) -> dict[str, str]:
    """Return who uses how much memory: compute processes, the desktop, processes that are not visible."""
    values: dict[str, str] = {"held": text("its memory")}
    sums = {
        kind: sum(process.memory or 0 for process in card.processes or () if process.kind == kind) for kind in _KINDS
    }
    if sums["compute"] or card.memory_used:
        values["held"] = format_bytes(sums["compute"] or card.memory_used or 0)
    if sums["graphics"]:
        values["drawn"] = format_bytes(sums["graphics"])
    if "hidden_share" in metrics:
        values["hidden"] = format_bytes(metrics["hidden_share"] / 100 * (card.memory_total or 0))
    return values


def _describe_holders(holders: list[tuple[int | None, ProcessSample]], now: float) -> str:
    if not holders:
        return text("nobody")
    process = holders[0][1]
    name = describe_process(process)
    if process.started is None:
        first = text("{name} (pid {pid})", name=name, pid=process.pid)
    else:
        age = _format_whole_seconds(now - process.started)
        first = text("{name} (pid {pid}, started {age} ago)", name=name, pid=process.pid, age=age)
    if len(holders) == 1:
        return first
    return plural(len(holders) - 1, "{first} with {n} other process", "{first} with {n} other processes", first=first)


def describe_process(process: ProcessSample) -> str:
    """Name a process: by its notebook and person, else by its command, user and container."""
    if process.owner is not None:
        notebook = process.owner.notebook.rpartition("/")[2] or process.owner.runtime
        if not process.owner.person:
            return notebook
        return text("{notebook} of {person}", notebook=notebook, person=process.owner.person)
    if not process.here:
        return text("a process in another container")
    command, container = process.command or text("a process"), process.container[:12]
    if process.user and container:
        return text("{command} of {user} in {container}", command=command, user=process.user, container=container)
    if process.user:
        return text("{command} of {user}", command=command, user=process.user)
    return text("{command} in {container}", command=command, container=container) if container else command
