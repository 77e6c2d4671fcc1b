"""Files to be packed, made on the spot, and what a packed data set contains."""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
from pathlib import Path
from typing import Any

from ownlab_guest.data.dataset import PackedDataset, open_dataset
from ownlab_guest.data.packing import Request, pack

__all__ = [
    "contents",
    "digest_of",
    "make_folder",
    "names_of",
    "open_names",
    "pack_all",
    "tar_contents",
    "tar_of",
    "write_files",
]


def make_folder(root: Path, files: int, *, classes: int = 3, size: int = 3000, seed: int = 0) -> dict[str, bytes]:
    """Make a folder of classes with files of random bytes; return them by name."""
    generator = random.Random(seed)
    made = {}
    for number in range(files):
        name = f"class{number % classes}/file{number:04d}.jpg"
        made[name] = generator.randbytes(generator.randint(1, size))
    write_files(root, made)
    return made


def write_files(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def pack_all(path: Path | str, out: Path, **options: Any) -> dict[str, Any]:
    """Pack to the end, and return the result."""
    *_, result = pack(Request(str(path), str(out), **{"shard_bytes": 100_000, **options}))
    assert result["event"] == "result"
    return result


def contents(out: Path) -> dict[str, bytes]:
    """Return what the reader gives: the first member of each sample, by its name in the source."""
    dataset = open_dataset(out, as_dict=True, decode=False, rank=0, world=1)
    return {
        sample["__name__"]: next(v for k, v in sample.items() if k.split(".")[-1] in ("jpg", "txt", "json", "bin"))
        for sample in dataset
    }


def tar_contents(out: Path) -> dict[str, bytes]:
    """Return what Python's tarfile finds in the shards, by the names in the tar."""
    found: dict[str, bytes] = {}
    for path in sorted(out.glob("*.tar")):
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                assert member.name not in found
                found[member.name] = file.read()
    return found


def open_names(out: Path | str, **options: Any) -> list[str]:
    """Return the names of the samples in the order in which they are read."""
    dataset = open_dataset(out, **{"as_dict": True, "decode": False, **options})
    return names_of(dataset)


def names_of(dataset: PackedDataset) -> list[str]:
    return [sample["__name__"] for sample in dataset]


def digest_of(folder: Path) -> str:
    """Return a digest of all shards and indexes."""
    hashed = hashlib.sha256()
    for path in sorted(folder.glob("data-*")):
        hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()


def tar_of(files: dict[str, bytes], path: Path, mode: str = "w") -> Path:
    """Make a tar of these files."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
