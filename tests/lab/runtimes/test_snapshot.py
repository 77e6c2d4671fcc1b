"""A snapshot over real runtimes on fake cards, and over rows as a store may hold them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import LabError
from ownlab.instruments.top.records import CardSample, Saturation, Verdict
from ownlab.lab.journal.storage import journal_folder, make_journal_folder, write_trouble
from ownlab.lab.runtimes import operations, start
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.kernelspecs import read_specs
from ownlab.lab.runtimes.live_usage import LiveUsage, UsageSampler
from ownlab.lab.runtimes.operations import extend_runtime, find_runtime, stop_runtime
from ownlab.lab.runtimes.records import HostState, RuntimeType, Snapshot
from ownlab.lab.runtimes.snapshot import take_snapshot
from ownlab.lab.store.rows import CardRequest, Device, RuntimeRow
from ownlab.lab.store.store import Store

GIB = 1024**3
CARDS = (Device("GPU-0", "nvidia", 0, "X", 12 * GIB), Device("GPU-1", "nvidia", 1, "X", 12 * GIB))
CPU = CardRequest()
NOTHING = LiveUsage(at=1.0, host=HostState(None, None, None))
TYPES = tuple(
    RuntimeType(f"ownlab-{name}", name, "default", "/python", kind, cards, parts, 1.0)
    for name, kind, cards, parts in (
        ("cpu", None, 0, 12),
        ("1-x", "X", 1, 12),
        ("half-x", "X", 1, 6),
        ("2-x", "X", 2, 12),
        ("1-y", "Y", 1, 12),
    )
)


@pytest.fixture
def enter(store: Store, row: Callable[..., RuntimeRow]) -> Iterator[Callable[..., None]]:
    """Puts a runtime into the store as a supervisor would, and asks for its cards."""
    locks = []

    def put(name: str, want: CardRequest = CPU, *, devices: tuple[Device, ...] = CARDS, **fields: Any) -> None:
        locks.append(store.hold(name))
        store.enqueue(row(name, want=want, state="waiting", started_at=None))
        store.acquire(name, devices)
        if fields:
            store.update(name, **fields)

    yield put
    for lock in locks:
        os.close(lock)


def free_types(snapshot: Snapshot) -> list[str]:
    return [kind.label for kind in snapshot.types if kind.free]


def why_not(snapshot: Snapshot, label: str) -> str:
    return next(kind.why_not for kind in snapshot.types if kind.label == label)


def test_availability_follows_leases_and_the_queue(store: Store, enter: Callable[..., None]) -> None:
    options = LabOptions()
    assert free_types(take_snapshot(store, CARDS, options, TYPES, NOTHING)) == ["cpu", "1-x", "half-x", "2-x"]
    enter("a", CardRequest("X", 1, 6), state="running", started_at=time.time())
    taken = take_snapshot(store, CARDS, options, TYPES, NOTHING)
    assert free_types(taken) == ["cpu", "1-x", "half-x"]
    assert [card.free_parts for card in taken.cards] == [6, 12]
    assert [(holder.runtime, holder.person, holder.parts) for holder in taken.cards[0].holders] == [("a", "ann", 6)]
    assert why_not(taken, "1-y") == "This machine has no Y; it has 2 × X."
    assert "card 0 (X): ann, train.ipynb, ½, since" in why_not(taken, "2-x")
    enter("b", CardRequest("X", 2, 12))  # waits, and closes the way for those behind it
    queued = take_snapshot(store, CARDS, options, TYPES, NOTHING)
    assert free_types(queued) == ["cpu"]
    assert "1 request is ahead" in why_not(queued, "half-x")
    waiting = next(each for each in queued.runtimes if each.id == "b")
    assert (waiting.state, waiting.place, waiting.cards) == ("waiting", 1, ())
    assert "card 0 (X): ann" in waiting.why


def test_a_card_in_use_by_a_stranger_is_not_free(store: Store) -> None:
    stranger = CARDS[0]._replace(strangers=("python train.py (pid 4711) of bob, 12 GiB",))
    taken = take_snapshot(store, (stranger, CARDS[1]), LabOptions(), TYPES, NOTHING)
    assert [card.free_parts for card in taken.cards] == [0, 12]
    assert free_types(taken) == ["cpu", "1-x", "half-x"]
    assert "python train.py (pid 4711) of bob" in why_not(taken, "2-x")


def test_usage_limits_and_units(store: Store, enter: Callable[..., None]) -> None:
    now = time.time()
    enter("a", CardRequest("X", 1, 6), state="running", started_at=now - 7200, units_per_hour=1.5, ends_at=now + 300.0)
    enter("b", state="running", started_at=now, ends_at=now + 3000.0)
    figures = LiveUsage(
        at=now,
        host=HostState(12.0, 64 * GIB, 8 * GIB),
        ram={"a": 3 * GIB},
        vram={("a", "GPU-0"): 7 * GIB},
        cpu={"a": 150.0},
        shares={("a", "GPU-0"): 40.0},
        cards={"GPU-0": CardSample("GPU-0", 0, memory_used=8 * GIB, utilisation=93.2, saturation=Saturation(sm=0.7))},
        verdicts={"GPU-0": Verdict("GPU-0", "small", "Its kernels are small.")},
        notices=("Something is not known.",),
    )
    taken = take_snapshot(store, CARDS, LabOptions(), TYPES, figures, labs={"x": "/work"}, notices=["Mind the gap."])
    first, second = taken.runtimes
    assert (first.ram, first.vram, first.warned, first.mine) == (3 * GIB, 7 * GIB, True, True)
    assert first.units == pytest.approx(3.0, rel=1e-3)
    (share,) = first.cards
    assert (share.uuid, share.index, share.vram, share.booked) == ("GPU-0", 0, 7 * GIB, 6 * GIB)
    assert (second.ram, second.vram, second.warned, second.cards) == (None, None, False, ())
    assert (first.cpu, first.utilisation, share.utilisation) == (150.0, 40.0, 40.0)
    assert (taken.cards[0].memory_used, taken.cards[0].utilisation) == (8 * GIB, 93)
    assert (taken.cards[0].saturation, taken.cards[1].saturation) == (Saturation(sm=0.7), None)
    assert taken.cards[0].verdict is not None
    assert taken.cards[0].verdict.sentence == "Its kernels are small."
    assert taken.cards[1].memory_used is None
    assert taken.notices == ("Mind the gap.", "Something is not known.")
    assert taken.host.cpu == 12.0


@pytest.mark.parametrize(
    ("want", "strangers", "whole", "known"),
    [
        (CardRequest("X", 1), (), 93.0, 93.0),
        pytest.param(CardRequest("X", 1, 6), (), 93.0, None, id="others may have the rest"),
        pytest.param(CardRequest("X", 1), ("python",), 93.0, None, id="a stranger is on it"),
        pytest.param(CardRequest("X", 1, 6), (), 0.0, 0.0, id="nobody does anything"),
    ],
)
def test_without_process_data_a_whole_card_counts_for_its_holder(
    want: CardRequest,
    strangers: tuple[str, ...],
    whole: float,
    known: float | None,
    store: Store,
    enter: Callable[..., None],
) -> None:
    enter("a", want, state="running", started_at=time.time())
    figures = LiveUsage(1.0, HostState(None, None, None), cards={"GPU-0": CardSample("GPU-0", 0, utilisation=whole)})
    devices = (CARDS[0]._replace(strangers=strangers), CARDS[1])
    (seen,) = take_snapshot(store, devices, LabOptions(), TYPES, figures).runtimes
    assert seen.utilisation == known


def test_a_card_that_is_gone(store: Store, enter: Callable[..., None]) -> None:
    enter("a", CardRequest("X", 2), state="running", started_at=time.time())
    taken = take_snapshot(store, CARDS[:1], LabOptions(), TYPES, NOTHING)
    assert [(share.uuid, share.index, share.name) for share in taken.runtimes[0].cards] == [
        ("GPU-0", 0, "X"),
        ("GPU-1", None, "X"),
    ]


def test_an_exhausted_quota_leaves_the_cpu(store: Store, enter: Callable[..., None]) -> None:
    enter("a", CardRequest("X", 1), state="running", started_at=time.time())
    store.add_usage("a", 3600.0, 3600.0, 1.0)
    taken = take_snapshot(store, CARDS, LabOptions(gpu_hours_per_week=1.0), TYPES, NOTHING)
    assert free_types(taken) == ["cpu"]
    assert why_not(taken, "half-x") == "this week's 1 h of card time are used up"


def test_dead_runtimes_are_removed(store: Store, row: Callable[..., RuntimeRow]) -> None:
    lock = store.hold("a")
    store.enqueue(row("a", want=CardRequest("X", 1), state="waiting", boot="another boot"))
    store.acquire("a", CARDS)
    os.close(lock)
    taken = take_snapshot(store, CARDS, LabOptions(), TYPES, NOTHING)
    assert taken.runtimes == ()
    assert free_types(taken) == ["cpu", "1-x", "half-x", "2-x"]


# --- over a real runtime ----------------------------------------------------------------------------------------------


@pytest.fixture
def runtime(lab: Any) -> Iterator[str]:
    Path(lab.environ["OWNLAB_CONFIG"]).write_text("[limits]\nsession_hours = 1\nextend_minutes = 30\n")
    plan = start.make_plan(lab.half, runtime="abcd-1", cwd="/", notebook="work/train.ipynb")
    child = start.start_supervisor(plan, lab.environ)
    start.wait_until_started(plan, 60.0, child)
    yield plan.runtime
    operations.end_runtime(plan, child, "the test is over")


def test_a_runtime_in_the_snapshot(runtime: str, store: Store, until: Callable[..., Any]) -> None:
    devices, types = read_devices(), read_specs(Path(os.environ["OWNLAB_KERNELS"]))
    meter = UsageSampler()

    def look() -> Snapshot | None:
        figures = meter.sample(store.runtimes(), devices)
        taken = take_snapshot(store, devices, resolve_lab_options(), types, figures)
        return taken if taken.runtimes[0].state == "running" and taken.runtimes[0].ends_at else None

    taken = until(look)
    (seen,) = taken.runtimes
    assert (seen.id, seen.notebook, seen.label) == (
        runtime,
        "work/train.ipynb",
        "Python 3 (½ × NVIDIA GeForce GTX 1080 Ti)",
    )
    assert seen.ram is not None
    assert 30 * 1024**2 < seen.ram < GIB
    assert (seen.may_extend, seen.warned, seen.mine) == (True, False, True)
    assert [card.free_parts for card in taken.cards] == [6, 12, 12, 12]
    assert {kind.name for kind in taken.types if not kind.free} == {"ownlab-4-nvidia-geforce-gtx-1080-ti"}


def test_stop_and_extend(runtime: str, store: Store, lab: Any, until: Callable[..., Any]) -> None:
    before = until(lambda: store.runtimes()[0].ends_at)
    answer = extend_runtime(store, "abcd")
    assert answer["ends_at"] == pytest.approx(before + 1800, abs=5)
    assert find_runtime(store, "train.ipynb").id == runtime
    with pytest.raises(LabError, match="There is no runtime other"):
        stop_runtime(store, "other")
    assert stop_runtime(store, "work/train.ipynb").id == runtime
    until(lambda: lab.left() == {})


def test_stop_without_its_folder(
    runtime: str, store: Store, lab: Any, until: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As root for somebody else, or from an account with another OWNLAB_HOME: through the supervisor's process."""
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(LabError, match="from the account"):
        extend_runtime(store, runtime)
    stop_runtime(store, runtime)
    until(lambda: lab.left() == {})


