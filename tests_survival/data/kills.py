"""Kills `ownlab data get`, `unpack`, `pack` and `stage` at random moments, again and again, until they succeed; then nothing may be lost or doubled.

    python -m tests_survival.data.kills get 200

Each run has its own seed, folder and data. A killed command is simply started again, as a person would do.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.instruments.data.file_server import FileServer, serve_files

from ownlab_guest.data.dataset import open_dataset

__all__ = ["SUBJECTS", "Outcome", "run"]

_MOST_KILLS = 40
_LONGEST_LIFE = 5  # until a kill, in times of what it takes to start Python and ownlab here and now
_SEGMENT = 8 * 2**20


class Outcome(NamedTuple):
    """What became of one run."""

    seed: int
    kills: int
    faults: list[str]


@cache
def _start_seconds() -> float:
    begin = time.monotonic()
    subprocess.run([*OWNLAB, "--version"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin


def killed_until_done(command: list[str], environ: dict[str, str], choice: random.Random) -> tuple[int, str]:
    """Run a command, kill it at a random moment, and repeat until it ends by itself. Return the kills and its complaint."""
    for kills in range(_MOST_KILLS):
        process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            life = choice.uniform(0.7, _LONGEST_LIFE) * (1 + kills / 10) * _start_seconds()
            patience = 300.0 if kills == _MOST_KILLS - 1 else life
            _, complaint = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            continue
        return kills, complaint if process.returncode else ""
    return _MOST_KILLS, "it never ended by itself"


def tree(folder: Path) -> dict[str, str]:
    """Return the checksum of every file below a folder, without ownlab's own."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".ownlab-data" not in path.parts
    }


def differences(expected: dict[str, bytes], folder: Path) -> list[str]:
    """Return what is missing, wrong or too much in a folder."""
    wanted = {path: hashlib.sha256(content).hexdigest() for path, content in expected.items()}
    found = tree(folder)
    wrong = [
        f"{path} is {'wrong' if path in found else 'missing'}" for path in wanted if wanted[path] != found.get(path)
    ]
    return wrong + [f"{path} should not be there" for path in found.keys() - wanted.keys()]


def kill_get(seed: int, folder: Path) -> Outcome:
    """Downloads: one large file and many small ones."""
    choice = random.Random(seed)
    with serve_files() as server:
        files = _serve(server, choice)
        (folder / "list.txt").write_text("".join(f"{server.url}/{path} out={path}\n" for path in files))
        command = [*OWNLAB, "data", "get", str(folder / "list.txt"), "-o", str(folder / "data"), "--connections", "4"]
        kills, complaint = killed_until_done(command, _environ(folder), choice)
        faults = [complaint] if complaint else differences(files, folder / "data")
        sent = server.bodies("/large.bin")
        # What was on its way to a killed process was sent, but never arrived: socket buffers hold some MiB.
        most = len(files["large.bin"]) + (kills + 1) * (_SEGMENT + 4 * 6 * 2**20)
        if sent > most:
            faults.append(f"{sent} bytes were sent for {len(files['large.bin'])}, with {kills} kills")
        server.seen.clear()
        again = subprocess.run(command, env=_environ(folder), capture_output=True, text=True, check=False)
        if again.returncode or any(request.sent for request in server.seen):
            faults.append(f"the next run was not idle: {again.stderr}")
        left = list((folder / "data/.ownlab-data").rglob("*.part"))
        return Outcome(seed, kills, faults + [f"{path} is left" for path in left])


def kill_unpack(seed: int, folder: Path) -> Outcome:
    """Archives with many files of all sizes."""
    choice = random.Random(seed)
    files = {f"{n % 20}/{n}.bin": choice.randbytes(choice.choice([0, 100, 20_000, 200_000])) for n in range(500)}
    archive = folder / choice.choice(["data.zip", "data.tar", "data.tar.gz"])
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as opened:
            for path, content in files.items():
                opened.writestr(path, content)
    else:
        with tarfile.open(archive, "w:gz" if archive.suffix == ".gz" else "w") as tar:
            for path, content in files.items():
                info = tarfile.TarInfo(path)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    command = [*OWNLAB, "data", "unpack", str(archive), "-o", str(folder / "out"), "--json"]
    kills, complaint = killed_until_done(command, _environ(folder), choice)
    faults = [complaint] if complaint else differences(files, folder / "out")
    again = subprocess.run(command, env=_environ(folder), capture_output=True, text=True, check=False)
    if again.returncode or json.loads(again.stdout)[0]["extracted"]:
        faults.append(f"the next run was not idle: {again.stdout} {again.stderr}")
    return Outcome(seed, kills, faults)


