"""Report files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.instruments.bench.bench_reports import an_h200, report

from ownlab.errors import InputError, LabError, RecordError
from ownlab.instruments.bench.report_files import (
    find_report,
    list_reports,
    load_report,
    new_report_path,
    references,
    save_report,
    saved_reports,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_report_is_read_back_unchanged(home: Path) -> None:
    made = report(an_h200())
    path = new_report_path(made)
    assert path == home / "bench" / "2026-11-15T22-40-03-h200.json"
    save_report(made, path)
    assert load_report(path) == made
    assert saved_reports() == [path]
    assert find_report("last") == find_report(path.stem) == find_report(str(path)) == made
    assert [entry.name for entry in list_reports().reports if not entry.reference] == [path.stem]


def test_links_and_pipes_are_written_to(tmp_path: Path) -> None:
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


def test_an_unknown_name_suggests_the_nearest(home: Path) -> None:
    save_report(report(an_h200()), new_report_path(report([])))
    with pytest.raises(InputError) as raised:
        find_report("2026-11-15T22-40-03-h2O0")
    assert "Did you mean 2026-11-15T22-40-03-h200" in raised.value.hint
    with pytest.raises(InputError, match="does not exist"):
        find_report("elsewhere/a.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a result of ownlab bench"),
        ("{}", "not a result of ownlab bench"),
        ('{"version": 1, "results": [{}]}', "not a result of ownlab bench"),
        ('{"version": 9, "results": []}', "format 9"),
        ("\xff\xfe", "not a result of ownlab bench"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(RecordError, match=message):
        load_report(tmp_path / "a.json")


@pytest.mark.parametrize("value", [0, -1, 1e300, 1e-300])
def test_impossible_values_are_damage(tmp_path: Path, value: float) -> None:
    save_report(report(an_h200()), tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    document["results"][0]["median"] = value
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(RecordError, match="impossible value"):
        load_report(tmp_path / "a.json")


def test_unwritable_folders_are_errors(home: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot write"):
        save_report(report([]), tmp_path / "nowhere" / "a.json")
    home.mkdir(mode=0o700)
    (home / "bench").write_text("in the way")
    with pytest.raises(LabError, match="Cannot create"):
        new_report_path(report([]))


def test_the_reference_results_are_valid() -> None:
    assert "epyc-2-cores-vm" in references()
    for name, reference in references().items():
        assert reference.complete, name
        assert reference.when, name
        assert all(measure.verdict != "above-limit" for measure in reference.results), name
        assert all("/home" not in measure.device and "/root" not in measure.device for measure in reference.results)
