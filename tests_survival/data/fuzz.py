"""Damaged and forged archives, manifests, indexes, shards and journals: whatever they contain, there is a result or an error of ours.

    python -m tests_survival.data.fuzz archive 5000

Each case has a seed. It is a fault if another exception comes out, if anything outside of the folder of the case changes, or if
something comes out that was never put in.
"""

from __future__ import annotations

import base64
import bz2
import contextlib
import copy
import gzip
import io
import json
import lzma
import os
import random
import shutil
import struct
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any, cast

from ownlab.errors import OwnlabError
from ownlab.instruments.data.archives.pipeline import UnpackRequest, unpack
from ownlab.instruments.data.download.manifest import ManifestStore
from ownlab.instruments.data.staging.pipeline import list_data_sets, stage
from ownlab_guest.data.dataset import open_dataset
from ownlab_guest.data.errors import DataError
from ownlab_guest.data.packing import Request, pack
from ownlab_guest.data.verification import verify

__all__ = ["SUBJECTS", "run"]

CANARY = b"This file is outside of every folder that a case may write to."
HOSTILE: list[Any] = [
    "../canary",
    "../../canary",
    "/canary",
    "..",
    ".",
    "",
    "a\0b",
    "a/../../canary",
    "\udcff",
    "x" * 5000,
    -1,
    0,
    2**31,
    2**63,
    2**64,
    1.5,
    float("nan"),
    True,
    None,
    [],
    {},
    [[]],
    {"a": 1},
]
Case = Callable[[random.Random, Path], None]


def mutated(content: bytes, choice: random.Random) -> bytes:
    """Change, cut, repeat, move or remove some bytes."""
    made = bytearray(content)
    for _ in range(choice.choice([1, 1, 2, 4, 16])):
        place, size = choice.randrange(len(made) + 1), choice.choice([1, 1, 2, 4, 8, 64, 512])
        kind = choice.randrange(7)
        if kind == 0:
            made[place : place + size] = choice.randbytes(size)
        elif kind == 1 and place < len(made):
            made[place] ^= 1 << choice.randrange(8)
        elif kind == 2:
            made[place : place + size] = choice.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * size
        elif kind == 3:
            del made[place:]
        elif kind == 4:
            made[place:place] = made[choice.randrange(len(made) + 1) :][:size]
        elif kind == 5:
            del made[place : place + size]
        else:
            made[place : place + 8] = struct.pack("<q", choice.choice([-1, 2**31, 2**40, 2**62, 1, 0]))
    return bytes(made)


def forged(document: Any, choice: random.Random) -> Any:
    """Replace some values of a JSON document by what nobody expects there."""
    document = copy.deepcopy(document)
    for _ in range(choice.choice([1, 1, 2, 3])):
        place = document
        while isinstance(place, (dict, list)) and place:
            key = choice.choice(list(place)) if isinstance(place, dict) else choice.randrange(len(place))
            if not isinstance(place[key], (dict, list)) or not place[key] or choice.random() < 0.2:
                value = copy.deepcopy(choice.choice(HOSTILE))
                if isinstance(value, str) and choice.random() < 0.3:  # bytes are written so
                    value = base64.b64encode(value.encode(errors="replace")).decode()
                place[key] = value
                break
            place = place[key]
    return document


def damaged(content: bytes, choice: random.Random, *, lines: bool = False) -> bytes:
    """Damage a JSON document, or one in each line: its bytes, or its values."""
    if choice.random() < 0.4:
        return mutated(content, choice)
    if not lines:
        return json.dumps(forged(json.loads(content), choice)).encode()
    found = content.splitlines()
    number = choice.randrange(len(found))
    found[number] = json.dumps(forged(json.loads(found[number]), choice)).encode()
    return b"\n".join(found) + b"\n"


def archive_case(choice: random.Random, folder: Path) -> None:
    """An archive with hostile names and links, then damaged or not."""
    made, kind = hostile_archive(choice)
    path = folder / f"archive.{kind}"
    path.write_bytes(mutated(made, choice) if choice.random() < 0.5 else made)
    unpack(UnpackRequest(path, folder / "out"), lambda progress: None, environ_of(folder))


