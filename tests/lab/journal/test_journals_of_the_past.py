"""Journals that earlier versions have written are read without a difference. `past/` was made by ownlab before gaps were kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ownlab.lab.journal.compaction import compact
from ownlab.lab.journal.reader import Tail
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import read_journal_info, read_saved_position
from ownlab.lab.journal.writer import JournalWriter

PAST = Path(__file__).parent / "past"


def read(folder: Path) -> JournalState:
    state, tail = JournalState(), Tail(folder)
    for record in tail.read(final=True):
        state.add(record)
    assert tail.unread_bytes == 0
    tail.close()
    return state


def cells(state: JournalState) -> dict[str, object]:
    return {cell: [each.state, each.execution_count, each.outputs.as_json()] for cell, each in state.by_cell.items()}


@pytest.mark.parametrize("name", ["plain", "compacted"])
def test_a_journal_of_the_past(tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(PAST / name, tmp_path / name))
    expected = json.loads((folder / "expected.json").read_text())
    assert sum(len(str(outputs)) for _, _, outputs in expected.values()) > 1000
    state = read(folder)
    assert cells(state) == expected
    assert not state.gaps.any
    info = read_journal_info(folder)
    assert info is not None
    assert (info.notebook, info.last, read_saved_position(folder)) == ("/home/ada/train.ipynb", 0, 5)
    # A supervisor of today continues it, and it is compacted again.
    writer = JournalWriter(str(folder))
    assert writer.last == state.position
    writer.close()
    compact(folder, 256 << 20)
    assert cells(read(folder)) == expected
