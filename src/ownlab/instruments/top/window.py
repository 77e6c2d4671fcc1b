"""The last seconds of each card, and the verdict over them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

from ownlab.instruments.top.metrics import COLUMNS, Row, bystanders_of, holders_of, mean_of, row_of
from ownlab.instruments.top.records import CardSample, ProcessSample, Sample, Verdict
from ownlab.instruments.top.verdict_rules import because, find_rule, load_rules, notes, probably, say
from ownlab.units import format_bytes, format_seconds

__all__ = ["Window", "name_of_process"]

_BUSY, _PCIE = COLUMNS.index("busy"), COLUMNS.index("pcie_share")
# Under so many seconds nothing is said of how long a card has been idle: nobody looked longer.
_WORTH_SAYING = 1.0
_KINDS = ("compute", "graphics")


class _Moment(NamedTuple):
    """One card in one sample."""

    seconds: float
    idle: bool
    row: Row


class _Past:
    """One card: its moments within the window, and since when it is idle, however long that is."""

    def __init__(self, card: CardSample) -> None:
        self.card = card
        self.moments: deque[_Moment] = deque()
        self.seconds = 0.0
        self.at = 0.0  # the last sample that had it
        self.idle_since: float | None = None
        self.worked = False  # was seen at work before that: then it is known since when it is idle

    def add(self, moment: _Moment, card: CardSample, at: float, longest: float) -> None:
        self.card, self.at = card, at
        self.moments.append(moment)
        self.seconds += moment.seconds
        while self.seconds - self.moments[0].seconds >= longest and len(self.moments) > 1:
            self.seconds -= self.moments.popleft().seconds
        if not moment.idle:
            self.idle_since, self.worked = None, True
        elif self.idle_since is None:
            self.idle_since = at - moment.seconds

    def forget(self) -> None:
        self.moments.clear()
        self.seconds, self.idle_since, self.worked = 0.0, None, False


class Window:
    """Takes samples one by one; says at any moment what each card's time went into."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self.last: Sample | None = None
        self.cards: dict[str, _Past] = {}

    def add(self, sample: Sample) -> None:
        """Take a sample in. The same one twice counts once: a replay that stands still gives it again."""
        if self.last is not None and sample.at == self.last.at:
            return
        self.last = sample
        for card in sample.cards:
            known = self.cards.get(self._key(card))
            if known is None:
                known = self.cards[self._key(card)] = _Past(card)
            if card.lost:
                known.forget()
                # A card that is lost may have lost its name too.
                known.card, known.at = (card if card.uuid else _lost(known.card, card.lost)), sample.at
                continue
            row = row_of(sample, card)
            # A first sample has no interval: it counts only as long as it is alone.
            moment = _Moment(min(sample.seconds or 0.0, self.seconds), _is_idle(row), row)
            known.add(moment, card, sample.at, self.seconds)
        # Instances of MIG come and go as people wish; a whole card does not.
        for key, past in list(self.cards.items()):
            if past.card.parent and past.at != sample.at and not sample.trouble:
                del self.cards[key]

    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each card, in their order."""
        if self.last is None:
            return ()
        ordered = sorted(self.cards.values(), key=lambda past: past.card.index)
        return tuple(_verdict(past, self.last) for past in ordered)

    def _key(self, card: CardSample) -> str:
        if card.uuid:
            return card.uuid
        by_index = (key for key, past in self.cards.items() if past.card.index == card.index)
        return next(by_index, f"card {card.index}")


def _lost(card: CardSample, why: str) -> CardSample:
    return CardSample(card.uuid, card.index, card.name, card.bus_id, lost=why)


def _is_idle(row: Row) -> bool:
    """Copies to and from the host are no kernels, and are work all the same."""
    limit = load_rules().idle_below
    busy, pcie = row[_BUSY], row[_PCIE]
    return busy is not None and busy < limit and (pcie is None or pcie < limit)


def _verdict(past: _Past, last: Sample) -> Verdict:
    card = past.card
    away = last.at - past.at
    if away and not last.trouble:
        return _plain(card, "gone", ago=_rounded(away))
    # One answer that is late is nothing yet.
    if away and not 0 < away < load_rules().settle_seconds:
        return _plain(card, "silent", ago=_rounded(away), why=last.trouble)
    if card.lost:
        return _plain(card, "lost", why=card.lost)
    slices = sum(each.parent == card.uuid for each in last.cards if each.parent)
    if slices:
        return _plain(card, "split", count=str(slices))
    moments = _relevant(past)
    seconds = [each.seconds for each in moments]
    counted = sum(seconds)
    figures = mean_of([each.row for each in moments], seconds if counted > 0 else [1.0] * len(moments))
    holders = holders_of(last, card)
    figures |= {"holders": float(len(holders)), **bystanders_of(card)}
    measured = card.saturation is not None or "sm" in figures
    rule = find_rule(figures, measured=measured)
    quiet = rule.code in ("idle", "held")
    words = {**_held(card, figures), "who": _who(holders, last.at), "idle": _how_long(past, last.at)}
    inferred = not measured and (rule.measured is False or rule.probable)
    sentence = say(rule.sentence, figures, **words)
    return Verdict(
        card=card.uuid,
        code=rule.code,
        sentence=probably(sentence) if inferred and rule.probable else sentence,
        advice=rule.advice,
        because=because(rule, figures) + notes(figures),
        seconds=round(counted, 3),
        since=past.idle_since if quiet else None,
        inferred=inferred,
    )


def _plain(card: CardSample, code: str, **words: str) -> Verdict:
    said = load_rules().words[code]
    return Verdict(card.uuid, code, said.sentence.format(**words), said.advice)


def _relevant(past: _Past) -> list[_Moment]:
    """Only what belongs to the present: a card that has been idle for a while is idle, and what was before work began
    says nothing of the work."""
    moments = list(past.moments)
    # The first sample of all has no interval.
    if len(moments) > 1 and not moments[0].seconds:
        del moments[0]
    rest = list(takewhile(lambda each: each.idle, reversed(moments)))
    if len(rest) == len(moments) or sum(each.seconds for each in rest) >= load_rules().settle_seconds:
        return rest
    begun = next(place for place, each in enumerate(moments) if not each.idle)
    return moments[begun:]


def _how_long(past: _Past, now: float) -> str:
    if past.idle_since is None or now - past.idle_since < _WORTH_SAYING:
        return ""
    return f" for {'' if past.worked else 'at least '}{_rounded(now - past.idle_since)}"


def _rounded(seconds: float) -> str:
    return format_seconds(max(1, round(seconds)))


def _held(card: CardSample, figures: Mapping[str, float]) -> dict[str, str]:
    """Whose memory it is: of those that compute, of the desktop, of nobody who can be seen."""
    found = {"held": "its memory"}
    of = {kind: [each.memory or 0 for each in card.processes or () if each.kind == kind] for kind in _KINDS}
    if sum(of["compute"]) or card.memory_used:
        found["held"] = format_bytes(sum(of["compute"]) or card.memory_used or 0)
    if sum(of["graphics"]):
        found["drawn"] = format_bytes(sum(of["graphics"]))
    if "hidden_share" in figures:
        found["hidden"] = format_bytes(figures["hidden_share"] / 100 * (card.memory_total or 0))
    return found


def _who(holders: list[tuple[int | None, ProcessSample]], now: float) -> str:
    if not holders:
        return "nobody"
    process = holders[0][1]
    started = "" if process.started is None else f", started {_rounded(now - process.started)} ago"
    others = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
    return f"{name_of_process(process)} (pid {process.pid}{started}){others}"


def name_of_process(process: ProcessSample) -> str:
    """Whose a process is, in a few words: the notebook and its person, else the command, its user and container."""
    if process.owner is not None:
        name = process.owner.notebook.rpartition("/")[2] or process.owner.runtime
        return f"{name} of {process.owner.person}" if process.owner.person else name
    if not process.here:
        return "a process of another container"
    of = f" of {process.user}" if process.user else ""
    where = f" in {process.container[:12]}" if process.container else ""
    return f"{process.command or 'a process'}{of}{where}"