def hostile_archive(choice: random.Random) -> tuple[bytes, str]:
    kind = choice.choice(["zip", "zip", "tar", "tar", "tar.gz", "tar.bz2", "tar.xz", "gz"])
    names = ["a.txt", "b/c.txt", "b/d/e.bin", "link", "b/link/x", "y"]
    if choice.random() < 0.2:
        names += choice.choice([["link/x"], ["link/../z"], ["a.txt"], ["a.txt/b"]])
    if choice.random() < 0.15:
        names.append(
            choice.choice(
                ["../canary", "/canary", "b/../../canary", "C:\\canary", "..\\canary", "a\0b", "\udce9", "x" * 300]
            )
        )
    choice.shuffle(names)
    if kind == "gz":
        return gzip.compress(choice.randbytes(2000)), kind
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w", choice.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as zipped:
            for name in names:
                zip_info = zipfile.ZipInfo("placeholder")
                zip_info.filename = name.replace("\udce9", "é")
                zip_info.external_attr = choice.choice([0o100644] * 20 + [0o120777, 0o020644, 0o040755]) << 16
                zipped.writestr(zip_info, choice.choice([b"../canary", b"x", bytes(5000), choice.randbytes(300)]))
        return made.getvalue(), kind
    with tarfile.open(fileobj=made, mode="w", format=choice.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])) as tar:
        for name in names:
            info = tarfile.TarInfo(name.replace("\0", "?"))
            info.type = choice.choice(
                [tarfile.REGTYPE] * 20
                + [
                    tarfile.SYMTYPE,
                    tarfile.LNKTYPE,
                    tarfile.CHRTYPE,
                    tarfile.DIRTYPE,
                    tarfile.FIFOTYPE,
                    tarfile.GNUTYPE_SPARSE,
                ]
            )
            info.linkname = choice.choice(["../canary", "a.txt", "/canary", "..", "b", "link"])
            content = choice.choice([b"", b"x", choice.randbytes(700)]) if info.isreg() else b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    squeezers: dict[str, Callable[[bytes], bytes]] = {
        "tar": bytes,
        "tar.gz": gzip.compress,
        "tar.bz2": bz2.compress,
        "tar.xz": lzma.compress,
    }
    return squeezers[kind](made.getvalue()), kind


def unpack_journal_case(choice: random.Random, folder: Path) -> None:
    """What an earlier run of `unpack` has noted."""
    with zipfile.ZipFile(folder / "a.zip", "w") as zipped:
        for name in ("a.txt", "b/c.txt"):
            zipped.writestr(name, CANARY[:20])
    request = UnpackRequest(folder / "a.zip", folder / "out")
    unpack(request, lambda progress: None, environ_of(folder))
    notes = [path for path in (folder / "out/.ownlab-data").rglob("*") if path.is_file() and path.stat().st_size]
    chosen = choice.choice(notes)
    chosen.write_bytes(damaged(chosen.read_bytes(), choice, lines=True))
    (folder / "out/a.txt").unlink()
    unpack(request, lambda progress: None, environ_of(folder))
    if (folder / "out/a.txt").read_bytes() != CANARY[:20]:
        raise AssertionError("the member was not unpacked again")


@cache
def packed_template() -> dict[str, bytes]:
    """A packed data set of two shards, by file."""
    with tempfile.TemporaryDirectory() as folder:
        write_source(Path(folder) / "in")
        for _ in pack(Request(f"{folder}/in", f"{folder}/out", shard_bytes=65_536)):
            pass
        return {path.name: path.read_bytes() for path in Path(folder, "out").iterdir() if path.is_file()}


def write_source(folder: Path) -> None:
    generator = random.Random(7)
    for number in range(40):
        path = folder / f"class{number % 3}/{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.randbytes(4000) + b".")


def packed_case(choice: random.Random, folder: Path) -> None:
    """A packed data set with a damaged manifest, index or shard; of an index also with the right checksums."""
    files = dict(packed_template())
    name = choice.choice(sorted(files))
    if name.endswith(".json"):
        files[name] = damaged(files[name], choice)
    elif name.endswith(".index") and choice.random() < 0.6:
        files[name] = forged_index(files[name], choice)
    else:
        files[name] = mutated(files[name], choice)
    (folder / "packed").mkdir()
    for each, content in files.items():
        (folder / "packed" / each).write_bytes(content)
    use = choice.randrange(4)
    options: dict[str, Any] = {"decode": False, "shuffle": choice.random() < 0.5, "rank": 0, "world": 1}
    if use == 0:
        for _ in verify(str(folder / "packed"), full=True):
            pass
    elif use == 1:
        check_contents([data for data, _ in open_dataset(folder / "packed", **options)])
    elif use == 2:
        list(open_dataset(folder / "packed", as_dict=True, **options))
    else:
        dataset = open_dataset(folder / "packed", **options)
        check_contents([dataset[number][0] for number in range(-min(3, len(dataset)), min(3, len(dataset)))])


def forged_index(content: bytes, choice: random.Random) -> bytes:
    """Damage the rows, and make both checksums fit again."""
    body = bytearray(mutated(content[56:], choice)[: len(content) - 56].ljust(len(content) - 56, b"\0"))
    header = bytearray(content[:52])
    if choice.random() < 0.3:
        place = choice.randrange(8, 36)
        header[place] ^= 1 << choice.randrange(8)
    header[36:40] = struct.pack("<I", zlib.crc32(body))
    return bytes(header) + struct.pack("<I", zlib.crc32(header)) + bytes(body)


def check_contents(found: list[bytes]) -> None:
    """What comes out was packed: any other bytes would have another checksum, which a forged index may have, too."""
    if any(CANARY in content for content in found):
        raise AssertionError("something from outside was read")


