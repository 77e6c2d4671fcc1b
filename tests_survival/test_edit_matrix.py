"""A few notebooks that people edit under random interruptions; `python -m tests_survival.edits.matrix` has thousands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests_survival.edits.document import code_cell
from tests_survival.edits.ledger import PROGRAM, Change, Execution, Ledger, view_of
from tests_survival.edits.matrix import EditMatrix
from tests_survival.edits.oracle import judge
from tests_survival.edits.simulation import simulate
from tests_survival.matrix import Outcome

SEEDS = (4, 11, 101, 119)
SIMULATED = (86, 2018, 2139, 2149, 2169, 5130, 6004, 6009, 6141, 9552, 10153, 11056, 40063, 80182, 100422)
SIMULATED_SLOW = (1108, 1154, 3221, 3239, 3252, 3270, 30277, 200199, 200392)


@pytest.fixture
def matrix(tmp_path: Path) -> Iterator[EditMatrix]:
    made = EditMatrix(tmp_path / "lab")
    try:
        made.start()
        yield made
    finally:
        made.clear()


async def run(matrix: EditMatrix) -> list[Outcome]:
    try:
        return await matrix.batch(SEEDS, most=3)
    finally:
        await matrix.leave()


def test_no_code_is_lost_or_doubled(matrix: EditMatrix) -> None:
    outcomes = asyncio.run(run(matrix))
    wrong = [(outcome.seed, outcome.happened, outcome.faults) for outcome in outcomes if outcome.faults]
    assert not wrong


@pytest.mark.parametrize("seed", SIMULATED)
def test_no_code_is_lost_or_doubled_in_virtual_time(seed: int) -> None:
    """Seeds that once went wrong, and with other changes of the code become others."""
    outcome = simulate(seed)
    assert not outcome.faults, outcome.happened


@pytest.mark.parametrize("seed", SIMULATED_SLOW)
def test_no_code_is_lost_or_doubled_if_answers_take_seconds(seed: int) -> None:
    outcome = simulate(seed, slow=True)
    assert not outcome.faults, outcome.happened


def notebook(*lines: str, shown: str = "") -> dict[str, object]:
    cell = code_cell("a", "\n".join(lines))
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": shown}] if shown else []
    return {"cells": [cell]}


def ledger() -> Ledger:
    """One page typed t2, which the server acknowledged, and ran the cell."""
    before, after = (view_of([code_cell("a", text)]) for text in ("print('t1')", "print('t1')\nprint('t2')"))
    made = Ledger(before)
    made.changes.append(Change("page", 1, {"a": 1}, before, after, {"a": 1.0}, version=2, sent=True))
    made.executions.append(Execution("page", "a", "print('t1')\nprint('t2')", "message", 2, True, at=2.0, ended=True))
    return made


@pytest.mark.parametrize(
    ("lines", "shown", "fault"),
    [
        (("print('t1')", "print('t2')"), "t1\nt2\n", ""),
        (("print('t1')",), "", "lost: t2"),
        (("print('t1')", "print('t2')", "print('t2')"), "", "doubled: t2"),
        (("print('t1')", "print('t2')", "print('t3')"), "t1\nt2\n", "output of other code"),
        (("print('t1')", "print('t2')"), "t1\n", "only ['t1']"),
        (("print('t1')", "print('t2')"), "t1\nt2\nt2\n", "twice"),
    ],
)
def test_the_oracle_finds_what_is_wrong(lines: tuple[str, ...], shown: str, fault: str) -> None:
    faults = judge(ledger(), notebook(*lines, shown=shown), {"t1"})
    assert bool(faults) == bool(fault)
    assert not fault or any(fault in found for found in faults)


@pytest.mark.parametrize(("sent_later", "fault"), [(False, False), (True, True)])
def test_lines_of_cells_that_a_page_joined_may_be_there_twice_only_if_it_was_gone_before_it_sent_that(
    sent_later: bool, fault: bool
) -> None:
    """It ran the joined cell, and the code that ran was recovered."""
    cells = [code_cell("a", "print('t1')"), code_cell("b", "print('t2')")]
    joined = "print('t1')\nprint('t2')"
    made = Ledger(view_of(cells))
    made.executions.append(Execution("page", "a", joined, "message", 1, False, at=2.0))
    made.recovered.append({"cell": "a", "other": "print('t1')", "at": 2.0})
    if sent_later:
        made.changes.append(
            Change("page", 1, {}, view_of(cells), view_of(cells), {}, made_at=3.0, version=2, sent=True)
        )
    found = judge(made, {"cells": [code_cell("a", joined), cells[1]]}, {"t1", "t2"})
    assert bool(found) == fault
    assert all("doubled: t2" in each for each in found)


@pytest.mark.parametrize(("ran_with_it", "fault"), [(False, False), (True, True)])
def test_a_page_may_have_run_a_cell_before_it_got_a_line_of_another_program(ran_with_it: bool, fault: bool) -> None:
    """The output is that of the cell without the line. It may not vanish from the cell that was run with it."""
    first, later = [code_cell("a", "print('t1')")], [code_cell("a", "print('t3')\nprint('t1')")]
    made = Ledger(view_of(first))
    made.changes.append(Change(PROGRAM, 0, {}, view_of(first), view_of(later), {}, made_at=1.0, version=0, sent=True))
    code = (later if ran_with_it else first)[0]["source"]
    made.executions.append(Execution("page", "a", code, "message", 0, True, at=2.0, ended=True))
    lines, shown = (("print('t1')",), "t3\nt1\n") if ran_with_it else (("print('t3')", "print('t1')"), "t1\n")
    found = judge(made, notebook(*lines, shown=shown), {"t1", "t3"})
    assert any("output of other code" in each for each in found) == fault
