"""The death of a kernel in its journal: notes in the cells that ran and waited, and sentences that claim only what is known."""

from __future__ import annotations

import json
import signal
from typing import Any

import nbformat
import pytest
from tests.lab.journal.scene import Scene, fold_of

from ownlab.lab.journal.death import Death
from ownlab.lab.journal.records import EVENT, Record
from ownlab.lab.journal.replay import compacted_records
from ownlab.lab.journal.state import JournalState
from ownlab.lab.notebooks.merging import merge_state

KILLED = Death("kernel", signal=9)


def dying() -> Scene:
    """One cell is done, one runs, one waits; then the kernel dies."""
    scene = Scene()
    done, running, _waiting = scene.execute("a"), scene.execute("b"), scene.execute("c")
    scene.finish(done)
    scene.begin(running)
    scene.stream(running, "so far\n")
    scene.event("kernel-ended", why="the kernel died (signal 9)", death=KILLED.dump())
    return scene


def outputs(fold: JournalState) -> dict[str, list[str]]:
    return {
        cell: [one.get("text") or one["ename"] for one in execution.outputs.as_json()]
        for cell, execution in fold.by_cell.items()
    }


def test_the_cells_that_ran_and_waited_say_so() -> None:
    scene = dying()
    fold = fold_of(scene.records)
    assert outputs(fold) == {"a": [], "b": ["so far\n", "KernelDied"], "c": ["NotRun"]}
    assert [fold.by_cell[cell].state for cell in "abc"] == ["done", "cut", "cut"]
    waited = fold.by_cell["c"].outputs.as_json()[0]
    assert waited["evalue"] == "not run: the kernel died"
    # The notes are newer than the last output: a page that saved that one is owed the notes.
    assert fold.by_cell["b"].outputs_at == fold.by_cell["c"].outputs_at == len(scene.records)


def test_a_cell_that_killed_the_kernel_at_once_did_run() -> None:
    """The kernel had no time to say that it is busy."""
    scene = Scene()
    scene.execute("a")
    scene.execute("b")
    scene.event("kernel-ended", why="died", death=KILLED.dump())
    fold = fold_of(scene.records)
    assert outputs(fold) == {"a": ["KernelDied"], "b": ["NotRun"]}
    assert fold.deaths[0].cell == "a"


@pytest.mark.parametrize("lost", ["reply", "idle"])
def test_a_cell_that_had_ended_is_not_the_one_that_died(lost: str) -> None:
    """One of the two messages about its end was lost with the kernel, and so was the start of the next cell."""
    scene = Scene()
    done, _killer, _waiting = scene.execute("a"), scene.execute("b"), scene.execute("c")
    scene.begin(done)
    scene.stream(done, "shown\n")
    if lost == "idle":
        scene.reply(done)
    else:
        scene.idle(done)
    scene.event("kernel-ended", why="died", death=KILLED.dump())
    fold = fold_of(scene.records)
    assert outputs(fold) == {"a": ["shown\n"], "b": ["KernelDied"], "c": ["NotRun"]}
    assert fold.deaths[0].cell == "b"


def test_the_notes_survive_a_new_kernel_until_the_cell_runs_again() -> None:
    scene = dying()
    scene.event("kernel", launch=2)
    assert outputs(fold_of(scene.records))["c"] == ["NotRun"]
    again = scene.execute("b")
    scene.begin(again)
    scene.finish(again)
    assert outputs(fold_of(scene.records)) == {"a": [], "b": [], "c": ["NotRun"]}


def test_the_notes_are_valid_in_a_notebook() -> None:
    fold = fold_of(dying().records)
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": name, "metadata": {}, "source": "", "execution_count": None, "outputs": []}
        for name in "abc"
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    assert merge_state(notebook, fold, 0)
    nbformat.validate(notebook)
    assert cells[1]["outputs"][-1]["ename"] == "KernelDied"


