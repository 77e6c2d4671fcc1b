"""A few notebooks on nodes of a real cluster under random faults; `python -m tests_survival.nodes.matrix` has hundreds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.lab.engines.slurm.cluster import missing
from tests.lab.engines.slurm.node_namespaces import lacking
from tests_survival.matrix import Outcome
from tests_survival.nodes.ends import plan_end
from tests_survival.nodes.matrix import NodeMatrix

SEEDS = (9, 11)  # the line, twice; the server
ENDED = (7, 8)  # the nodes lose their power while nobody listens


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeMatrix]:
    reason = missing() or lacking()
    if reason:
        pytest.skip(reason)
    made = NodeMatrix(tmp_path_factory.mktemp("nodes") / "lab")
    try:
        yield made.start()
    finally:
        made.clear()


def run(matrix: NodeMatrix, work: Callable[[], Awaitable[list[Outcome]]]) -> list[tuple[int, list[str], list[str]]]:
    """What went wrong."""

    async def run_and_leave() -> list[Outcome]:
        try:
            return await work()
        finally:
            await matrix.leave()
            matrix.connect_again()

    return [(each.seed, each.happened, each.faults) for each in asyncio.run(run_and_leave()) if each.faults]


def test_nothing_is_lost_or_doubled_on_nodes(matrix: NodeMatrix) -> None:
    assert not run(matrix, lambda: matrix.batch(SEEDS, most=3))


def test_what_was_written_is_shown_when_nodes_fail(matrix: NodeMatrix) -> None:
    assert plan_end(ENDED[0])[:2] == ("power", True)
    assert not run(matrix, lambda: matrix.ended(ENDED))
