"""The files of a packed data set as a reader needs them: open shards and checked indexes, a bounded number of each."""

import mmap
import os
import threading
import zlib
from collections import OrderedDict
from typing import NamedTuple, Optional, Sequence

from ownlab_guest.data import manifest
from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.manifest import Manifest
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.shard_index import ShardIndex
from ownlab_guest.data.shard_writer import index_name
from ownlab_guest.text import text

# More than the shards of three windows (block_reader.py), each of which may touch two groups (epoch_order.py).
_OPEN = 40
_MOST_INDEX_BYTES = 1 << 30


class ShardFile(NamedTuple):
    """An open tar."""

    descriptor: int
    memory: Optional[memoryview]  # the same, mapped; None if its size is not that of the manifest
    identity: int  # another file, or one that was written to, has another one


def _mapped(descriptor: int, size: int) -> ShardFile:
    status = os.fstat(descriptor)
    fits = status.st_size == size and size > 0
    memory = memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)) if fits else None
    parts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    # 0 is what nothing was checked of
    return ShardFile(descriptor, memory, zlib.crc32(repr(parts).encode()) + 1)


def _opened(path: str) -> int:
    """Open a tar that is read in blocks: reading ahead beyond a block would take the disk from the next one."""
    file = open_regular(path)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    return file


class ShardStore:
    """A packed data set in a folder. Each process opens the files for itself: a copy in a worker begins anew."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.manifest: Manifest = manifest.read(folder)
        self._reset()

    def path(self, name: str) -> str:
        """Return the path of a file of the data set."""
        return os.path.join(self.folder, name)

    def expect(self, shards: Sequence[int]) -> None:
        """These shards will be needed, in this order. A store that fetches them from elsewhere begins to."""

    def index(self, shard: int) -> ShardIndex:
        """Return the index of a shard. Raises DamagedData."""
        self._after_fork()
        with self._lock:
            found = self._indexes.get(shard)
            if found is None:
                found = self._read_index(shard)
                self._indexes[shard] = found
                if len(self._indexes) > _OPEN:
                    self._indexes.popitem(last=False)
            self._indexes.move_to_end(shard)
        return found

    def file(self, shard: int) -> ShardFile:
        """Return an open tar. Its descriptor is valid until 40 other shards were asked for."""
        self._after_fork()
        with self._lock:
            found = self._files.get(shard)
            if found is None:
                found = self._files[shard] = _mapped(self._open(shard), self.manifest.shards[shard].bytes)
                if len(self._files) > _OPEN:
                    os.close(self._files.popitem(last=False)[1].descriptor)
            self._files.move_to_end(shard)
        return found

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            while self._files:
                os.close(self._files.popitem()[1].descriptor)

    def __getstate__(self) -> "dict[str, object]":
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_lock", "_files", "_indexes", "_pid", "_ahead")
        }

    def __setstate__(self, state: "dict[str, object]") -> None:
        vars(self).update(state)
        self._reset()

    def __del__(self) -> None:
        if hasattr(self, "_files") and self._pid == os.getpid():
            self.close()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._files: "OrderedDict[int, ShardFile]" = OrderedDict()
        self._indexes: "OrderedDict[int, ShardIndex]" = OrderedDict()
        self._pid = os.getpid()

    def _after_fork(self) -> None:
        """A lock that another thread held when this process was forked would never be free."""
        if self._pid != os.getpid():
            self._reset()

    def _open(self, shard: int) -> int:
        entry = self.manifest.shards[shard]
        path = self.path(entry.name)
        try:
            return _opened(path)
        except OSError as exc:
            raise DataError(
                text("Cannot read {path}: {reason}.", path=path, reason=exc.strerror),
                hint=text("`ownlab data verify FOLDER --repair SOURCE` makes missing shards again."),
            ) from exc

    def _read_index(self, shard: int) -> ShardIndex:
        entry = self.manifest.shards[shard]
        name = index_name(entry.name)
        try:
            with open(self.path(name), "rb", opener=open_regular) as file:
                content = file.read(_MOST_INDEX_BYTES)
        except OSError as exc:
            raise DataError(
                text("Cannot read {path}: {reason}.", path=self.path(name), reason=exc.strerror),
                hint=text("`ownlab data verify FOLDER --repair SOURCE` makes missing indexes again."),
            ) from exc
        index = ShardIndex(content, name)
        if len(index) != entry.samples or index.tar_bytes != entry.bytes:
            raise DamagedData(
                text("{name} belongs to another data set than its {file}.", name=name, file=manifest.FILE)
            )
        return index
