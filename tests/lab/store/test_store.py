"""The life of a runtime in the store: locked, queued, leased, metered, released."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ownlab
from ownlab.errors import CardsTaken, DeviceUnusable, StoreError
from ownlab.lab.store.orphans import boot_id
from ownlab.lab.store.rows import CardRequest, Device, Lease, Process, QueuePosition, RuntimeRow
from ownlab.lab.store.store import Store

KIND = "NVIDIA H200"
ONE = CardRequest(KIND, 1)
NOBODY = Process(2**22 + 1, 1)  # more than any pid: a row that is reaped here must not name this process


def row(runtime: str, want: CardRequest = ONE, **changed: Any) -> RuntimeRow:
    made = RuntimeRow(
        id=runtime,
        uid=1000,
        person="ann",
        lab="0123456789ab",
        notebook="/home/ann/train.ipynb",
        type="ownlab-1-nvidia-h200",
        label="Python 3 (1 × NVIDIA H200)",
        want=want,
        state="waiting",
        queued_at=time.time(),
        started_at=None,
        boot=boot_id(),
        keeper=NOBODY,
        supervisor=NOBODY,
        kernel=None,
        busy=False,
        changed_at=time.time(),
        ends_at=None,
        ends_why="",
        may_extend=True,
        units_per_hour=1.5,
    )
    return made._replace(**changed)


def come(store: Store, runtime: str, want: CardRequest = ONE, **changed: Any) -> int:
    lock = store.hold(runtime)
    store.enqueue(row(runtime, want, **changed))
    return lock


def test_a_row_is_read_back_unchanged(store: Store) -> None:
    for given in (
        row("cpu", CardRequest()),
        row("half", CardRequest(KIND, 1, 6), lab=None, notebook="", kernel=Process(7, 8), busy=True, started_at=5.5),
        row("long", ends_at=9.25, ends_why="idle for 90 min", may_extend=False, notebook="/home/ann/ü ½ 'x'.ipynb"),
    ):
        lock = store.hold(given.id)
        store.enqueue(given)
        assert store.runtimes()[-1] == given
        os.close(lock)


def test_a_cpu_runtime_waits_for_nothing(store: Store) -> None:
    lock = come(store, "cpu", CardRequest())
    assert store.acquire("cpu", []) == ()
    assert store.runtimes()[0].state == "starting"
    assert store.leases() == []
    os.close(lock)


def test_cards_are_leased_in_order_and_released(store: Store, devices: list[Device]) -> None:
    kept = {name: come(store, name) for name in ("a", "b", "c", "d")}
    assert store.acquire("a", devices) == (Lease("a", "GPU-0", 12),)
    waiting = store.acquire("d", devices)
    assert isinstance(waiting, QueuePosition)
    assert waiting.place == 3
    assert "card 0 (NVIDIA H200): ann, train.ipynb, since " in waiting.why
    assert store.acquire("b", devices) == (Lease("b", "GPU-1", 12),)
    assert store.acquire("b", devices) == (Lease("b", "GPU-1", 12),)  # a repeated request gets the same answer
    assert [store.queue_position(name) for name in ("a", "c", "d", "nobody")] == [None, 1, 2, None]
    store.release("a")
    os.close(kept.pop("a"))
    assert isinstance(store.acquire("d", devices), QueuePosition)  # the card is kept for c, who came before
    assert store.acquire("c", devices) == (Lease("c", "GPU-0", 12),)
    assert [row.state for row in store.runtimes()] == ["starting", "starting", "waiting"]
    for lock in kept.values():
        os.close(lock)


def test_fractions_share_a_card_and_whole_requests_do_not(store: Store, devices: list[Device]) -> None:
    kept = [come(store, name, CardRequest(KIND, 1, 6)) for name in ("a", "b", "c")]
    kept.append(come(store, "whole"))
    got = [store.acquire(name, devices) for name in ("a", "b", "c")]
    assert got == [(Lease("a", "GPU-0", 6),), (Lease("b", "GPU-0", 6),), (Lease("c", "GPU-1", 6),)]
    waiting = store.acquire("whole", devices)
    assert isinstance(waiting, QueuePosition)
    assert ", ½, since " in waiting.why
    for lock in kept:
        os.close(lock)


def test_the_queue_does_not_depend_on_the_clock(store: Store, devices: list[Device]) -> None:
    times = {"a": 4e9, "b": 0.0, "c": -5.0, "d": 1e9}  # the clock jumped back and forth between them
    kept = [come(store, name, queued_at=at) for name, at in times.items()]
    served: list[str] = []
    while len(served) < len(times):
        for name in ("d", "c", "b", "a"):
            if name not in served and not isinstance(store.acquire(name, devices), QueuePosition):
                served.append(name)
        for name in served:
            store.release(name)
    assert served == ["b", "a", "d", "c"]  # two cards: a and b have their turns together, then c and d
    for lock in kept:
        os.close(lock)


def test_a_request_that_can_never_be_served_is_refused(store: Store, devices: list[Device]) -> None:
    kept = [come(store, "four", CardRequest(KIND, 4)), come(store, "gone", CardRequest("NVIDIA T4", 1))]
    with pytest.raises(DeviceUnusable, match="This machine has 2 × NVIDIA H200, but 4 were requested"):
        store.acquire("four", devices)
    with pytest.raises(DeviceUnusable, match="This machine has no NVIDIA T4; it has 2 × NVIDIA H200"):
        store.acquire("gone", devices)
    assert store.leases() == []
    for lock in kept:
        os.close(lock)


def test_a_card_in_use_without_a_lease_is_not_leased(store: Store, devices: list[Device]) -> None:
    lock = come(store, "a")
    used = [device._replace(strangers=("python x.py (pid 7) of bob, 12 GiB",)) for device in devices]
    waiting = store.acquire("a", used)
    assert isinstance(waiting, QueuePosition)
    assert "card 1: used without a lease by python x.py (pid 7) of bob, 12 GiB" in waiting.why
    assert store.acquire("a", devices) == (Lease("a", "GPU-0", 12),)
    os.close(lock)


def test_usage_is_added_up(store: Store) -> None:
    lock = come(store, "a")
    store.add_usage("a", 60.0, 30.0, 1.0)
    store.update("a", notebook="/home/ann/renamed.ipynb")
    store.add_usage("a", 1.5, 0.5, 0.25)
    (used,) = store.usage("0000-00-00")
    assert (used.seconds, used.card_seconds, used.units) == (61.5, 30.5, 1.25)
    assert (used.person, used.runtime, used.kind) == ("ann", "a", KIND)
    assert used.notebook == "/home/ann/renamed.ipynb"
    assert used.day == time.strftime("%Y-%m-%d", time.gmtime())
    with pytest.raises(ValueError, match="usage must not be negative"):
        store.add_usage("a", -1.0, 0.0, 0.0)
    store.release("a")
    os.close(lock)
    assert store.usage(used.day) == [used]  # it stays when the runtime has gone
    assert store.usage("9999-01-01") == []


def test_an_exhausted_weekly_quota_gives_no_more_cards(store: Store, devices: list[Device]) -> None:
    kept = [
        come(store, "a"),
        come(store, "b"),
        come(store, "cpu", CardRequest()),
        come(store, "bob", uid=1001, person="bob"),
    ]
    assert store.acquire("a", devices, quota=7200.0)
    store.add_usage("a", 7200.0, 7200.0, 0.0)
    assert store.card_seconds_this_week(1000) == 7200.0
    assert store.card_seconds_this_week(1001) == 0.0
    with pytest.raises(CardsTaken, match=r"ann has used 2\.0 h of card time this week; 2\.0 h are allowed"):
        store.acquire("b", devices, quota=7200.0)
    store.release("b")
    assert store.acquire("cpu", devices, quota=7200.0) == ()
    assert store.acquire("bob", devices, quota=7200.0) == (Lease("bob", "GPU-1", 12),)
    assert store.acquire("a", devices, quota=7200.0) == (Lease("a", "GPU-0", 12),)  # what it has it keeps
    for lock in kept:
        os.close(lock)


def test_rows_are_changed_by_field(store: Store) -> None:
    lock = come(store, "a")
    store.update("a", state="running", kernel=Process(11, 12), busy=True, started_at=3.5)
    (changed,) = store.runtimes()
    assert (changed.state, changed.kernel, changed.busy, changed.started_at) == ("running", Process(11, 12), True, 3.5)
    store.update("a", kernel=None)
    assert store.runtimes()[0].kernel is None
    for wrong in ({"id": "b"}, {"want": CardRequest()}, {"colour": 1}, {}):
        with pytest.raises(ValueError, match="cannot change these fields"):
            store.update("a", **wrong)
    with pytest.raises(StoreError, match="CHECK constraint failed"):
        store.update("a", state="asleep")
    os.close(lock)


def test_an_unknown_runtime_is_an_error(store: Store, devices: list[Device]) -> None:
    for call in (
        lambda: store.update("nobody", busy=True),
        lambda: store.add_usage("nobody", 1.0, 1.0, 1.0),
        lambda: store.acquire("nobody", devices),
    ):
        with pytest.raises(StoreError, match="Runtime nobody is not in the store"):
            call()
    with pytest.raises(StoreError, match="nobody holds its lock"):
        store.enqueue(row("unheld"))
    store.release("nobody")  # gone is gone


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "-x", "a\nb", "a b"])
def test_an_invalid_id_is_refused(store: Store, name: str) -> None:
    with pytest.raises(StoreError, match="is not a valid runtime id"):
        store.hold(name)


def test_a_released_runtime_leaves_nothing(store: Store, folder: Path) -> None:
    lock = come(store, "a")
    assert store.is_alive("a")
    store.release("a")
    os.close(lock)
    assert not store.is_alive("a")
    assert store.runtimes() == []
    assert list((folder / "locks").iterdir()) == []


def test_a_private_store_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o277)  # a umask that would lock its owner out
    try:
        with Store.open(tmp_path / "mine") as store:
            lock = come(store, "a")
    finally:
        os.umask(before)
    folder = tmp_path / "mine"
    modes = {path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes.pop("db") == modes.pop("locks") == 0o700
    assert set(modes.values()) == {0o600}
    os.close(lock)


def test_a_missing_store_is_not_created_unless_requested(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store in"):
        Store.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_a_private_store_has_no_limits_of_its_own(store: Store) -> None:
    assert not store.shared
    assert store.limits() is None


def test_threads_may_share_a_store(store: Store) -> None:
    lock = come(store, "a")

    def work() -> None:
        for _ in range(20):
            store.add_usage("a", 1.0, 0.0, 0.0)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert store.usage("0000-00-00")[0].seconds == 100.0
    os.close(lock)


def test_a_store_must_not_be_used_after_a_fork(folder: Path) -> None:
    script = f"""
