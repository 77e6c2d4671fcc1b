"""Which devices a request gets, and whose turn it is."""

from __future__ import annotations

import time

import pytest

from ownlab.errors import DeviceUnusable
from ownlab.lab.store.lease_scheduler import (
    Holding,
    allocate,
    check_possible,
    choose_devices,
    explain_wait,
    share_label,
)
from ownlab.lab.store.rows import CardRequest, Device, Process, RuntimeRow

KIND = "NVIDIA H200"
CARDS = [Device(f"GPU-{number}", "nvidia", number, KIND) for number in range(4)]
ONE, TWO, HALF, THIRD = CardRequest(KIND, 1), CardRequest(KIND, 2), CardRequest(KIND, 1, 6), CardRequest(KIND, 1, 4)


def names(chosen: tuple[Device, ...] | None) -> list[int] | None:
    return None if chosen is None else [device.number for device in chosen]


def row(person: str = "ann", notebook: str = "/home/ann/train.ipynb") -> RuntimeRow:
    process = Process(1, 1)
    started = (process, process, None, False, 0.0, None, "", True, 0.0)
    return RuntimeRow("r", 1000, person, None, notebook, "t", "Python 3", ONE, "running", 0.0, None, "boot", *started)


@pytest.mark.parametrize(
    ("want", "booked", "chosen"),
    [
        (ONE, {}, [0]),
        (TWO, {}, [0, 1]),
        (TWO, {"GPU-0": 12}, [1, 2]),
        (TWO, {"GPU-0": 12, "GPU-1": 1, "GPU-2": 12}, None),  # a whole request needs all twelve parts
        (HALF, {}, [0]),
        (HALF, {"GPU-2": 6}, [2]),  # shared already: whole cards stay whole
        (HALF, {"GPU-1": 4, "GPU-2": 6}, [2]),  # the tightest room that is enough
        (HALF, {"GPU-1": 4, "GPU-2": 8}, [1]),
        (THIRD, {"GPU-0": 12, "GPU-1": 12, "GPU-2": 9, "GPU-3": 9}, None),
        (CardRequest(KIND, 2, 6), {"GPU-3": 6}, [0, 3]),
        (CardRequest("NVIDIA A100", 1), {}, None),
    ],
)
def test_devices_are_chosen(want: CardRequest, booked: dict[str, int], chosen: list[int] | None) -> None:
    assert names(choose_devices(want, CARDS, booked)) == chosen


def test_a_card_in_use_by_a_stranger_is_not_leased() -> None:
    cards = [CARDS[0]._replace(strangers=("python train.py (pid 7) of bob",)), CARDS[1]]
    assert names(choose_devices(ONE, cards, {})) == [1]
    assert choose_devices(HALF, cards, {"GPU-1": 12}) is None


def test_a_mig_instance_is_leased_only_as_a_whole() -> None:
    slices = [card._replace(whole_only=True) for card in CARDS]
    assert names(choose_devices(ONE, slices, {})) == [0]
    assert choose_devices(HALF, slices, {}) is None
    with pytest.raises(DeviceUnusable, match="as a whole, but ½ of it was requested"):
        check_possible(HALF, slices)


def test_impossible_requests_are_refused_with_a_reason() -> None:
    with pytest.raises(DeviceUnusable, match="This machine has 2 × NVIDIA H200, but 4 were requested"):
        check_possible(CardRequest(KIND, 4), CARDS[:2])
    with pytest.raises(DeviceUnusable, match="has no NVIDIA A100; it has 4 × NVIDIA H200"):
        check_possible(CardRequest("NVIDIA A100", 1), CARDS)
    with pytest.raises(DeviceUnusable, match="it has no cards"):
        check_possible(ONE, [])
    check_possible(CardRequest(KIND, 4), [card._replace(strangers=("bob",)) for card in CARDS])  # waiting would help


def test_requests_are_served_in_order() -> None:
    queue = [("a", ONE), ("b", ONE), ("c", ONE)]
    booked = {"GPU-0": 12, "GPU-1": 12}
    assert names(allocate("a", queue, CARDS, booked)) == [2]
    assert names(allocate("b", queue, CARDS, booked)) == [3]  # the second may ask before the first: 2 is kept for it
    assert allocate("c", queue, CARDS, booked) is None


def test_a_large_request_is_not_overtaken_for_ever() -> None:
    queue = [("big", CardRequest(KIND, 4)), ("small", ONE)]
    assert allocate("small", queue, CARDS, {"GPU-0": 12}) is None
    assert names(allocate("big", queue, CARDS, {})) == [0, 1, 2, 3]


def test_kinds_do_not_wait_for_each_other() -> None:
    cards = [*CARDS, Device("GPU-9", "nvidia", 4, "NVIDIA T4")]
    queue = [("big", CardRequest(KIND, 4)), ("other", CardRequest("NVIDIA T4", 1))]
    assert names(allocate("other", queue, cards, {"GPU-0": 12})) == [4]


def test_an_impossible_request_blocks_no_other() -> None:
    assert names(allocate("small", [("never", CardRequest(KIND, 9)), ("small", ONE)], CARDS, {})) == [0]


def test_a_runtime_outside_the_queue_gets_nothing() -> None:
    assert allocate("stranger", [("a", ONE)], CARDS, {}) is None


def test_the_reason_names_holders_strangers_and_the_queue() -> None:
    cards = [CARDS[0], CARDS[1]._replace(strangers=("python x.py (pid 7) of bob, 12 GiB",)), CARDS[2]]
    now = time.time()
    clock = time.strftime("%H:%M", time.localtime(now))
    holdings = [
        Holding("GPU-0", 6, now, row()),
        Holding("GPU-0", 4, now, row("eve", ""), "its process 9 is still running"),
    ]
    assert explain_wait(ONE, cards, holdings, 2) == (
        f"card 0 (NVIDIA H200): ann, train.ipynb, ½, since {clock}, and "
        "eve, Python 3, ⅓, has ended, but its process 9 is still running; "
        "card 1: used without a lease by python x.py (pid 7) of bob, 12 GiB; 2 requests are ahead of this one"
    )


def test_the_date_is_shown_for_earlier_days() -> None:
    then = time.mktime((2026, 3, 1, 10, 2, 0, 0, 0, -1))
    assert explain_wait(ONE, CARDS, [Holding("GPU-3", 12, then, row())], 0) == (
        "card 3 (NVIDIA H200): ann, train.ipynb, since 2026-03-01 10:02"
    )


def test_share_labels() -> None:
    assert [share_label(parts) for parts in (12, 6, 4, 3, 2, 5)] == ["", "½", "⅓", "¼", "⅙", "5/12"]
