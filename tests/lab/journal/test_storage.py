"""Which journal belongs to which notebook."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from ownlab.errors import LabError
from ownlab.lab.journal.storage import (
    JournalInfo,
    all_journals,
    compacted_name,
    forget_notebook,
    journal_folder,
    journals_folder,
    journals_of_notebook,
    list_journal_files,
    read_journal_info,
    read_saved_position,
    read_trouble,
    remove_journal,
    rename_notebook,
    segment_name,
    write_journal_info,
    write_saved_position,
    write_trouble,
)
from ownlab.text import Text, text


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def put(runtime: str, notebook: str, started_at: float = 0.0) -> JournalInfo:
    about = JournalInfo(runtime, notebook, "lab", "ownlab-cpu", started_at)
    write_journal_info(journal_folder(runtime), about)
    return about


def notebooks() -> dict[str, str]:
    return {about.runtime: about.notebook for about in all_journals()}


def test_reading_creates_nothing(home: Path) -> None:
    assert all_journals() == []
    assert journals_of_notebook("/n.ipynb") == []
    assert read_saved_position(journal_folder("a")) == 0
    assert read_journal_info(journal_folder("a")) is None
    assert list_journal_files(journal_folder("a")) == (0, [])
    assert not home.exists()


def test_journals_are_private(home: Path) -> None:
    put("a", "/n.ipynb")
    for path, mode in [("journals", 0o700), ("journals/a", 0o700), ("journals/a/about.json", 0o600)]:
        assert stat.S_IMODE(os.stat(home / path).st_mode) == mode


def test_the_journals_of_a_notebook_oldest_first() -> None:
    second, first = put("a", "/n.ipynb", 2.0), put("b", "/n.ipynb", 1.0)
    other = put("c", "/other.ipynb", 1.5)
    assert journals_of_notebook("/n.ipynb") == [first, second]
    assert all_journals() == [first, other, second]


def test_a_notebook_is_found_by_each_of_its_paths(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    about = put("a", str(tmp_path / "link" / "n.ipynb"))
    assert journals_of_notebook(str(tmp_path / "real" / "n.ipynb")) == [about]
    assert journals_of_notebook(str(tmp_path / "link" / ".." / "real" / "n.ipynb")) == [about]


def test_an_unreadable_folder_is_not_a_journal() -> None:
    for name, content in [("a", "{"), ("b", "[]"), ("c", "{}"), ("d", "null")]:
        put(name, "/n.ipynb")
        (journal_folder(name) / "about.json").write_text(content)
    (journals_folder() / "e").write_text("a file")
    assert all_journals() == []


def test_a_notebook_is_renamed() -> None:
    put("a", "/w/n.ipynb")
    put("b", "/w/n.ipynb2")
    rename_notebook("/w/n.ipynb", "/w/m.ipynb")
    assert notebooks() == {"a": "/w/m.ipynb", "b": "/w/n.ipynb2"}


def test_a_folder_with_notebooks_is_renamed() -> None:
    put("a", "/w/old/deep/n.ipynb")
    put("b", "/w/older/n.ipynb")
    put("c", "")
    rename_notebook("/w/old", "/v/new")
    assert notebooks() == {"a": "/v/new/deep/n.ipynb", "b": "/w/older/n.ipynb", "c": ""}


def test_a_deleted_notebook_has_no_journals() -> None:
    put("a", "/w/n.ipynb")
    put("b", "/w/folder/n.ipynb")
    put("c", "/w/folders.ipynb")
    forget_notebook("/w/n.ipynb")
    forget_notebook("/w/folder")
    assert notebooks() == {"a": "", "b": "", "c": "/w/folders.ipynb"}
    assert journals_of_notebook("") == []


def test_the_saved_position_never_decreases() -> None:
    put("a", "/n.ipynb")
    folder = journal_folder("a")
    for position, expected in [(5, 5), (3, 5), (9, 9)]:
        write_saved_position(folder, position)
        assert read_saved_position(folder) == expected
    (folder / "held.json").write_text("{")
    assert read_saved_position(folder) == 0


def test_several_threads_of_a_server_may_write_it_at_once() -> None:
    put("a", "/n.ipynb")
    folder = journal_folder("a")
    failed: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for position in range(start, start + 200):
                write_saved_position(folder, position)
        except OSError as exc:
            failed.append(exc)

    threads = [threading.Thread(target=work, args=(start,)) for start in (1, 50, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert set(os.listdir(folder)) == {"about.json", "held.json"}


def test_removing_a_journal_also_removes_leftovers() -> None:
    put("a", "/n.ipynb")
    put("b", "/n.ipynb")
    put("c", "/n.ipynb")
    os.rename(journal_folder("b"), journals_folder() / ".going-b")  # a server was killed while it removed this one
    assert [about.runtime for about in all_journals()] == ["a", "c"]
    remove_journal("a")
    remove_journal("a")
    assert os.listdir(journals_folder()) == ["c"]


@pytest.mark.parametrize("runtime", ["", ".", "..", "a/b", "../x", "a\n", ".going-b"])
def test_an_invalid_id_reaches_no_other_folder(runtime: str) -> None:
    with pytest.raises(LabError, match="not a valid runtime id"):
        journal_folder(runtime)


def test_only_the_journals_own_files_count(tmp_path: Path) -> None:
    for name in [
        segment_name(1),
        segment_name(300),
        segment_name(20),
        compacted_name(19),
        compacted_name(7),
        compacted_name(25) + ".tmp",
        "1.log",
    ]:
        (tmp_path / name).touch()
    assert list_journal_files(tmp_path) == (19, [1, 20, 300])


def test_the_reason_why_a_journal_cannot_be_written_keeps_its_template(tmp_path: Path) -> None:
    write_trouble(tmp_path, text("its output cannot be saved: {reason}", reason="No space left on device"))
    size = (tmp_path / "trouble").stat().st_size
    trouble = read_trouble(tmp_path)
    assert isinstance(trouble, Text)
    assert (trouble.template, trouble) == (
        "its output cannot be saved: {reason}",
        "its output cannot be saved: No space left on device",
    )
    write_trouble(tmp_path, text("its output cannot be saved: {reason}", reason="x" * 400))
    assert read_trouble(tmp_path) == "its output cannot be saved: " + "x" * 400  # no room for the template
    write_trouble(tmp_path, "")
    assert (read_trouble(tmp_path), (tmp_path / "trouble").stat().st_size) == ("", size)
