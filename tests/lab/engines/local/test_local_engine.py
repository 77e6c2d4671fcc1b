"""The engine of this machine: the conformance suite, and what it alone does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.lab.engines.conformance import EngineConformance

from ownlab.errors import UsageError
from ownlab.lab.engines.interface import Engine, Request
from ownlab.lab.engines.local.engine import LocalEngine

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
            engine.offers(Request(nodes=2))
        assert "--engine slurm" in caught.value.hint

    def test_the_offer_of_a_request_is_one_type_with_its_cards(self, engine: Engine) -> None:
        (offer,) = engine.offers(Request(gpus=3))
        assert (offer.type.cards, offer.nodes, offer.partition) == (3, 1, "")
