"""The one atomic writer."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from ownlab.atomic_files import Content, replace_file, write_file
from ownlab.errors import InputError


@pytest.mark.parametrize("content", ["é\n", "é\n".encode(), lambda file: file.write("é\n".encode())])
def test_content_is_text_bytes_or_a_function(tmp_path: Path, content: Content) -> None:
    replace_file(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == "é\n".encode()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "a", fail)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_an_interrupted_write_left_is_replaced_and_a_link_there_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "new").symlink_to(tmp_path / "target")
    replace_file(tmp_path / "a", "content", temporary=str(tmp_path / "new"), durable=True)
    assert (tmp_path / "target").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["a", "target"]


def test_readers_never_see_a_part(tmp_path: Path) -> None:
    path, whole = tmp_path / "a", {"x" * 100_000, "y" * 100_000}
    replace_file(path, "x" * 100_000)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for content in whole:
                replace_file(path, content)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert all(path.read_text() in whole for _ in range(200))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_that_a_person_named_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)


def test_a_folder_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot write .*missing/a: No such file or directory"):
        write_file(tmp_path / "missing" / "a", b"")