import os
from ownlab.errors import StoreError
from ownlab.lab.store.store import Store
store = Store.open({str(folder)!r})
if os.fork() == 0:
    for act in (store.runtimes, lambda: Store.open({str(folder)!r})):
        try:
            act()
        except StoreError as exc:
            print(exc.message, flush=True)
    os._exit(0)
os.wait()
store.close()
if os.fork() == 0:
    print(Store.open({str(folder)!r}).runtimes(), flush=True)
    os._exit(0)
os.wait()
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    first, second, third = ran.stdout.splitlines()
    assert first == second
    assert "close it before the fork" in first
    assert third == "[]"


def test_a_database_that_was_replaced_is_noticed(store: Store, folder: Path) -> None:
    lock = come(store, "a")
    (folder / "db" / "ownlab.db").rename(folder / "db" / "old.db")
    with pytest.raises(StoreError, match="was removed or replaced"):
        store.update("a", busy=True)
    with Store.open(folder), pytest.raises(StoreError, match="was removed or replaced while it was in use"):
        store.update("a", busy=True)
    os.close(lock)


def test_many_processes_open_a_new_store_at_once(folder: Path) -> None:
    script = f"from ownlab.lab.store.store import Store; Store.open({str(folder)!r}).close()"
    opening = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True) for _ in range(8)]
    answer = [process.communicate(timeout=300)[1] for process in opening]
    assert answer == [""] * 8
    assert [path.name for path in (folder / "db").iterdir()] == ["ownlab.db"]