def test_an_ambiguous_name_is_refused(store: Store, enter: Callable[..., None]) -> None:
    enter("abc1")
    enter("abc2")
    with pytest.raises(LabError, match=r"matches several runtimes: abc1 .* and abc2"):
        find_runtime(store, "abc")
    assert find_runtime(store, "abc1").id == "abc1"


def test_a_notebook_is_found_without_its_suffix_if_it_is_the_only_one(store: Store, enter: Callable[..., None]) -> None:
    enter("a", notebook="/lab/Untitled.ipynb")
    enter("b", notebook="/lab/Untitled1.ipynb")
    assert find_runtime(store, "Untitled").id == "a"
    enter("c", notebook="/lab/deep/Untitled.ipynb")
    with pytest.raises(LabError, match=r"matches several runtimes: a .* and c"):
        find_runtime(store, "Untitled")


def test_a_row_with_a_foreign_process_kills_nothing(store: Store, enter: Callable[..., None]) -> None:
    enter("a")  # its row names this very process
    with pytest.raises(LabError, match="its supervisor is not the process that the store names"):
        stop_runtime(store, "a")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_other_users_runtimes_are_not_touched(store: Store, row: Callable[..., RuntimeRow]) -> None:
    lock = store.hold("a")
    store.enqueue(row("a", uid=4711))
    os.seteuid(65534)
    try:
        with pytest.raises(LabError, match="Runtime a belongs to ann; only ann or root may stop it"):
            stop_runtime(store, "a")
        with pytest.raises(LabError, match="only ann or root may extend it"):
            extend_runtime(store, "a")
    finally:
        os.seteuid(0)
        os.close(lock)


def test_a_runtime_that_cannot_write_its_journal_gives_a_notice(
    store: Store, row: Callable[..., RuntimeRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    lock = store.hold("a")
    store.enqueue(row("a", uid=os.geteuid(), lab="somewhere", notebook="/work/train.ipynb"))
    folder = journal_folder("a")
    make_journal_folder(folder)
    for words, reported in (
        ("", ()),
        ("its output cannot be saved: No space left on device", ("train.ipynb: its output",)),
    ):
        write_trouble(folder, words)
        notices = take_snapshot(store, CARDS, LabOptions(), TYPES, NOTHING).notices
        assert tuple(notice[:23] for notice in notices) == reported
    os.close(lock)
