"""Machine files: complete, damaged, foreign, of a newer format."""

from __future__ import annotations

import os
import pty
import stat
import tty
from pathlib import Path

import pytest

from ownlab.errors import InputError, RecordError
from ownlab.machine.facts import Known
from ownlab.machine.machine_file import decode_machine, encodable, load_machine, save_machine
from ownlab.machine.records import Card, Interpreter, Machine, Variable
from ownlab.processes.background import BackgroundCall

MACHINE = Machine(cards=Known((Card(vendor="nvidia", index=0, memory_total=Known(80 * 1024**3, "NVML", "B")),), "NVML"))


def test_a_saved_machine_is_loaded(tmp_path: Path) -> None:
    save_machine(MACHINE, tmp_path / "m.json")
    assert load_machine(tmp_path / "m.json") == MACHINE


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot write"):
        save_machine(MACHINE, tmp_path / "no-folder" / "m.json")
    (tmp_path / "m.json").mkdir()
    with pytest.raises(InputError, match="Cannot write"):
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
def test_data_that_is_not_a_machine_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(RecordError, match="is not a saved machine"):
        load_machine(tmp_path / "m.json")


def test_a_newer_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"format": 99}')
    with pytest.raises(RecordError, match="has format 99"):
        load_machine(tmp_path / "m.json")


def test_a_field_of_a_newer_ownlab_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"format": 1, "moon": 1}')
    assert load_machine(tmp_path / "m.json") == Machine()


def test_a_missing_file_names_the_command_that_saves_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist") as caught:
        load_machine(tmp_path / "none.json")
    assert "ownlab machine --save" in caught.value.hint


# --- where it is saved ------------------------------------------------------------------------------------------------


def test_a_link_is_kept_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("m.json")
    save_machine(MACHINE, tmp_path / "link.json")  # it leads to nothing yet
    save_machine(MACHINE, tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert not (tmp_path / "m.json").is_symlink()
    assert load_machine(tmp_path / "m.json") == MACHINE


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = BackgroundCall(pipe.read_bytes)
    save_machine(MACHINE, pipe)
    assert decode_machine(read.result(within=10), "pipe") == MACHINE
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    tty.setraw(end)
    name = os.ttyname(end)
    save_machine(Machine(), name)
    assert stat.S_ISCHR(os.stat(name).st_mode)
    assert os.read(terminal, 10).startswith(b"{")
    os.close(terminal)
    os.close(end)


def test_a_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_machine(MACHINE, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o664)
    save_machine(MACHINE, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


# --- bytes that are no text -------------------------------------------------------------------------------------------


def test_a_file_that_is_not_utf_8_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(b'{"format": 1, "origin": "\xff"}')
    with pytest.raises(RecordError, match="is not a saved machine"):
        load_machine(tmp_path / "m.json")


def test_bytes_that_json_cannot_represent_are_replaced_everywhere() -> None:
    spoilt = Machine(
        interpreter=Interpreter(path=Known("/env\udcff/python", "PATH\udcff")),
        environment=Known((Variable("LD_LIBRARY_PATH", "/lib\udcff", "é \udcff"),), "environment"),
    )
    repaired = encodable(spoilt)
    assert repaired.interpreter.path == Known("/env?/python", "PATH?")
    assert repaired.environment == Known((Variable("LD_LIBRARY_PATH", "/lib?", "é ?"),), "environment")
    assert encodable(MACHINE) is MACHINE
