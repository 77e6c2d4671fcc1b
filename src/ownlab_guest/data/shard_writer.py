"""Writes one shard: a tar and its index, which get their names when they are complete and on the disk."""

import os
import re
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Deque, List, NamedTuple, Optional, Sequence, Tuple, Union

from ownlab_guest.atomic_files import replace_durably, sync
from ownlab_guest.data import tar_members
from ownlab_guest.data.manifest import Shard
from ownlab_guest.data.shard_index import SUFFIX, Member, Sample, encode_index

PART = ".part"
# What is written at once, and how much of it may wait. The kernel takes 1,024 parts; a sample's member has three.
_BATCH_BYTES, _MOST_PARTS, _MOST_WAITING = 4 << 20, 1000, 16 << 20
_LABEL = "cls"  # the extension that WebDataset and DALI read as the label
# The number before it has ten digits; the extension after it 24 characters at most.
_MOST_STEM = 60
_UNREADABLE = re.compile("[^0-9A-Za-z_-]")


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
    readable = _UNREADABLE.sub("_", stem)
    return f"{number:09d}_{readable[:_MOST_STEM]}" if readable else f"{number:09d}"


class ShardWriter:
    """A shard that is being written, by a thread of `writers`: whoever fills it need not wait for the disk."""

    def __init__(self, folder: str, name: str, writers: ThreadPoolExecutor) -> None:
        """writers: has one thread, so that what is handed over first is written first."""
        self.folder, self.name = folder, name
        self._path = os.path.join(folder, name)
        self._file = open(self._path + PART, "wb", buffering=0)  # noqa: SIM115  # finish() or abandon() closes it
        self._writers = writers
        self._parts: List[bytes] = []
        self._part_bytes = 0
        self._handed_over: "Deque[Tuple[Future[None], int]]" = deque()  # with their bytes
        self._waiting_bytes = 0
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
        self._parts += (tar_members.header(f"{key}.{payload.extension}", size), payload.data)
        if size % tar_members.BLOCK:
            self._parts.append(tar_members.padding(size))
        self._part_bytes += size
        if self._part_bytes >= _BATCH_BYTES or len(self._parts) >= _MOST_PARTS:
            self._hand_over()
        offset = self.position + tar_members.BLOCK
        self.position = offset + size + -size % tar_members.BLOCK
        self.payload_bytes += size
        return Member(payload.extension, offset, size, payload.crc)

    def _hand_over(self) -> None:
        """Have written what is collected. Raises OSError if writing has failed."""
        parts, size, self._parts, self._part_bytes = self._parts, self._part_bytes, [], 0
        self._handed_over.append((self._writers.submit(self._write_all, parts), size))
        self._waiting_bytes += size
        del parts
        self._wait(_MOST_WAITING)

    def _wait(self, most: int) -> None:
        """Wait until no more bytes than these are to be written."""
        while self._handed_over and (self._waiting_bytes > most or not most):
            written, size = self._handed_over.popleft()
            written.result()
            self._waiting_bytes -= size

    def finish(self) -> Shard:
        """Complete both files. The tar gets its name last but one: a reader that sees the index sees the tar."""
        self._parts.append(tar_members.END)
        self._hand_over()
        self._wait(0)
        sync(self._file)
        self._file.close()
        os.replace(self._path + PART, self._path)
        size = self.position + len(tar_members.END)
        index = encode_index(self.samples, size)
        replace_durably(os.path.join(self.folder, index_name(self.name)), index)
        return Shard(self.name, len(self.samples), size, len(index))

    def abandon(self) -> None:
        """Close an incomplete shard; its file is replaced when packing continues."""
        wait(written for written, _ in self._handed_over)  # their failures are why it is given up
        self._file.close()

    def _write_all(self, parts: "Sequence[Union[bytes, memoryview]]") -> None:
        """Write all parts without joining them."""
        while parts:
            written = os.writev(self._file.fileno(), parts)
            for number, part in enumerate(parts):
                if written < len(part):
                    # the rest of what was written in part
                    parts = [memoryview(part)[written:], *parts[number + 1 :]]
                    break
                written -= len(part)
            else:
                return


def shard_name(number: int) -> "str":
    """Return the name of the tar with this number."""
    return f"data-{number:05d}.tar"


def names_of(shard: Shard) -> "Tuple[str, str]":
    """Return the names of both files."""
    return shard.name, index_name(shard.name)
