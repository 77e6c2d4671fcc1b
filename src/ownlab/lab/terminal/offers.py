"""What an engine offers, as a table in the terminal."""

from __future__ import annotations

import time

from rich.console import Console
from rich.text import Text

from ownlab.lab.engines.interface import Offer, OfferList
from ownlab.render.wide_text import align_left, cell_width
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["show_offers"]


def show_offers(found: OfferList, out: Console) -> None:
    """Print a line per offer: what it is, whether it is free, and its time limit."""
    if not found.offers:
        out.print(text("{engine} offers nothing that you may use.", engine=found.engine))
        return
    labels = max(cell_width(offer.type.label) for offer in found.offers) + 2
    states = max(cell_width(_state(offer)) for offer in found.offers) + 2
    for offer in found.offers:
        line = Text.assemble(
            (align_left(offer.type.label, labels), "bold"),
            (align_left(_state(offer), states), "green" if offer.type.free else "yellow"),
            (_limit(offer), "dim"),
        )
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
    if any(offer.partition for offer in found.offers):
        out.print()
        out.print(
            text(
                "`ownlab run --engine {engine}` takes --partition, --gpus and --nodes up to these.", engine=found.engine
            ),
            soft_wrap=True,
        )


def _state(offer: Offer) -> str:
    kind = offer.type
    if kind.free or kind.starts_at is None:
        return text("available") if kind.free else kind.why_not
    at = time.strftime("%F %H:%M", time.localtime(kind.starts_at))
    return text("{why_not}, expected start {at}", why_not=kind.why_not, at=at)


def _limit(offer: Offer) -> str:
    if offer.time_limit is None:
        return ""
    return text("at most {duration}", duration=format_seconds(offer.time_limit))
