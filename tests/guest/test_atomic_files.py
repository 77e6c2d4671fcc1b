"""Files of guest code that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab_guest.atomic_files import replace_durably, replace_file


@pytest.mark.parametrize("replace", [replace_file, replace_durably])
def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path, replace: object) -> None:
    assert callable(replace)
    path = tmp_path / "a.json"
    for content in (b"one", b"two"):
        replace(str(path), content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["a.json"]


def test_text_is_utf_8_and_may_have_surrogates(tmp_path: Path) -> None:
    replace_file(str(tmp_path / "a"), "é \udcff")
    assert (tmp_path / "a").read_bytes() == "é ?".encode()


def test_a_file_that_cannot_be_replaced_leaves_no_part(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        replace_file(str(tmp_path / "folder"), b"content")
    assert os.listdir(tmp_path) == ["folder"]


def test_what_an_interruption_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"a longer part of something")
    replace_durably(str(tmp_path / "a"), b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["a"]