def test_a_pending_clear_does_not_take_the_last_output_with_it() -> None:
    """A progress bar clears with the next output; the note is no progress."""
    scene = Scene()
    running = scene.execute("b")
    scene.begin(running)
    scene.stream(running, "90 %")
    scene.add_message("clear_output", running, {"wait": True})
    scene.event("kernel-ended", why="died", death=KILLED.dump())
    assert outputs(fold_of(scene.records)) == {"b": ["90 %", "KernelDied"]}


def test_an_end_that_somebody_asked_for_leaves_no_note() -> None:
    scene = Scene()
    scene.begin(scene.execute("b"))
    scene.execute("c")
    scene.event("kernel-ended", why="it is being restarted")
    scene.event("kernel", launch=2)
    fold = fold_of(scene.records)
    assert (outputs(fold), fold.deaths) == ({"b": [], "c": []}, [])


def test_a_cell_that_waited_for_the_next_kernel_says_so_if_there_is_none() -> None:
    scene = dying()
    scene.execute("d")
    assert outputs(fold_of(scene.records))["d"] == []
    scene.event("ended", why="the kernel died and was not restarted")
    assert outputs(fold_of(scene.records))["d"] == ["NotRun"]


def test_the_last_death_is_news_until_a_cell_is_executed() -> None:
    scene = dying()
    scene.event("kernel", launch=2)
    death = fold_of(scene.records).last_death
    assert death is not None
    assert (death.cell, death.death) == ("b", KILLED)
    scene.execute("b")
    fold = fold_of(scene.records)
    assert fold.last_death is None
    assert [each.cell for each in fold.deaths] == ["b"]


def test_a_compacted_journal_has_the_same() -> None:
    fold = fold_of(dying().records)
    compacted = fold_of(list(compacted_records(fold)))
    assert outputs(compacted) == outputs(fold)
    assert compacted.deaths == fold.deaths


def test_a_journal_of_a_later_version_is_understood() -> None:
    record = {"event": "kernel-ended", "why": "", "death": {"what": "asteroid", "signal": 9, "more": [1]}}
    scene = Scene()
    scene.begin(scene.execute("a"))
    last = Record(len(scene.records) + 1, EVENT, False, 0.0, (json.dumps(record).encode(),))
    assert outputs(fold_of([*scene.records, last])) == {"a": ["KernelDied"]}


@pytest.mark.parametrize(
    ("death", "words"),
    [
        (Death("kernel", signal=9), "The kernel was killed by signal 9. This is often the system running out of memory"),
        (
            Death("kernel", signal=9, out_of_memory="cgroup", peak_bytes=3 << 29, limit_bytes=2 << 30),
            "(signal 9). It had used up to 1.5 GiB. Its control group (cgroup) may use at most 2 GiB.",
        ),
        (Death("kernel", signal=signal.SIGSEGV), "The kernel crashed with a segmentation fault (signal 11)"),
        (Death("kernel", signal=signal.SIGTERM), "The kernel was ended by signal 15 (SIGTERM), which this lab did not send."),
        (Death("kernel", signal=40), "The kernel was ended by signal 40 (40)"),
        (Death("kernel", exit_code=3), "The kernel's process exited by itself, with exit code 3."),
        (Death("keeper"), "The kernel was ended because its keeper process was killed."),
        (Death("supervisor", signal=9), "its supervisor process was killed by signal 9."),
        (Death("supervisor", signal=6), "its supervisor process died of signal 6 (SIGABRT)."),
        (Death("supervisor", exit_code=1), "its supervisor process failed, with exit code 1."),
        (Death("limit", reason="it was idle for 90 minutes."), "The runtime was ended: it was idle for 90 minutes."),
    ],
)  # fmt: skip
def test_it_is_described_by_what_is_known(death: Death, words: str) -> None:
    assert words in death.summary()
    assert Death.load(json.loads(json.dumps(death.dump()))) == death


def test_memory_is_no_cause_where_a_signal_says_otherwise() -> None:
    assert "memory" not in Death("kernel", signal=11, peak_bytes=1 << 30, machine_bytes=1 << 34).summary()
