"""Machines as files: whole, damaged, foreign, of a newer format."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.errors import InputError, RecordError
from ownlab.machine.facts import Known
from ownlab.machine.recorded import load_machine, save_machine
from ownlab.machine.records import Card, Machine

MACHINE = Machine(cards=Known((Card(vendor="nvidia", index=0, memory_total=Known(80 * 1024**3, "NVML", "B")),), "NVML"))


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    save_machine(MACHINE, tmp_path / "m.json")
    assert load_machine(tmp_path / "m.json") == MACHINE


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        save_machine(MACHINE, tmp_path / "no-folder" / "m.json")
    (tmp_path / "m.json").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        save_machine(MACHINE, tmp_path / "m.json")
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": "one"}',
        '{"format": 1, "cards": {"state": "known", "value": 3, "source": ""}}',
        "PyTorch",
    ],
)
def test_what_is_no_machine_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(RecordError, match="is not a saved machine"):
        load_machine(tmp_path / "m.json")


def test_a_newer_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"format": 99}')
    with pytest.raises(RecordError, match="has format 99"):
        load_machine(tmp_path / "m.json")


def test_a_field_of_a_newer_ownlab_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"format": 1, "moon": 1}')
    assert load_machine(tmp_path / "m.json") == Machine()


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file") as caught:
        load_machine(tmp_path / "none.json")
    assert "ownlab machine --save" in caught.value.hint
