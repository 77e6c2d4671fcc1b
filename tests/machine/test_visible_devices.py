"""Which cards CUDA_VISIBLE_DEVICES shows, in what order: valid values, mistakes, and what the driver does."""

from __future__ import annotations

import pytest

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.records import Card, MigInstance
from ownlab.machine.visible_devices import visible_devices

UUIDS = (
    "GPU-1a2d7986-4b79-e1ed-c951-afa4653d7453",
    "GPU-1a2dffff-0000-0000-0000-000000000000",
    "GPU-bb33aaaa-0000-0000-0000-000000000000",
)
ALIKE = tuple(Card("nvidia", index, uuid=Known(uuid, source="NVML")) for index, uuid in enumerate(UUIDS))
ONE = ALIKE[:1]


@pytest.mark.parametrize(
    ("value", "order"),
    [
        (None, (0, 1, 2)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("none", ()),
        ("2,0", (2, 0)),
        (" 1 , 2 ", (1, 2)),
        ("0,", (0,)),
        (UUIDS[2], (2,)),
        ("GPU-bb33", (2,)),
        ("GPU-BB33AAAA,GPU-1a2d7", (2, 0)),
    ],
)
def test_values_without_a_problem(value: str | None, order: tuple[int, ...]) -> None:
    seen = visible_devices(value, ALIKE)
    assert (seen.order, seen.problem, seen.known) == (order, None, True)


@pytest.mark.parametrize(
    ("value", "order", "word"),
    [
        ("0，2", (0,), "full-width"),  # as Chinese notes write it
        ("0 1", (0,), "read as 0"),
        ("0;1", (0,), "read as 0"),
        ("0,7,1", (0,), "'7' names no card"),
        ("7,0", (), "every card is hidden"),
        ("cuda:0", (), "every card is hidden"),
        ("all", (), "every card is hidden"),
        ("'0'", (), "quotation marks"),
        (",0", (), "empty entry"),
        ("1,1", (), "named twice"),
        ("GPU-bb33,GPU-bb", (), "named twice"),
        ("GPU-1a2d", (), "several cards"),
        ("GPU-bb33,0", (2,), "'0' names no card"),
        ("0,GPU-bb33", (0,), "names no card"),
        ("gpu-bb33", (), "names no card"),
        ("GPU-", (), "names no card"),
    ],
)
def test_values_with_a_problem(value: str, order: tuple[int, ...], word: str) -> None:
    seen = visible_devices(value, ALIKE)
    assert seen.order == order
    assert seen.problem is not None
    assert word in seen.problem


# CUDA_VISIBLE_DEVICES -> (cuInit's code, number of devices), on this project's H200, driver 580.159.04, 2026-11-15.
MEASURED = [
    ("", 0), ("0", 1), ("0，2", 1), ("0,0", 0), (" 0", 1), ("0 ", 1), ("0 ,1", 1), ("0x0", 1), ("+0", 1), ("00", 1),
    ("none", 0),
    ("NoDevFiles", 0), ("void", 0), ("all", 0), ("-1", 0), ("0,-1", 1), ("-1,0", 0), ("0,1", 1), ("1,0", 0),
    ("0,1,0", 1), ("0;1", 1), ("0gpu", 1), ("0 1", 1), (",0", 0), ("0,", 1), (UUIDS[0], 1), (UUIDS[0][:8], 1),
    ("GPU-" + UUIDS[0][4:].upper(), 1), (UUIDS[0].lower(), 0), (UUIDS[0][4:], 0), (UUIDS[0] + ",0", 1),
    ("0," + UUIDS[0], 1), (UUIDS[0] + "," + UUIDS[0], 0), ("GPU-1a2d,GPU-1a2d7", 0), ("GPU-bad,0", 0), ("GPU-", 0),
    ("MIG-x", 0), ("'0'", 0), ("cuda:0", 0), ("0.5", 1),
]  # fmt: skip


@pytest.mark.parametrize(("value", "count"), MEASURED)
def test_the_order_agrees_with_the_measured_driver(value: str, count: int) -> None:
    assert len(visible_devices(value, ONE).order) == count


def test_mig_instances() -> None:
    instances: Fact[tuple[MigInstance, ...]] = Known((MigInstance("MIG-aa"), MigInstance("MIG-bb")), source="NVML")
    cards = (Card("nvidia", 0), Card("nvidia", 1, mig_instances=instances))
    assert visible_devices("MIG-bb", cards).order == (1,)
    both = visible_devices("MIG-aa,MIG-bb", cards)
    assert both.order == (1,)
    assert "one MIG instance" in (both.problem or "")
    assert visible_devices("MIG-cc", cards).order == ()


def test_unread_cards_give_an_unknown_order() -> None:
    assert not visible_devices("0", ()).known
    assert not visible_devices("GPU-1a2d", (Card("nvidia", 0, uuid=Unknown("not in this table")),)).known
    assert not visible_devices("MIG-aa", ONE).known


def test_other_vendors_cards_do_not_count() -> None:
    cards = (Card("amd", 0), Card("amd", 1), *ONE)
    assert visible_devices(None, cards).order == (0,)
    assert visible_devices("1,0", cards, "amd").order == (1, 0)
