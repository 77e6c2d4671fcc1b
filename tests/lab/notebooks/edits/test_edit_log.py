"""The edit log: what was acknowledged is on disk, whatever happens to the process or the file."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.lab.notebooks.edits.test_edited_notebook import notebook, sources, start

from ownlab.lab.notebooks.edits.base import read_base
from ownlab.lab.notebooks.edits.cell import Ran
from ownlab.lab.notebooks.edits.edit_log import EditLog, read_edit_log
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.edits.records import CellPatch, Patch, SourcePatch


def patch(number: int, base: str, text: str, version: int = 0) -> Patch:
    return Patch("n.ipynb", "page", number, version, cells=(CellPatch("a", "code", SourcePatch(text, base)),))


@pytest.fixture
def log(tmp_path: Path) -> EditLog:
    return EditLog(tmp_path / "edits" / "lab.log", start(a="0", b="y"))


def type_numbers(log: EditLog, count: int) -> None:
    for number in range(1, count + 1):
        log.apply(patch(number, str(number - 1), str(number)))


def test_a_log_is_read_as_it_was_written(log: EditLog) -> None:
    assert not log.on_disk
    type_numbers(log, 5)
    log.recover("b", Ran("z", 9e9))
    again = EditLog.open(log.path)
    assert again is not None
    assert again.state == log.state
    assert sources(again.state) == {"a": "5", "b": "z"}
    assert again.state.unsaved
    assert log.path.stat().st_mode & 0o077 == 0
    assert log.path.parent.stat().st_mode & 0o077 == 0


def test_a_saved_log_goes_on_with_its_versions(log: EditLog) -> None:
    type_numbers(log, 2)
    log.state.mark_saved(read_base(notebook(a="2", b="y"), (2, 2)), log.state.version)
    log.write_snapshot()
    again = EditLog.open(log.path)
    assert again is not None
    assert not again.state.unsaved
    assert again.state.version == log.state.version
    again.apply(patch(3, "2", "3"))
    assert read_edit_log(log.path) == again.state


def test_an_acknowledged_patch_is_known_after_a_restart_and_not_applied_again(log: EditLog) -> None:
    log.apply(patch(1, "0", "01"))
    again = EditLog.open(log.path)
    assert again is not None
    again.apply(patch(1, "0", "01"))
    assert sources(again.state)["a"] == "01"


@pytest.mark.parametrize("seed", range(20))
def test_damage_costs_only_what_comes_after_it(log: EditLog, seed: int) -> None:
    type_numbers(log, 20)
    data = log.path.read_bytes()
    chance = random.Random(seed)
    first_line = data.index(b"\n") + 1
    at = chance.randrange(first_line, len(data))
    match chance.randrange(3):
        case 0:
            damaged = data[:at]
        case 1:
            damaged = data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        case _:
            damaged = data[:at] + chance.randbytes(40) + data[at:]
    log.path.write_bytes(damaged)
    whole = data[:at].count(b"\n") - 1  # the patches before the damage
    again = EditLog.open(log.path)
    assert again is not None
    assert whole <= int(sources(again.state)["a"]) <= whole + 1
    before = sources(again.state)["a"]
    again.apply(patch(100, before, "typed afterwards"))
    assert sources(again.state)["a"] == "typed afterwards"
    assert read_edit_log(log.path) == again.state


def test_an_unreadable_log_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    assert EditLog.open(path) is None
    path.write_bytes(b"nonsense\n")
    assert EditLog.open(path) is None
    path.write_bytes(b"")
    assert EditLog.open(path) is None


def test_a_full_disk_changes_nothing(log: EditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.apply(patch(1, "0", "1"))
    before = log.path.read_bytes()
    really_write = os.pwrite

    def half(file: int, data: bytes, offset: int) -> int:
        if len(data) > 10:
            return really_write(file, data[:10], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="No space"):
        log.apply(patch(2, "1", "2"))
    monkeypatch.undo()
    assert log.path.read_bytes() == before
    assert sources(log.state)["a"] == "1"
    log.apply(patch(2, "1", "2"))
    assert read_edit_log(log.path) == log.state


def test_a_long_log_becomes_a_snapshot(log: EditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ownlab.lab.notebooks.edits.edit_log._MAX_BYTES", 2000)
    type_numbers(log, 100)
    assert log.path.stat().st_size < 6000
    assert read_edit_log(log.path) == log.state
    assert isinstance(log.state, EditedNotebook)
