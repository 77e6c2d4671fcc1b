"""The lease storm: fifty runtimes at once on four cards, killed at random. OWNLAB_STORM_SECONDS makes it longer."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.store.rows import CardRequest
from ownlab.lab.supervisor.process_tree import identify

KIND = "NVIDIA GeForce GTX 1080 Ti"
KERNEL = Path(__file__).with_name("storm_kernel.py")
SECONDS = float(os.environ.get("OWNLAB_STORM_SECONDS", "0"))
STARTS = 50
KILLS = 25  # in each round; whatever else starts, runs
FOR_EVER = "600"


def start(bench: Any, chance: random.Random) -> Any:
    how_long = f"{chance.uniform(0.05, 0.5):.2f}" if chance.random() < 0.9 else FOR_EVER
    return bench.start(
        argv=[sys.executable, "-S", str(KERNEL), str(bench.folder), how_long, chance.choice(["escapes", "stays"])],
        want=CardRequest(KIND, chance.choice([1, 1, 1, 2])),
        devices=bench.cards,
        wait=chance.random() < 0.95,
    )


def kill_one(runtimes: list[Any], chance: random.Random) -> None:
    """SIGKILL a keeper, a supervisor, a kernel, or several of them at once."""
    state = chance.choice(runtimes).state()
    for who in chance.choice(
        ["keeper", "supervisor", "kernel", "keeper supervisor", "keeper supervisor kernel"]
    ).split():
        process = state.get(who)
        if process and identify(process["pid"]).started == process["started"]:
            try:
                os.kill(process["pid"], signal.SIGKILL)
            except ProcessLookupError:
                continue


def end_those_that_stay(bench: Any, runtimes: list[Any]) -> None:
    """Kernels that would run for ever, once they run: gracefully, through the keeper."""
    for runtime in runtimes:
        if FOR_EVER in runtime.plan.argv and (bench.folder / f"ran-{runtime.plan.runtime}").exists():
            runtime.process.terminate()


def storm(bench: Any, chance: random.Random) -> int:
    """One round, until every process of it is gone; how many must have run."""
    runtimes = [start(bench, chance) for _ in range(STARTS)]
    kills = KILLS
    end = time.monotonic() + 90
    while left := [runtime for runtime in runtimes if runtime.process.poll() is None]:
        assert time.monotonic() < end, [(runtime.state(), runtime.log()) for runtime in left]
        if kills:
            kills -= 1
            kill_one(left, chance)
        else:
            end_those_that_stay(bench, left)
        time.sleep(0.1)
    refused = [runtime for runtime in runtimes if runtime.state()["state"] == "refused"]
    return STARTS - KILLS - len(refused)


@pytest.mark.timeout(SECONDS + 150)
def test_no_card_is_ever_double_booked_or_leaked(bench: Any, waiting: Callable[..., Any], marked: Any) -> None:
    chance = random.Random(20261115)
    end = time.monotonic() + SECONDS
    expected = storm(bench, chance)
    while time.monotonic() < end:
        expected += storm(bench, chance)

    assert [path.name for path in bench.folder.glob("double-booked-*")] == []
    with bench.store as store:
        waiting(lambda: store.reap() is not None and not store.runtimes(), "all rows are cleared")
        assert store.leases() == []
        assert os.listdir(bench.folder / "store" / "locks") == []
    assert len(list(bench.folder.glob("ran-*"))) >= expected > 0
    assert [pid for runtime in bench.started for pid in marked(runtime.plan.runtime)] == []
    last = bench.start(want=CardRequest(KIND, 4), devices=bench.cards)
    assert last.wait("running")["devices"] == [card.uuid for card in bench.cards]
