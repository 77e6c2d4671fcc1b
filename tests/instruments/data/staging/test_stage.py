"""Staged copies: exact, resumed, brought up to date, and removed only to make room, only ours, only unused."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.command_line import Ownlab

from ownlab.errors import InputError
from ownlab.instruments.data.staging.copying import CopyJob, copy_files
from ownlab.instruments.data.staging.pipeline import list_data_sets, stage, unstage
from ownlab.instruments.data.staging.records import StageReport
from ownlab.instruments.data.staging.source_tree import list_source
from ownlab.instruments.data.staging.store import StageStore

Until = Callable[..., object]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A scratch disk with room for 10 MB."""
    (tmp_path / "home").mkdir()
    own = {"OWNLAB_HOME": str(tmp_path / "home"), "OWNLAB_DATA_STAGE_FOLDER": str(tmp_path / "scratch")}
    return own | {
        "OWNLAB_DATA_STAGE_GB": "0.01",
        "OWNLAB_CONFIG": str(tmp_path / "config.toml"),
        "PATH": os.environ["PATH"],
    }


def make_source(folder: Path, seed: int = 1, size: int = 2_000_000) -> Path:
    rng = random.Random(seed)
    (folder / "a/b").mkdir(parents=True)
    for n in range(20):
        (folder / f"a/{n}.bin").write_bytes(rng.randbytes(size // 40))
    (folder / "a/b/large.bin").write_bytes(rng.randbytes(size // 2))
    (folder / "empty").write_bytes(b"")
    (folder / "tool.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o755)
    (folder / "数据.txt").write_text("x")
    with open(os.path.join(os.fsencode(folder), b"latin-\xe9"), "wb") as file:
        file.write(b"1")
    return folder


def content(folder: str | Path) -> dict[bytes, bytes]:
    base = os.fsencode(folder)
    return {
        os.path.relpath(os.path.join(where, name), base): Path(os.fsdecode(os.path.join(where, name))).read_bytes()
        for where, _, names in os.walk(base)
        for name in names
    }


def staged(source: Path, environ: dict[str, str]) -> StageReport:
    return stage(str(source), lambda progress: None, environ)


def test_a_folder_is_copied_exactly(tmp_path: Path, environ: dict[str, str]) -> None:
    source = make_source(tmp_path / "source")
    report = staged(source, environ)
    assert content(report.path) == content(source)
    assert Path(report.path).name == "source"
    assert os.access(f"{report.path}/tool.sh", os.X_OK)
    assert staged(source, environ).copied == 0


def test_a_file_is_copied(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "train.tar").write_bytes(os.urandom(100_000))
    report = staged(tmp_path / "train.tar", environ)
    assert Path(report.path).read_bytes() == (tmp_path / "train.tar").read_bytes()
    assert Path(report.path).name == "train.tar"


def test_changes_of_the_source_arrive(tmp_path: Path, environ: dict[str, str]) -> None:
    source = make_source(tmp_path / "source")
    staged(source, environ)
    (source / "a/1.bin").write_bytes(b"new content")
    (source / "a/2.bin").unlink()
    (source / "new").write_bytes(b"new")
    report = staged(source, environ)
    assert report.copied == len(b"new content") + 3
    assert content(report.path) == content(source)


def test_a_damaged_copy_is_repaired(tmp_path: Path, environ: dict[str, str]) -> None:
    source = make_source(tmp_path / "source")
    report = staged(source, environ)
    os.truncate(f"{report.path}/a/3.bin", 10)
    os.unlink(f"{report.path}/a/4.bin")
    staged(source, environ)
    assert content(report.path) == content(source)


def test_links_are_followed_and_loops_end(tmp_path: Path, environ: dict[str, str]) -> None:
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    (source / "d/file").write_bytes(b"1")
    (source / "d/up").symlink_to(source)
    (source / "link").symlink_to(source / "d/file")
    (source / "broken").symlink_to("nowhere")
    os.mkfifo(source / "pipe")
    assert content(staged(source, environ).path) == {b"d/file": b"1", b"link": b"1"}


def test_the_least_recently_used_copy_makes_room(tmp_path: Path, environ: dict[str, str]) -> None:
    sources = [make_source(tmp_path / f"s{n}", seed=n, size=4_000_000) for n in range(3)]
    reports = [staged(source, environ) for source in sources[:2]]
    staged(sources[0], environ)  # used again
    third = staged(sources[2], environ)
    assert third.evicted == (str(sources[1]),)
    assert Path(reports[0].path).exists()
    assert not Path(reports[1].path).exists()
    assert content(third.path) == content(sources[2])
    assert content(sources[1])


@pytest.fixture
def reader() -> Iterator[Callable[[str], None]]:
    """Start a process that has a file open."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(path: str) -> None:
        code = "import sys; f = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
        process = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        processes.append(process)

    yield start
    for process in processes:
        process.communicate()


def test_what_a_process_has_open_is_not_removed(
    tmp_path: Path, environ: dict[str, str], reader: Callable[[str], None]
) -> None:
    sources = [make_source(tmp_path / f"s{n}", seed=n, size=4_000_000) for n in range(3)]
    reports = [staged(source, environ) for source in sources[:2]]
    reader(f"{reports[0].path}/a/0.bin")
    assert staged(sources[2], environ).evicted == (str(sources[1]),)
    with pytest.raises(InputError, match="is in use"):
        unstage(str(sources[0]), environ)
    reader(f"{StageStore(environ).copy_of(str(sources[2])).data}/a/0.bin")
    with pytest.raises(InputError, match="Copies in use"):
        staged(sources[1], environ)


def test_what_is_not_ours_is_never_removed(tmp_path: Path, environ: dict[str, str]) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "mine").mkdir(parents=True)
    (scratch / "mine/thesis.tex").write_bytes(b"x" * 9_000_000)
    (scratch / "forged").mkdir()
    record = '{"source":"/","name":"x","size":9000000,"files":1,"last_used":0,"complete":true,"format":1}'
    (scratch / "forged/record.json").write_text(record)
    for n in range(4):
        staged(make_source(tmp_path / f"s{n}", seed=n, size=4_000_000), environ)
    assert (scratch / "mine/thesis.tex").exists()
    assert (scratch / "forged/record.json").exists()


def test_what_is_larger_than_the_limit_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    first = staged(make_source(tmp_path / "small"), environ)
    with pytest.raises(InputError, match="the limit of staged copies is"):
        staged(make_source(tmp_path / "big", size=30_000_000), environ)
    assert not Path(first.path).exists() or content(first.path) == content(tmp_path / "small")


def test_two_at_once_make_one_copy(tmp_path: Path, environ: dict[str, str]) -> None:
    source = make_source(tmp_path / "source")
    reports: list[StageReport] = []
    threads = [threading.Thread(target=lambda: reports.append(staged(source, environ))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({report.path for report in reports}) == 1
    assert sorted(report.copied > 0 for report in reports) == [False, False, False, True]
    assert content(reports[0].path) == content(source)


def test_a_file_that_keeps_changing_is_an_error(tmp_path: Path) -> None:
    source, changes = tmp_path / "log", list[int]()
    source.write_bytes(b"x" * 3_000_000)

    def change(count: int) -> None:
        changes.append(count)
        os.utime(source, ns=(len(changes), len(changes)))

    (tmp_path / "temporary").mkdir()
    job = CopyJob(
        str(source), str(tmp_path / "copy"), str(tmp_path / "temporary"), change, lambda entry: None, threading.Event()
    )
    with pytest.raises(InputError, match="changes while it is copied"):
        copy_files(job, list_source(str(source)))
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\n", b"[1,2]\n" * 3])
def test_a_damaged_list_is_not_believed(tmp_path: Path, environ: dict[str, str], damage: bytes) -> None:
    source = make_source(tmp_path / "source")
    report = staged(source, environ)
    (Path(report.path).parent / "files.jsonl").write_bytes(damage)
    (Path(report.path).parent / "record.json").write_bytes(damage)
    assert content(staged(source, environ).path) == content(source)


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path, environ: dict[str, str]) -> None:
    source = make_source(tmp_path / "source")
    folder = Path(staged(source, environ).path).parent
    for name in ("files.jsonl", "record.json"):
        (folder / f"{name}.4194305.7f00deadbeef.new").write_text("half")
    assert staged(source, environ).copied == 0
    assert {path.name for path in folder.iterdir()} == {"source", "files.jsonl", "record.json", "lock"}


def test_the_list_of_data_sets(tmp_path: Path, environ: dict[str, str]) -> None:
    source = make_source(tmp_path / "source")
    report = staged(source, environ)
    listed = list_data_sets(environ)
    (row,) = listed.data_sets
    assert (row.path, row.kind, row.source, row.state) == (report.path, "staged", str(source), "complete")
    assert row.size == listed.stage_size == report.size
    unstage(str(source), environ)
    assert list_data_sets(environ).data_sets == ()


def test_the_commands(
    tmp_path: Path, environ: dict[str, str], ownlab: Ownlab, valid: Callable[[str, str], object]
) -> None:
    source = make_source(tmp_path / "source")
    ran = ownlab("data", "stage", str(source), env=environ)
    assert ran.returncode == 0, ran.stderr
    assert content(ran.stdout.strip()) == content(source)
    assert "read it back" in ran.stderr
    valid(ownlab("data", "stage", str(source), "--json", env=environ).stdout, "data-stage")
    valid(ownlab("data", "sets", "--json", env=environ).stdout, "data-sets")
    assert "staged" in ownlab("data", "sets", env=environ).stdout
    assert ownlab("data", "stage", str(source), "--remove", env=environ).returncode == 0
    again = ownlab("data", "stage", str(source), "--remove", env=environ)
    assert (again.returncode, again.stdout) == (3, "")
    assert "There is no staged copy" in again.stderr


def test_in_the_background(tmp_path: Path, environ: dict[str, str], ownlab: Ownlab, until: Until) -> None:
    source = make_source(tmp_path / "source")
    ran = ownlab("data", "stage", str(source), "--background", env=environ)
    assert ran.returncode == 0
    until(lambda: Path(ran.stdout.strip()).exists())
    assert content(ran.stdout.strip()) == content(source)
    until(lambda: [row.state for row in list_data_sets(environ).data_sets] == ["complete"])


def test_a_full_disk_is_reported_and_continued(tmp_path: Path, environ: dict[str, str]) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(scratch)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a tmpfs")
    try:
        source = make_source(tmp_path / "source")
        (scratch / "filler").write_bytes(bytes(2_000_000))
        with pytest.raises(InputError, match=r"no room|is full"):
            staged(source, environ)
        (scratch / "filler").unlink()
        report = staged(source, environ)
        assert content(report.path) == content(source)
        shutil.rmtree(source)
    finally:
        subprocess.run(["umount", str(scratch)], check=True)
