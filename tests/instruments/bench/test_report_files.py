"""Reports as files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.instruments.bench.bench_reports import an_h200, report

from ownlab.errors import InputError, LabError, RecordError
from ownlab.instruments.bench.report_files import (
    find_report,
    kept_reports,
    list_reports,
    load_report,
    references,
    save_report,
    where_kept,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_report_comes_back_as_it_was(home: Path) -> None:
    made = report(an_h200())
    path = where_kept(made)
    assert path == home / "bench" / "2026-11-15T22-40-03-h200.json"
    save_report(made, path)
    assert load_report(path) == made
    assert kept_reports() == [path]
    assert find_report("last") == find_report(path.stem) == find_report(str(path)) == made
    assert [each.name for each in list_reports().reports if not each.reference] == [path.stem]


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "mine.json").symlink_to(tmp_path / "elsewhere.json")
    save_report(report(an_h200()), tmp_path / "mine.json")
    assert (tmp_path / "mine.json").is_symlink()
    assert load_report(tmp_path / "elsewhere.json") == report(an_h200())
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    save_report(report([]), tmp_path / "pipe")
    assert os.read(reading, 1 << 16).startswith(b"{")
    os.close(reading)
    assert (tmp_path / "pipe").is_fifo()


def test_a_name_that_nobody_knows(home: Path) -> None:
    save_report(report(an_h200()), where_kept(report([])))
    with pytest.raises(InputError) as raised:
        find_report("2026-11-15T22-40-03-h2O0")
    assert "Did you mean 2026-11-15T22-40-03-h200" in raised.value.hint
    with pytest.raises(InputError, match="cannot be read"):
        find_report("elsewhere/a.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no result of ownlab bench"),
        ("{}", "no result of ownlab bench"),
        ('{"version": 1, "results": [{}]}', "no result of ownlab bench"),
        ('{"version": 9, "results": []}', "format 9"),
        ("\xff\xfe", "no result of ownlab bench"),
    ],
)
def test_files_that_are_damaged(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordError, match=words):
        load_report(tmp_path / "a.json")


@pytest.mark.parametrize("figure", [0, -1, 1e300, 1e-300])
def test_a_figure_that_cannot_be_is_damage(tmp_path: Path, figure: float) -> None:
    save_report(report(an_h200()), tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    document["results"][0]["median"] = figure
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(RecordError, match="zero or less"):
        load_report(tmp_path / "a.json")


def test_folders_that_cannot_be_written(home: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        save_report(report([]), tmp_path / "nowhere" / "a.json")
    home.mkdir(mode=0o700)
    (home / "bench").write_text("in the way")
    with pytest.raises(LabError, match="cannot be made"):
        where_kept(report([]))


def test_the_references_that_came_with_ownlab() -> None:
    assert "epyc-2-cores-vm" in references()
    for name, reference in references().items():
        assert reference.complete, name
        assert reference.when, name
        assert all(measure.verdict != "above-limit" for measure in reference.results), name
        assert all("/home" not in measure.device and "/root" not in measure.device for measure in reference.results)
