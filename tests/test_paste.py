"""Pasted text: files and standard input are read, encodings are recognized, and what pasting adds is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ownlab.errors import InputError
from ownlab.paste import LIMIT, clean, decode, read_file

# --- decoding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF\x02\x01\x01\x00\x00", bytes(range(256)) * 40, b"\x89PNG\r\n\x1a\n" + bytes(200), "PyTorch\x00version"],
)
def test_binary_data_is_rejected(data: bytes | str) -> None:
    with pytest.raises(InputError, match=r"core\.1234 is not text"):
        decode(data, "core.1234")


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "latin-1"]
)
def test_encodings_are_recognized(encoding: str) -> None:
    words = {"gb18030": "错误", "latin-1": "é"}.get(encoding, "错误 é")
    text = f"RuntimeError: CUDA {words}\n"
    assert decode(text.encode(encoding), "pasted text") == text


def test_a_character_cut_in_two_at_the_end_does_no_harm() -> None:
    assert decode("RuntimeError: CUDA 错误".encode()[:-1], "pasted text") == "RuntimeError: CUDA 错"


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_are_read_or_rejected_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "paste.txt"
    path.write_text("CUDA error: x")
    assert read_file(str(path)) == b"CUDA error: x"
    with pytest.raises(InputError, match="is a folder"):
        read_file(str(tmp_path))
    with pytest.raises(InputError, match="does not exist"):
        read_file(str(tmp_path / "none"))
    with pytest.raises(InputError, match="cannot be read"):
        read_file("a\0b")


def test_standard_input_is_read() -> None:
    program = "import sys; from ownlab.paste import read_file; sys.stdout.buffer.write(read_file('-'))"
    ran = subprocess.run(
        [sys.executable, "-c", program], input=b"CUDA \xff", capture_output=True, check=True, timeout=300
    )
    assert ran.stdout == b"CUDA \xff"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(InputError, match="no permission to read"):
        read_file(str(path))


def test_text_above_the_limit_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.truncate(LIMIT + 2**20)
    with pytest.raises(InputError, match="larger than 50 MiB") as failure:
        read_file(str(path))
    assert "grep" in failure.value.hint
    with pytest.raises(InputError, match="larger than 50 MiB"):
        decode("x" * (LIMIT + 2**20), "pasted text")


# --- cleaning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pasted", "shown"),
    [
        ("\x1b[32mok\x1b[0m", "ok"),
        ("[1;32mok[0m", "ok"),
        ("> > quoted", "quoted"),
        (">>> prompt", ">>> prompt"),
        ("```shell", ""),
        ("a &lt; b", "a < b"),
        ("non\xa0breaking", "non breaking"),
        ("“curly”", '"curly"'),
    ],
)
def test_what_pasting_adds_is_removed(pasted: str, shown: str) -> None:
    assert clean(pasted).shown == [shown]


@pytest.mark.parametrize(
    "prefix",
    ["2026-11-15T02:38:37Z ", "[12:00:01] [train] ", "[   12.345678] ", "[rank0]: ", "(Worker pid=123) ", "web-1  | "],
)
def test_prefixes_of_logs_are_shown_but_not_bare(prefix: str) -> None:
    lines = clean(f"{prefix}CUDA error")
    assert lines.shown == [f"{prefix}CUDA error"]
    assert lines.bare == ["CUDA error"]


def test_line_numbers_are_removed_only_when_every_line_has_one() -> None:
    assert clean("1: a\n2: b\n3: c").shown == ["a", "b", "c"]
    assert clean("1: a\nb\n3: c").shown == ["1: a", "b", "3: c"]