def pack_journal_case(choice: random.Random, folder: Path) -> None:
    """What an interrupted attempt to pack has noted: it continues, or says that it cannot."""
    write_source(folder / "in")
    request = Request(str(folder / "in"), str(folder / "out"), shard_bytes=65_536, dedupe=choice.random() < 0.5)
    with contextlib.closing(cast("Generator[dict[str, Any]]", pack(request))) as attempt:
        for _ in attempt:
            if (folder / "out/.pack/journal").exists():
                break
    notes = sorted(path for path in (folder / "out/.pack").rglob("*") if path.is_file() and path.stat().st_size)
    if notes and choice.random() < 0.8:
        chosen = choice.choice(notes)
        try:
            content = damaged(chosen.read_bytes(), choice, lines=chosen.name == "journal")
        except ValueError:  # not JSON
            content = mutated(chosen.read_bytes(), choice)
        chosen.write_bytes(content)
    for _ in pack(request):
        pass
    for event in verify(request.out, full=True):
        if event["event"] == "result" and not (event["ok"] and event["samples"] == 40):
            raise AssertionError(f"what was continued is not complete: {event}")


def manifest_case(choice: random.Random, folder: Path) -> None:
    """The manifest of downloads, and what a killed run has left beside it."""
    entry = {
        "path": "a/b.bin",
        "source": "https://example.org/b.bin",
        "size": 3,
        "sha256": "00" * 32,
        "mtime_ns": 5,
        "downloaded": "2026-01-01T00:00:00Z",
        "boot": "an earlier one",
    }
    private = folder / "data/.ownlab-data"
    private.mkdir(parents=True)
    (folder / "data/a").mkdir()
    (folder / "data/a/b.bin").write_bytes(b"abc")
    os.utime(folder / "data/a/b.bin", ns=(5, 5))
    document = json.dumps({"format": 1, "files": [entry], "sources": ["https://example.org"]}).encode()
    line = json.dumps({**entry, "path": "a/c.bin"}).encode() + b"\n"
    which = choice.randrange(3)
    (private / "manifest.json").write_bytes(damaged(document, choice) if which != 1 else document)
    (private / "finished.jsonl").write_bytes(damaged(line, choice, lines=True) if which else line)
    store = ManifestStore(folder / "data")
    store.load()
    store.save(("https://example.org",))


def stage_case(choice: random.Random, folder: Path) -> None:
    """The record and the list of a staged copy: the copy becomes what the source is, and nothing else is touched."""
    source, environ = folder / "source", environ_of(folder)
    (source / "b").mkdir(parents=True)
    for name in ("a.txt", "b/c.txt", "d.txt"):
        (source / name).write_bytes(name.encode() * 50)
    stage(str(source), lambda progress: None, environ)
    notes = sorted(path for path in (folder / "cache").rglob("*") if path.name in ("record.json", "files.jsonl"))
    chosen = choice.choice(notes)
    chosen.write_bytes(damaged(chosen.read_bytes(), choice, lines=chosen.suffix == ".jsonl"))
    list_data_sets(environ)
    (source / "d.txt").unlink()
    report = stage(str(source), lambda progress: None, environ)
    for name in ("a.txt", "b/c.txt"):
        if (Path(report.path) / name).read_bytes() != name.encode() * 50:
            raise AssertionError(f"{name} in the copy is not what the source has")


def environ_of(folder: Path) -> dict[str, str]:
    return {"OWNLAB_HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder / "home")}


SUBJECTS: dict[str, Case] = {
    "archive": archive_case,
    "unpack-journal": unpack_journal_case,
    "packed": packed_case,
    "pack-journal": pack_journal_case,
    "manifest": manifest_case,
    "stage": stage_case,
}


def run(subject: str, seed: int) -> tuple[str, list[str]]:
    """Run one case; return how it ended, and its faults."""
    choice, faults, outcome = random.Random(f"{subject} {seed}"), [], "a result"
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        (Path(name) / "canary").write_bytes(CANARY)
        (Path(name) / "case").mkdir()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zipfile warns of the names that are made here
                SUBJECTS[subject](choice, Path(name) / "case")
        except (OwnlabError, DataError):
            outcome = "an error of ours"
        except Exception:  # noqa: BLE001  # any other one is what is looked for
            faults.append(traceback.format_exc())
        if sorted(os.listdir(name)) != ["canary", "case"] or (Path(name) / "canary").read_bytes() != CANARY:
            faults.append(f"something outside was changed: {os.listdir(name)}")
        shutil.rmtree(Path(name) / "case", ignore_errors=True)
    return outcome, faults


def main() -> None:
    """Run many cases of a subject and say what happened."""
    subject, count = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    begin, failed, errors = time.monotonic(), 0, 0
    for seed in range(first, first + count):
        outcome, faults = run(subject, seed)
        errors += outcome != "a result"
        failed += bool(faults)
        if faults:
            print(f"seed {seed}: {' '.join(faults)}", flush=True)
    took = time.monotonic() - begin
    print(f"{subject}: {count} cases, {errors} errors of ours, {failed} with faults, {took:.0f} s", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
