"""Runtimes that wait for a card: they start by themselves, in order, and messages to them are not lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from tests.lab.kernel_replies import reply_to

from ownlab.lab.store.rows import CardRequest

KIND = "NVIDIA GeForce GTX 1080 Ti"


def test_the_second_waits_and_starts_when_the_first_ends(bench: Any) -> None:
    first = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1], notebook="train.ipynb")
    first.ready()
    second = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1], wait=True)
    state = second.wait("waiting")
    assert (state["place"], state["devices"], state["kernel"]) == (1, [], None)
    assert "train.ipynb" in state["reason"]
    client = second.client()
    request = client.execute("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")

    first.ask("end", now=True)

    assert reply_to(client, request)["content"]["status"] == "ok"
    assert second.wait("running")["devices"] == ["GPU-0"]
    assert second.state()["place"] is None


def test_a_runtime_that_may_not_wait_is_refused(bench: Any) -> None:
    first = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1], notebook="train.ipynb")
    first.wait("running")
    second = bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1])

    assert second.ended() != 0

    assert second.state()["state"] == "refused"
    assert "train.ipynb" in second.state()["reason"]
    with bench.store as store:
        assert [row.id for row in store.runtimes()] == [first.plan.runtime]


def test_an_impossible_request_is_refused(bench: Any) -> None:
    runtime = bench.start(want=CardRequest("NVIDIA H200", 1), devices=bench.cards, wait=True)

    assert runtime.ended() != 0
    assert runtime.state()["state"] == "refused"
    assert "NVIDIA H200" in runtime.state()["reason"]


def test_a_waiting_runtime_can_be_ended_in_every_way(bench: Any) -> None:
    bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1]).wait("running")
    asked, shut, orphaned = (
        bench.start(want=CardRequest(KIND, 1), devices=bench.cards[:1], wait=True, detached=detached)
        for detached in (True, True, False)
    )
    for runtime in (asked, shut, orphaned):
        runtime.wait("waiting")

    asked.ask("end")
    client = shut.client()
    client.shutdown(restart=False)
    orphaned.process.stdin.close()

    assert [runtime.ended() for runtime in (asked, shut, orphaned)] == [0, 0, 0]


def test_cards_are_read_again_while_it_waits(bench: Any, waiting: Callable[..., Any]) -> None:
    """A stranger's process keeps a card from being given away until it has gone."""
    stranger = bench.cards[0]._replace(strangers=("python train.py (pid 4711) of ann, 9 GiB",))
    free = json.dumps([bench.cards[0]._asdict()])
    runtime = bench.start(
        want=CardRequest(KIND, 1), devices=(stranger,), wait=True, probe=[sys.executable, "-c", f"print({free!r})"]
    )
    assert "train.py" in runtime.wait("waiting")["reason"]

    assert runtime.wait("running")["devices"] == ["GPU-0"]
