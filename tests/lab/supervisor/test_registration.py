"""Supervisors and a store that is damaged or replaced while they run: they register again and keep their cards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.store.locks_only import open_any
from ownlab.lab.store.rows import CardRequest
from ownlab.lab.store.setup import repair
from ownlab.lab.store.store import Store

KIND = "NVIDIA GeForce GTX 1080 Ti"


def garbage(store: Path) -> None:
    for path in (store / "db").iterdir():
        path.write_bytes(os.urandom(9000))
    repair(store)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "database replaced": garbage,
    "database removed": lambda store: shutil.rmtree(store / "db"),
    "locks removed": lambda store: shutil.rmtree(store / "locks"),
    "store removed": shutil.rmtree,
    "store moved": lambda store: store.rename(store.with_name("elsewhere")),
}


def run(client: Any, code: str) -> None:
    client.execute_interactive(code, timeout=300)


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_a_runtime_registers_again_with_its_cards(bench: Any, waiting: Callable[..., Any], damage: str) -> None:
    first = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:2], notebook="train.ipynb")
    client = first.ready()
    store = bench.folder / "store"
    DAMAGES[damage](store)

    # At once, before the first has registered: it must not get the same card.
    second = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:2])
    assert second.wait("running")["devices"] == ["GPU-1"]

    def registered() -> bool:
        run(client, "1")  # a row is written soon after a cell; without cells, within ten seconds
        with Store.open(store) as opened:
            return opened.has(first.plan.runtime) and opened.is_alive(first.plan.runtime)

    waiting(registered, "it is in the new database, and its lock is held")
    with Store.open(store) as opened:
        leases = {(lease.runtime, lease.device) for lease in opened.leases()}
        assert leases == {(first.plan.runtime, "GPU-0"), (second.plan.runtime, "GPU-1")}
        notebooks = {row.id: row.notebook for row in opened.runtimes()}
        assert notebooks[first.plan.runtime] == "train.ipynb"
        opened.reap()
    assert first.state()["state"] == "running"

    first.ask("end", now=True)
    first.ended()
    with Store.open(store) as opened:
        assert [row.id for row in opened.runtimes()] == [second.plan.runtime]
    assert not (store / "locks" / f"{first.plan.runtime}.lock").exists()


def test_a_waiting_runtime_gets_its_card_from_the_new_database(bench: Any) -> None:
    first = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1])
    first.wait("running")
    second = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1], wait=True)
    second.wait("waiting")
    garbage(bench.folder / "store")
    first.ask("end", now=True)
    first.ended()
    assert second.wait("running")["devices"] == ["GPU-0"]


def test_without_a_store_a_runtime_without_cards_starts_and_registers_later(
    bench: Any, waiting: Callable[..., Any]
) -> None:
    store = bench.folder / "store"
    Store.open(store).close()
    for path in (store / "db").iterdir():
        path.write_bytes(b"damaged " * 1000)
    with_card = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1])
    assert with_card.ended() != 0
    assert "ownlab store repair" in with_card.state()["reason"]

    runtime = bench.start()
    client = runtime.ready()
    run(client, "1")
    assert [row.id for row in open_any(str(store)).runtimes()] == [runtime.plan.runtime]
    repair(store)

    def registered() -> bool:
        run(client, "1")
        with Store.open(store) as opened:
            return bool(opened.has(runtime.plan.runtime))

    waiting(registered, "it registers when that is possible")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", ["a pipe", "a file", "a place where nothing can be created"])
def test_a_store_that_is_no_folder_keeps_no_runtime_without_cards_from_starting(bench: Any, place: str) -> None:
    store = bench.folder / "store"
    if place == "a pipe":
        os.mkfifo(store)
    elif place == "a file":
        store.write_text("")
    else:
        store = Path("/proc/nowhere")
    runtime = bench.start(store=str(store))
    run(runtime.ready(), "1")
    assert "cannot be used" in runtime.log()
    runtime.ask("end", now=True)
    assert runtime.ended() == 0
    assert not runtime.home.exists()
