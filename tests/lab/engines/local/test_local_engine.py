"""The engine of this machine: the conformance suite, and what it alone does."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.engines.conformance import WAITS, EngineConformance, until_printed

from ownlab.errors import UsageError
from ownlab.lab.engines.interface import Engine, JobRequest
from ownlab.lab.engines.local.engine import LocalEngine
from ownlab.lab.runtimes.state import plan_of

if TYPE_CHECKING:
    from tests.command_line import World


class TestLocalEngine(EngineConformance):
    """On four recorded cards."""

    @pytest.fixture
    def new_engine(self, world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Engine]:
        for name in os.environ:
            if name not in world.env:
                monkeypatch.delenv(name)
        for name, value in world.env.items():
            monkeypatch.setenv(name, value)
        return lambda: LocalEngine(dict(world.env))

    def test_several_nodes_need_a_cluster(self, engine: Engine) -> None:
        with pytest.raises(UsageError, match="one node") as caught:
            engine.offers(JobRequest(nodes=2))
        assert "--engine slurm" in caught.value.hint

    def test_the_offer_of_a_request_is_one_type_with_its_cards(self, engine: Engine) -> None:
        (offer,) = engine.offers(JobRequest(gpus=3))
        assert (offer.type.cards, offer.nodes, offer.partition) == (3, 1, "")

    def test_one_is_cancelled_before_its_supervisor_listens(
        self, submit: Any, engine: Engine, reaches: Any, work: Path, until: Callable[..., Any]
    ) -> None:
        """The script runs a moment before: here, as long as something else is in the place of the socket."""
        job = submit(WAITS)
        until_printed(job, "at work")
        plan = plan_of(job.runtime)
        assert plan is not None
        socket = Path(plan.control_endpoint.path)
        until(socket.exists)
        socket.rename(socket.with_suffix(".later"))
        with ThreadPoolExecutor(1) as threads:
            cancelled = threads.submit(engine.cancel, job, "end", "too early")
            wait([cancelled], 1)
            assert not cancelled.done()
            socket.with_suffix(".later").rename(socket)
            cancelled.result(60)
        assert reaches(job, "stopped").reason == "too early"