def test_the_store_is_light() -> None:
    source = str(Path(ownlab.__file__).parents[1])
    heavy = ["msgspec", "psutil", "dataclasses", "inspect", "pathlib", "subprocess", "asyncio", "logging"]
    script = f"import sys, ownlab.lab.store.store; print([name for name in {heavy!r} if name in sys.modules])"
    # -S: what a .pth file of this environment imports is none of the store's.
    argv = [sys.executable, "-S", "-c", script]
    ran = subprocess.run(argv, capture_output=True, text=True, env={"PYTHONPATH": source}, timeout=300)
    assert ran.stdout == "[]\n", ran.stderr


def test_dead_runtimes_are_removed(store: Store, devices: list[Device], someone: Callable[..., Any]) -> None:
    ann = someone("ann")
    for name in ("x", "y"):
        ann.ask("come", runtime=name, want=ONE)
        ann.ask("acquire", runtime=name)
    lock = come(store, "mine")
    assert isinstance(store.acquire("mine", devices), QueuePosition)
    ann.die()
    assert store.acquire("mine", devices) == (Lease("mine", "GPU-0", 12),)
    assert [row.id for row in store.runtimes()] == ["mine"]
    os.close(lock)


def test_dead_runtimes_in_the_queue_block_no_other(
    store: Store, devices: list[Device], someone: Callable[..., Any]
) -> None:
    ann = someone("ann")
    ann.ask("come", runtime="big", want=CardRequest(KIND, 2))
    kept = [come(store, "a"), come(store, "b")]
    assert isinstance(store.acquire("a", devices), QueuePosition)
    ann.die()
    assert store.queue_position("b") == 2
    assert store.acquire("a", devices) == (Lease("a", "GPU-0", 12),)
    for lock in kept:
        os.close(lock)


def test_a_successor_with_the_same_id_replaces_a_dead_runtime(
    store: Store, devices: list[Device], someone: Callable[..., Any]
) -> None:
    ann = someone("ann")
    ann.ask("come", runtime="a", want=ONE)
    ann.ask("acquire", runtime="a")
    left = ann.ask("leave", runtime="a", marked=True, session=True)
    ann.die()
    lock = come(store, "a")
    assert not Path(f"/proc/{left}").exists() or "State:\tZ" in Path(f"/proc/{left}/status").read_text()
    assert store.leases() == []
    assert store.acquire("a", devices) == (Lease("a", "GPU-0", 12),)
    os.close(lock)


def test_control_characters_in_names_are_replaced(store: Store) -> None:
    lock = come(store, "a", notebook="caf\udce9\x1b[2J\u202f½.ipynb")
    assert store.runtimes()[0].notebook == "caf?\N{REPLACEMENT CHARACTER}[2J\u202f½.ipynb"
    store.add_usage("a", 1.0, 1.0, 1.0)
    assert store.usage("2000-01-01")[0].notebook == store.runtimes()[0].notebook
    os.close(lock)
