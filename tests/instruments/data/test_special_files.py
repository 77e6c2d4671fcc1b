"""`ownlab data` with pipes, sockets and devices, as its argument and inside of folders; and tables with endless rows.

Each command runs with a limit on its memory and a deadline: one that waits for a writer, or reads /dev/zero, fails here.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.data.samples import make_folder, write_files

_DEADLINE = 90
_MEMORY = 4 << 30  # of addresses: Rich, the threads and a row of 64 MiB need some

# FILE is the path.
COMMANDS = {
    "inspect": ["inspect", "FILE"],
    "unpack": ["unpack", "FILE", "-o", "out"],
    "pack": ["pack", "FILE", "-o", "out"],
    "verify": ["verify", "FILE"],
    "repair": ["verify", "shards", "--repair", "FILE"],
    "bench": ["bench", "FILE"],
    "stage": ["stage", "FILE"],
    "stage --background": ["stage", "FILE", "--background"],
}
ENDINGS = (".csv", ".jsonl", ".txt", ".parquet", ".zip", ".tar", ".tar.gz", ".7z")


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `ownlab data` in a folder. TimeoutExpired if it never ends."""
    environ = {**os.environ, "OWNLAB_HOME": str(place / "home"), "OWNLAB_CONFIG": str(place / "no-config.toml")}
    environ["XDG_CACHE_HOME"] = str(place / "cache")  # for staged copies
    return subprocess.run(
        [sys.executable, "-m", "ownlab", "data", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=place,
        env=environ,
        timeout=_DEADLINE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY)),
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_special(kind: str, path: Path) -> None:
    """Make a file that is none. The path of a socket has at most 108 bytes: it is bound by its name alone."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a pipe":
        os.mkfifo(path.with_name("a-pipe"))
        path.symlink_to("a-pipe")
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
        os.chdir(here)
    else:
        path.symlink_to("/dev/zero")


KINDS = {"pipe": "pipe", "link to a pipe": "pipe", "socket": "socket", "device": "device"}


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("kind", KINDS)
def test_every_command_refuses_it(kind: str, place: Path) -> None:
    path = place / "data.csv"
    make_special(kind, path)
    for name, arguments in COMMANDS.items():
        if name == "repair":
            make_folder(place / "in", 3)
            assert run(place, "pack", "in", "-o", "shards").returncode == 0
            os.unlink(place / "shards" / "data-00000.tar")
        ran = run(place, *(str(path) if word == "FILE" else word for word in arguments))
        shown = f"{name}: exit code {ran.returncode}\n{ran.stderr}"
        assert "Traceback" not in ran.stderr, shown
        assert ran.returncode == 3, shown
        assert "data.csv" in ran.stderr, shown
        if name in ("inspect", "unpack", "pack", "repair"):
            assert f"is a {KINDS[kind]}, not a file" in ran.stderr, shown
    assert not (place / "out").exists()


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_is_refused(ending: str, kind: str, place: Path) -> None:
    path = place / f"data{ending}"
    make_special(kind, path)
    for arguments in (["inspect", str(path)], ["pack", str(path), "-o", "out"]):
        ran = run(place, *arguments)
        assert (ran.returncode, f"data{ending} is a {kind}, not a file" in ran.stderr) == (3, True), ran.stderr


def test_a_volume_of_an_archive_may_be_a_pipe(place: Path) -> None:
    (place / "data.zip").write_bytes(b"PK\5\6" + bytes(18))
    os.mkfifo(place / "data.z01")
    for command in ("inspect", "unpack"):
        ran = run(place, command, "data.zip")
        assert (ran.returncode, "data.z01 is a pipe, not a file" in ran.stderr) == (3, True), ran.stderr


@pytest.fixture
def folder(place: Path) -> Path:
    """A folder of files with everything else in it that a folder may have."""
    folder = place / "files"
    write_files(folder, {f"class{number % 3}/{number:02}.bin": b"%d" % number for number in range(60)})
    inside = folder / "class0"
    os.mkfifo(inside / "a.bin")
    (inside / "b.bin").symlink_to("/dev/zero")
    (inside / "c.bin").symlink_to(inside / "a.bin")
    make_special("socket", inside / "d.bin")
    return folder


@pytest.mark.timeout(1000)
def test_in_a_folder_they_are_left_out(folder: Path, place: Path) -> None:
    count = sum(each.is_file() for each in folder.rglob("*"))
    inspected = run(place, "inspect", "files", "--json")
    assert inspected.returncode == 0, inspected.stderr
    assert f'"files": {count}' in inspected.stdout
    assert run(place, "pack", "files", "-o", "shards").returncode == 0
    assert run(place, "verify", "shards", "--full").returncode == 0
    staged = run(place, "stage", "files")
    assert staged.returncode == 0, staged.stderr
    assert sum(each.is_file() for each in Path(staged.stdout.strip()).rglob("*")) == count


@pytest.mark.timeout(1000)
def test_bench_reads_the_files_of_a_folder_alone(folder: Path, place: Path) -> None:
    ran = run(place, "bench", "files")
    assert ran.returncode == 0, ran.stderr
    for each in folder.rglob("*"):
        if each.is_file():
            each.unlink()
            os.mkfifo(each)
    ran = run(place, "bench", "files")
    assert (ran.returncode, "has too few files to measure: 0" in ran.stderr) == (3, True), ran.stderr


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", ["dataset.json", "data-00000.tar", "data-00000.index"])
def test_packed_data_with_a_pipe_in_them(name: str, place: Path) -> None:
    make_folder(place / "in", 5)
    assert run(place, "pack", "in", "-o", "shards").returncode == 0
    shutil.copytree(place / "shards", place / "copy")
    (place / "shards" / name).unlink()
    os.mkfifo(place / "shards" / name)
    for command in (["inspect", "shards"], ["bench", "shards"], ["verify", "shards", "--full"]):
        ran = run(place, *command)
        assert "Traceback" not in ran.stderr
        assert ran.returncode in (1, 3), ran.stdout + ran.stderr
        assert "is a pipe, not a file" in " ".join((ran.stdout + ran.stderr).split())
    if name != "dataset.json":
        ran = run(place, "verify", "shards", "--full", "--repair", "copy")
        assert ran.returncode == 0, ran.stdout + ran.stderr


def message_of(place: Path, command: str, name: str) -> str:
    arguments = ["-o", "out"] if command == "pack" else []
    ran = run(place, command, name, *arguments)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("command", ["inspect", "pack"])
def test_a_row_that_is_too_long_is_named(command: str, place: Path) -> None:
    with open(place / "sparse.csv", "wb") as file:
        file.write(b"path,label\n1,2\n")
        file.truncate(8 << 30)  # one line of zeros, larger than the memory that the command may have
    (place / "open.csv").write_text('path,label\n"' + "x" * 1000 + "\n" + "x\n" * 35_000_000)
    (place / "long.jsonl").write_text('{"a": 1}\n{"a": "' + "x" * 70_000_000 + '"}\n')
    assert "sparse.csv, line 3: the row is longer than 64 MiB" in message_of(place, command, "sparse.csv")
    assert "the row is longer than 64 MiB" in message_of(place, command, "open.csv")
    assert "long.jsonl, line 2: the row is longer than 64 MiB" in message_of(place, command, "long.jsonl")


def test_a_long_row_is_read(place: Path) -> None:
    """One line of 50 MB: the usual limit of Python's module csv is 131,072 characters."""
    (place / "one.csv").write_text("x" * 50_000_000)
    assert "has no rows" in message_of(place, "inspect", "one.csv")
    (place / "wide.csv").write_text("text,label\n" + "x" * 50_000_000 + ",1\n")
    ran = run(place, "inspect", "wide.csv", "--json")
    assert ran.returncode == 0, ran.stderr
    assert '"distinct": 1' in ran.stdout


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": ' + b"1" * 20_000 + b"}", "a number has thousands of digits"),
        (b"[" * 200_000, "its values are nested too deeply"),
        (b'{"a": "\xff"}', "can't decode byte 0xff"),
        (b'{"a" 1}', "in column 6"),
    ],
)
def test_a_bad_line_of_json_is_named(line: bytes, reason: str, place: Path) -> None:
    (place / "data.jsonl").write_bytes(b'{"a": 1}\n' + line + b"\n")
    said = message_of(place, "inspect", "data.jsonl")
    assert "data.jsonl, line 2 cannot be read: " in said
    assert reason in said


def test_a_list_of_sources(place: Path) -> None:
    cases: dict[str, Any] = {"pipe": "no program writes to it", "device": "is a device, not a file"}
    for kind, reason in cases.items():
        make_special(kind, place / f"{kind}.txt")
        ran = run(place, "get", f"{kind}.txt")
        assert (ran.returncode, reason in ran.stderr) == (3, True), ran.stderr


def test_a_table_may_name_what_is_no_file(place: Path) -> None:
    (place / "good.bin").write_bytes(b"content")
    os.mkfifo(place / "pipe.bin")
    (place / "zero.bin").symlink_to("/dev/zero")
    rows = [{"path": name} for name in ("good.bin", "pipe.bin", "zero.bin", "no\0path.bin")]
    (place / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for arguments in (["inspect", "data.jsonl", "--json"], ["pack", "data.jsonl", "-o", "out", "--json"]):
        ran = run(place, *arguments)
        assert ran.returncode == 1, ran.stdout + ran.stderr
        assert "pipe, not a file" in ran.stdout
        assert "which is no path" in ran.stdout
