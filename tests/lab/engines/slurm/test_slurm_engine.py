"""The engine of Slurm on a real cluster: the conformance suite, and what it alone does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.lab.engines.conformance import EngineConformance

from ownlab.lab.engines.interface import Engine
from ownlab.lab.engines.slurm.engine import SlurmEngine

if TYPE_CHECKING:
    from tests.command_line import World


class TestSlurmEngine(EngineConformance):
    """On the partition with one node of four GPUs."""

    @pytest.fixture
    def new_engine(self, member: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Engine]:
        monkeypatch.setenv("OWNLAB_SLURM_PARTITION", "one")
        member.env["OWNLAB_SLURM_PARTITION"] = "one"
        return lambda: SlurmEngine(dict(member.env))
