"""What is deleted with a runtime: its /content, and the packages that its notebook installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.errors import LabError
from ownlab.lab.runtimes.content_files import mark_content, remove_old_content
from ownlab.lab.runtimes.runtime_removal import delete_content_after_end, find_removable, measure_content

RUNTIME = "0b5d4a3e-0000-4000-8000-000000000001"


@pytest.fixture
def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The /content of a runtime that has ended."""
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path))
    folder = tmp_path / "content" / RUNTIME
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.bin").write_bytes(b"x" * 1000)
    (folder / "b.txt").write_text("hello", encoding="utf-8")
    return folder


def test_what_would_be_deleted_is_counted_without_leaving_the_folder(content: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "big").write_bytes(b"x" * 10_000)
    (content / "link").symlink_to(tmp_path / "elsewhere")
    measured = measure_content(RUNTIME)
    assert (measured.content, measured.files, measured.complete) == (True, 3, True)
    assert 1005 <= measured.size < 2000
    assert not measure_content("0b5d4a3e-0000-4000-8000-000000000002").content


def test_content_of_an_ended_runtime_is_deleted_and_nothing_else(content: Path, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere.txt"
    kept.write_text("kept", encoding="utf-8")
    (content / "link.txt").symlink_to(kept)
    assert delete_content_after_end(RUNTIME)
    assert not content.exists()
    assert kept.read_text(encoding="utf-8") == "kept"
    assert not delete_content_after_end(RUNTIME)  # there is nothing left


def test_a_server_that_ends_before_leaves_the_deletion_to_the_next_one(content: Path) -> None:
    assert remove_old_content(7) == []
    assert mark_content(RUNTIME)
    assert remove_old_content(7) == [RUNTIME]
    assert not content.exists()


def test_packages_of_an_unknown_type_are_refused() -> None:
    with pytest.raises(LabError, match="no runtime type nowhere"):
        find_removable((), "nowhere", ["einops==0.8.1"])
