"""Which samples were checked already, in memory that this process shares with the workers that it forks.

A file that was opened anew and is not the one that was checked is checked again.
"""

import contextlib
import importlib
import itertools
import mmap
import struct
import zlib
from typing import Any, Callable, Dict, Sequence, Union

from ownlab_guest.data.manifest import Shard

_IDENTITY = struct.Struct("<Q")
# What is noted of a sample: its payload, or all of its members, are as they were packed.
NOTHING, PAYLOAD, WHOLE = 0, 1, 2
Crc32 = Callable[[Union[memoryview, bytes]], int]


def fastest_crc32() -> Crc32:
    """Return the fastest CRC-32 here. That of many a zlib costs more than reading; these others have the CPU compute it."""
    for name in ("isal.isal_zlib", "zlib_ng.zlib_ng"):
        with contextlib.suppress(Exception):  # not installed, or not for this CPU
            found: Crc32 = importlib.import_module(name).crc32
            return found
    return zlib.crc32


class CheckedSamples:
    """A byte for each sample, and what tells the file of each shard from another one."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        identities = len(shards) * _IDENTITY.size
        self._starts = list(itertools.accumulate((shard.samples for shard in shards), initial=identities))
        self._reset()

    def opened(self, shard: int, identity: int) -> None:
        """Say which file is read now. Another one than before is not checked yet."""
        place = shard * _IDENTITY.size
        packed = _IDENTITY.pack(identity)
        if self.memory[place : place + _IDENTITY.size] != packed:
            start, end = self._starts[shard], self._starts[shard + 1]
            self.memory[start:end] = bytes(end - start)
            self.memory[place : place + _IDENTITY.size] = packed

    def place(self, shard: int, sample: int) -> int:
        """Where a sample is noted: a key of this object, whose value is what of it was checked."""
        return self._starts[shard] + sample

    def all(self, place: int, count: int) -> bool:
        """Whether the payloads of some samples that follow each other were all checked."""
        return self.memory.find(b"\0", place, place + count) < 0

    def __getitem__(self, place: int) -> int:
        return self.memory[place]

    def __setitem__(self, place: int, value: int) -> None:
        self.memory[place] = value

    def _reset(self) -> None:
        self.memory = mmap.mmap(-1, max(1, self._starts[-1]))

    def __getstate__(self) -> "Dict[str, Any]":
        return {"_starts": self._starts}

    def __setstate__(self, state: "Dict[str, Any]") -> None:
        vars(self).update(state)
        self._reset()
