"""Writes one shard: a tar and its index, which get their names when they are complete and on the disk."""

import os
import zlib
from typing import List, NamedTuple, Optional, Tuple

from ownlab_guest.atomic_files import replace_durably, sync
from ownlab_guest.data import tar_members
from ownlab_guest.data.manifest import Shard
from ownlab_guest.data.shard_index import SUFFIX, Member, Sample, encode_index

PART = ".part"
_BUFFER = 1 << 20
_LABEL = "cls"  # the extension that WebDataset and DALI read as the label
# The number before it has ten digits; the extension after it 24 characters at most.
_MOST_STEM = 60


class Payload(NamedTuple):
    """A member to be written, with its checksum."""

    extension: str
    data: bytes
    crc: int


def index_name(tar_name: str) -> str:
    """Return the name of the index beside a tar: data-00000.tar has data-00000.index."""
    return tar_name[: -len(".tar")] + SUFFIX


def key_of(number: int, name: str) -> str:
    """Make the key of a sample: its number makes it unique, its name readable. It is plain ASCII without dots or folders."""
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    readable = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in stem)
    return f"{number:09d}_{readable[:_MOST_STEM]}" if readable else f"{number:09d}"


class ShardWriter:
    """A shard that is being written."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name = folder, name
        self._path = os.path.join(folder, name)
        self._file = open(self._path + PART, "wb", buffering=_BUFFER)  # noqa: SIM115  # finish() or abandon() closes it
        self.samples: List[Sample] = []
        self.position = 0
        self.payload_bytes = 0

    def add(self, key: str, name: str, label: Optional[int], payloads: "List[Payload]") -> None:
        """Write the members of one sample, and its label as a member."""
        members = [self._write(key, payload) for payload in payloads]
        if label is not None and all(payload.extension != _LABEL for payload in payloads):
            content = b"%d" % label
            members.append(self._write(key, Payload(_LABEL, content, zlib.crc32(content))))
        self.samples.append(Sample(key, name, label, tuple(members)))

    def _write(self, key: str, payload: Payload) -> Member:
        size = len(payload.data)
        write = self._file.write
        write(tar_members.header(f"{key}.{payload.extension}", size))
        write(payload.data)
        if size % tar_members.BLOCK:
            write(tar_members.padding(size))
        offset = self.position + tar_members.BLOCK
        self.position = offset + size + -size % tar_members.BLOCK
        self.payload_bytes += size
        return Member(payload.extension, offset, size, payload.crc)

    def finish(self) -> Shard:
        """Complete both files. The tar gets its name last but one: a reader that sees the index sees the tar."""
        self._file.write(tar_members.END)
        sync(self._file)
        self._file.close()
        os.replace(self._path + PART, self._path)
        size = self.position + len(tar_members.END)
        index = encode_index(self.samples, size)
        replace_durably(os.path.join(self.folder, index_name(self.name)), index)
        return Shard(self.name, len(self.samples), size, len(index))

    def abandon(self) -> None:
        """Close an incomplete shard; its file is replaced when packing continues."""
        self._file.close()


def shard_name(number: int) -> "str":
    """Return the name of the tar with this number."""
    return f"data-{number:05d}.tar"


def names_of(shard: Shard) -> "Tuple[str, str]":
    """Return the names of both files."""
    return shard.name, index_name(shard.name)