def kill_pack(seed: int, folder: Path) -> Outcome:
    """Folders and archives become shards: each sample once, and the same bytes as without any kill."""
    choice = random.Random(seed)
    files = {f"class{n % 5}/{n}.bin": choice.randbytes(choice.choice([1, 100, 20_000, 100_000])) for n in range(600)}
    source = folder / choice.choice(["folder", "data.zip", "data.tar.gz"])
    _write_source(source, files)
    pack = [*OWNLAB, "data", "pack", str(source), "--shard-size", "1MiB", "--seed", str(seed), "--json", "-o"]
    kills, complaint = killed_until_done([*pack, str(folder / "out")], _environ(folder), choice)
    if complaint:
        return Outcome(seed, kills, [complaint])
    dataset = open_dataset(folder / "out", as_dict=True, decode=False, check="always", rank=0, world=1)
    found = [(sample["__name__"], sample["bin"]) for sample in dataset]
    faults = [] if sorted(found) == sorted(files.items()) else [f"{len(found)} samples are not the {len(files)} packed"]
    left = [path.name for path in (folder / "out").iterdir() if path.suffix not in (".tar", ".index", ".json")]
    subprocess.run([*pack, str(folder / "whole")], env=_environ(folder), capture_output=True, check=True)
    if _shards(folder / "out") != _shards(folder / "whole"):
        faults.append("the shards differ from those that were packed at once")
    return Outcome(seed, kills, faults + [f"{name} is left" for name in left])


def _write_source(source: Path, files: dict[str, bytes]) -> None:
    if source.suffix == ".zip":
        with zipfile.ZipFile(source, "w") as opened:
            for path, content in files.items():
                opened.writestr(path, content)
    elif source.suffix == ".gz":
        with tarfile.open(source, "w:gz", compresslevel=1) as tar:
            for path, content in files.items():
                info = tarfile.TarInfo(path)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    else:
        for path, content in files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(content)


def _shards(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in tree(folder).items() if name.startswith("data-")}


def kill_stage(seed: int, folder: Path) -> Outcome:
    """Copies of folders; the copy must not exist under its name before it is complete."""
    choice = random.Random(seed)
    files = {f"{n % 20}/{n}.bin": choice.randbytes(choice.choice([0, 100, 20_000, 100_000])) for n in range(400)}
    files["large.bin"] = choice.randbytes(16_000_000)
    for path, content in files.items():
        (folder / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "source" / path).write_bytes(content)
    command = [*OWNLAB, "data", "stage", str(folder / "source"), "--json"]
    kills, complaint = killed_until_done(command, _environ(folder), choice)
    copies = list((folder / "cache/ownlab/staged").glob("*/source"))
    faults = [complaint] if complaint else differences(files, copies[0])
    again = subprocess.run(command, env=_environ(folder), capture_output=True, text=True, check=False)
    if again.returncode or json.loads(again.stdout)["copied"] or len(copies) != 1:
        faults.append(f"the next run was not idle: {again.stdout} {again.stderr}")
    left = [path for path in copies[0].parent.rglob("*") if path.is_file() and copies[0] not in path.parents]
    faults += [f"{path} is left" for path in left if path.name not in ("files.jsonl", "lock", "record.json")]
    return Outcome(seed, kills, faults)


def _serve(server: FileServer, choice: random.Random) -> dict[str, bytes]:
    files = {"large.bin": choice.randbytes(choice.randrange(3, 10) * 2**20 + choice.randrange(1000))}
    files |= {f"small/{n}.bin": choice.randbytes(choice.randrange(20_000)) for n in range(40)}
    for path, content in files.items():
        server.put(f"/{path}", content, rate=choice.choice([2e6, 5e6, 20e6]))
    return files


def _environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "OWNLAB_HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}


OWNLAB = [sys.executable, "-m", "ownlab"]
SUBJECTS: dict[str, Callable[[int, Path], Outcome]] = {
    "get": kill_get,
    "unpack": kill_unpack,
    "pack": kill_pack,
    "stage": kill_stage,
}


def run(subject: str, seed: int) -> Outcome:
    """Run one subject in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix=f"ownlab-{subject}-") as folder:
        return SUBJECTS[subject](seed, Path(folder))


def main() -> None:
    """Run a subject many times and say what happened."""
    subject, count = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    begin, kills, failed = time.monotonic(), 0, 0
    for seed in range(first, first + count):
        outcome = run(subject, seed)
        kills += outcome.kills
        if outcome.faults:
            failed += 1
            print(f"seed {seed}, {outcome.kills} kills: {outcome.faults[:5]}", flush=True)
        elif seed % 10 == 0:
            print(f"{subject}: {seed - first + 1} runs, {kills} kills, {failed} with faults", flush=True)
    took = time.monotonic() - begin
    print(f"{subject}: {count} runs, {kills} kills, {failed} with faults, {took:.0f} s", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
