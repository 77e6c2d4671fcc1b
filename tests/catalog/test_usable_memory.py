"""Usable memory that nobody reported is inferred from cards like it, and is never more certain than they are."""

from __future__ import annotations

import pytest

from ownlab.catalog.cards import Card, choose_cards, load_cards
from ownlab.catalog.usable_memory import usable_memory
from ownlab.units import GIB


def card(name: str) -> Card:
    (found,) = choose_cards(name, sizes=False)
    return found


def test_a_reported_size_is_taken_as_it_is() -> None:
    memory = usable_memory(card("H200 SXM"))
    assert memory is not None
    assert (memory.low_bytes, memory.inferred) == (memory.high_bytes, False)


@pytest.mark.parametrize(
    ("name", "needed_gib", "holds"),
    [
        ("RTX 3090", 22.5, True),
        ("RTX 3090 Ti", 22.5, True),
        ("RTX 4090 D", 22.5, True),
        ("H800 SXM", 75, True),
        ("H800 SXM", 79.5, False),
        ("RTX A6000", 44, True),
        ("RTX A6000", 46, None),  # with ECC it has less than without
        ("RTX A6000", 47.9, False),
        ("RTX 4080", 15.9, False),
        ("L4", 23, False),  # ECC takes a sixteenth of its 24 GB
        ("MI300X", 170, True),
    ],
)
def test_what_fits(name: str, needed_gib: float, holds: bool | None) -> None:
    memory = usable_memory(card(name))
    assert memory is not None
    assert memory.holds(round(needed_gib * GIB)) is holds


def test_every_inference_names_its_reason_and_lies_below_the_nominal_size() -> None:
    for each in load_cards():
        memory = usable_memory(each)
        if memory is None:
            assert each.value("memory_gb") is None
            continue
        assert bool(memory.why) == memory.inferred
        nominal = each.value("memory_gb") or 0
        assert 0.85 * nominal * GIB < memory.low_bytes <= memory.high_bytes <= nominal * GIB


def test_leaving_a_reported_card_out_its_size_lies_near_the_inferred_range() -> None:
    """The inference for each reported card from all others of its kind: none is off by more than an ECC sixteenth."""
    from ownlab.catalog import usable_memory as module

    for each in load_cards():
        reported = each.value("memory_gib")
        nominal = each.value("memory_gb")
        if reported is None or nominal is None:
            continue
        inferred = module._inferred(each.vendor, module._line(each.name), nominal)
        assert 0.93 * inferred.low_bytes <= reported * GIB <= 1.07 * inferred.high_bytes
