"""`ownlab data get` as a user runs it: output, exit codes, interruption, a full disk, two at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab
from tests.instruments.data.file_server import FileServer, serve_files

Until = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serve_files() as running:
        yield running


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    places = {"OWNLAB_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return {**places, "NETRC": str(tmp_path / "netrc")}


def start(arguments: list[str], environ: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ownlab", "data", "get", *arguments]
    return subprocess.Popen(
        command, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_text_and_json(
    server: FileServer, environ: dict[str, str], tmp_path: Path, ownlab: Ownlab, valid: Callable[[str, str], Any]
) -> None:
    address = server.put("/data.bin", b"data")
    ran = ownlab("data", "get", address, "-o", str(tmp_path / "data"), env=environ)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"{tmp_path}/data/data.bin: downloaded, 4 B, size as announced" in ran.stdout
    document = valid(
        ownlab("data", "get", address, "-o", str(tmp_path / "data"), "--json", env=environ).stdout, "data-get"
    )
    assert [file["state"] for file in document["files"]] == ["unchanged"]
    listed = valid(ownlab("data", "sets", "--json", env=environ).stdout, "data-sets")["data_sets"]
    assert [(each["path"], each["kind"], each["size"]) for each in listed] == [
        (str(tmp_path / "data"), "downloaded", 4)
    ]


def test_errors_have_a_code_and_no_traceback(
    server: FileServer, environ: dict[str, str], tmp_path: Path, ownlab: Ownlab
) -> None:
    for source, code in ((server.url + "/missing", 3), ("nonsense", 2), ("ftp://host/file", 2), ("kaggle://x", 2)):
        ran = ownlab("data", "get", source, "-o", str(tmp_path / "data"), env=environ)
        assert ran.returncode == code, ran.stderr
        assert "Traceback" not in ran.stderr
        assert ran.stderr.startswith("ownlab: ")


def test_an_interrupted_command_says_how_to_continue(
    server: FileServer, environ: dict[str, str], tmp_path: Path, ownlab: Ownlab, until: Until
) -> None:
    content = random.Random(1).randbytes(8_000_000)
    address = server.put("/data.bin", content, rate=1e6)
    process = start([address, "-o", str(tmp_path / "data")], environ)
    until(lambda: server.bodies("/data.bin") > 1_500_000)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate()
    assert process.returncode == 130
    assert "Run the same command again" in complaint
    server.put("/data.bin", content)
    server.seen.clear()
    ran = ownlab("data", "get", address, "-o", str(tmp_path / "data"), env=environ)
    assert ran.returncode == 0
    assert "resumed" in ran.stdout
    assert (tmp_path / "data/data.bin").read_bytes() == content
    assert server.bodies("/data.bin") < len(content)


def test_two_at_once_on_one_file(
    server: FileServer, environ: dict[str, str], tmp_path: Path, ownlab: Ownlab, until: Until
) -> None:
    content = random.Random(1).randbytes(6_000_000)
    address = server.put("/data.bin", content, rate=1e6)
    first = start([address, "-o", str(tmp_path / "data")], environ)
    until(lambda: server.bodies("/data.bin") > 100_000)
    second = ownlab("data", "get", address, "-o", str(tmp_path / "data"), env=environ)
    assert second.returncode == 3
    assert "Another process is downloading data.bin" in second.stderr
    other = ownlab("data", "get", server.put("/other.bin", b"1"), "-o", str(tmp_path / "data"), env=environ)
    assert other.returncode == 0
    server.files["/data.bin"].rate = 0
    first.communicate()
    assert first.returncode == 0
    assert (tmp_path / "data/data.bin").read_bytes() == content
    again = ownlab("data", "get", address, server.url + "/other.bin", "-o", str(tmp_path / "data"), env=environ)
    assert "2 unchanged" in again.stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with 12 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("length", [True, False])
def test_a_full_disk_keeps_what_has_arrived(
    server: FileServer, environ: dict[str, str], small_disk: Path, ownlab: Ownlab, until: Until, length: bool
) -> None:
    content = random.Random(1).randbytes(8_000_000)
    address = server.put("/data.bin", content, rate=2e6, length=length, ranges=length)
    process = start([address, "-o", str(small_disk / "data")], environ)
    until(lambda: server.bodies("/data.bin") > 500_000)
    (small_disk / "filler").write_bytes(bytes(6_000_000))  # meanwhile somebody else fills the disk
    _, complaint = process.communicate()
    assert process.returncode == 3
    assert "is full" in complaint
    (small_disk / "filler").unlink()
    server.put("/data.bin", content, length=length, ranges=length)
    server.seen.clear()
    assert ownlab("data", "get", address, "-o", str(small_disk / "data"), env=environ).returncode == 0
    assert (small_disk / "data/data.bin").read_bytes() == content
    assert not length or server.bodies("/data.bin") < len(content)


def test_what_cannot_fit_is_refused_at_once(
    server: FileServer, environ: dict[str, str], small_disk: Path, ownlab: Ownlab
) -> None:
    address = server.put("/data.bin", bytes(20_000_000))
    ran = ownlab("data", "get", address, "-o", str(small_disk / "data"), env=environ)
    assert ran.returncode == 3
    assert "has only" in ran.stderr
    assert server.bodies("/data.bin") < 9_000_000


def test_unpacking_on_a_full_disk_is_continued(
    environ: dict[str, str], small_disk: Path, tmp_path: Path, ownlab: Ownlab
) -> None:
    import tarfile

    source = tmp_path / "files"
    source.mkdir()
    for n in range(80):
        (source / f"{n}.bin").write_bytes(random.Random(n).randbytes(100_000))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(source, "files")
    (small_disk / "filler").write_bytes(bytes(6_000_000))
    command = ("data", "unpack", str(tmp_path / "a.tar"), "-o", str(small_disk / "out"))
    ran = ownlab(*command, env=environ)
    assert ran.returncode == 3
    assert "full" in ran.stderr
    (small_disk / "filler").unlink()
    ran = ownlab(*command, env=environ)
    assert ran.returncode == 0
    assert "were there already" in ran.stdout
    for path in source.iterdir():
        assert (small_disk / "out/files" / path.name).read_bytes() == path.read_bytes()
