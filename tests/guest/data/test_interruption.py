"""Packing that is killed at any moment continues, and the shards are the same as if nothing had happened; its memory is bounded."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.guest.data.samples import contents, digest_of, make_folder, pack_all, tar_of, write_files

from ownlab.instruments.data.archives.member_stream import stream_request
from ownlab_guest.data.sealed_json import unseal

LAUNCH = Path(__file__).parents[3] / "src" / "ownlab_guest" / "launch.py"
# Attempts, each killed up to three times. More by hand: OWNLAB_KILLS=140 are some 200 kills for each kind of source.
KILLS = int(os.environ.get("OWNLAB_KILLS", "4"))


def start(source: Path, out: Path, **options: object) -> subprocess.Popen[bytes]:
    request = {"path": str(source), "out": str(out), "shard_bytes": 65_536, **options}
    return subprocess.Popen(
        [sys.executable, str(LAUNCH), "data.pack", json.dumps(request)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def finish(source: Path, out: Path, **options: object) -> dict[str, object]:
    stdout, _ = start(source, out, **options).communicate(timeout=300)
    result: dict[str, object] = json.loads(stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("kind", ["folder", "compressed tar", "archive"])
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    files = make_folder(tmp_path / "in", 600, size=6000)
    copies = {f"class0/x{number}.jpg": content for number, content in enumerate(list(files.values())[:20])}
    source = tmp_path / "in"
    if kind == "folder":
        for name, content in copies.items():
            (source / name).write_bytes(content)
    else:
        source = tar_of({**files, **copies}, tmp_path / "x.tar.gz", "w:gz")
    options: dict[str, object] = {"dedupe": True}
    if kind == "archive":  # read by a process of ownlab, which must end with its reader
        options["archive"] = stream_request(str(source.rename(tmp_path / "archive")))
        source = tmp_path / "archive"
        assert options["archive"] is not None
    begun = time.monotonic()
    assert finish(source, tmp_path / "whole", **options)["event"] == "result"
    seconds = time.monotonic() - begun
    generator = random.Random(kind)
    for number in range(KILLS // 2):
        out, kills = tmp_path / f"out{number}", 0
        while True:
            child = start(source, out, **options)
            if kills < 3:
                try:
                    child.wait(generator.uniform(0, seconds))
                except subprocess.TimeoutExpired:
                    child.send_signal(signal.SIGKILL)
            stdout, _ = child.communicate(timeout=300)
            if child.returncode == 0:
                break
            assert child.returncode == -signal.SIGKILL
            kills += 1
        result = json.loads(stdout.splitlines()[-1])
        assert (result["event"], result["samples"], result["duplicates"]) == ("result", 600, 20)
        assert digest_of(out) == digest_of(tmp_path / "whole")
        assert sorted(contents(out).values()) == sorted(files.values())
        assert sorted(path.name for path in out.iterdir() if not path.name.startswith("data-")) == ["dataset.json"]


def test_a_finished_shard_is_not_written_again(tmp_path: Path, until: object) -> None:
    make_folder(tmp_path / "in", 600, size=6000)
    child = start(tmp_path / "in", tmp_path / "out", workers=1)
    journal = tmp_path / "out" / ".pack" / "journal"
    deadline = time.monotonic() + 180
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= 2) and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    child.kill()
    child.communicate()
    finished = (
        [unseal(line, str(journal))["shard"]["name"] for line in journal.read_bytes().split(b"\n")[:-1]]
        if journal.exists()
        else []
    )
    before = {name: (tmp_path / "out" / name).stat().st_ino for name in finished}
    assert finish(tmp_path / "in", tmp_path / "out", workers=1)["samples"] == 600
    assert {name: (tmp_path / "out" / name).stat().st_ino for name in finished} == before


def test_a_source_that_changed_is_not_continued(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", 300)
    path = tar_of(files, tmp_path / "x.tar")
    child = start(path, tmp_path / "out")
    listed = tmp_path / "out" / ".pack" / "listing" / "listed.json"
    while not listed.exists() and child.poll() is None:
        time.sleep(0.001)
    child.kill()
    child.communicate()
    os.utime(path, (1, 1))
    result = finish(path, tmp_path / "out")
    assert result["event"] == "error"
    assert "changed" in str(result["message"]) or "other options" in str(result["message"])


def test_two_at_once(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 10)
    (tmp_path / "out" / ".pack").mkdir(parents=True)
    import fcntl

    with open(tmp_path / "out" / ".pack" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = finish(tmp_path / "in", tmp_path / "out")
    assert "Another process" in str(result["message"])
    assert finish(tmp_path / "in", tmp_path / "out")["samples"] == 10


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files fails as a full disk does, in the middle of a shard."""
    import resource

    make_folder(tmp_path / "in", 300, size=6000)
    request = json.dumps({"path": str(tmp_path / "in"), "out": str(tmp_path / "out"), "shard_bytes": 10_000_000})

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    ran = subprocess.run(
        [sys.executable, str(LAUNCH), "data.pack", request], capture_output=True, preexec_fn=limit, timeout=300
    )
    result = json.loads(ran.stdout.splitlines()[-1])
    assert result["event"] == "error"
    assert b"Traceback" not in ran.stderr
    assert pack_all(tmp_path / "in", tmp_path / "out", shard_bytes=10_000_000)["samples"] == 300


def test_memory_is_bounded_where_files_are_large(tmp_path: Path) -> None:
    """Sizes are not known before files are read: small ones come first here, then large ones."""
    write_files(tmp_path / "in", {f"a/{number:03d}.bin": bytes([1 + number % 255]) for number in range(400)})
    (tmp_path / "in" / "b").mkdir()
    for number in range(24):
        with open(tmp_path / "in" / "b" / f"{number}.bin", "wb") as file:
            file.truncate(20 << 20)
    code = "\n".join(
        (
            "import json, sys",
            "from ownlab_guest.data.pack import stream",
            "*_, result = stream([json.dumps({'path': sys.argv[1], 'out': sys.argv[2], 'shuffle': False})])",
            # Not ru_maxrss, which counts what the process was before exec: a copy of this one.
            "print(result['samples'], next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))",
        )
    )
    command = [sys.executable, "-c", code, str(tmp_path / "in"), str(tmp_path / "out")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    samples, memory = map(int, ran.stdout.split())
    assert samples == 424
    assert memory < 220 << 10  # KiB; all large files together have 480 MiB
