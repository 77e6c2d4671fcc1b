"""A folder of files. The first level of folders are the classes, as in torchvision's ImageFolder."""

import contextlib
import heapq
import os
import tempfile
from typing import IO, Any, Dict, Iterator, List, Optional, Tuple

from ownlab_guest.data.errors import DataError
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.sources.source import (
    MOST_MEMBER_BYTES,
    Entry,
    File,
    Options,
    Source,
    is_data,
    no_folder,
    refuse_splits,
    samples_of,
    split_name,
)
from ownlab_guest.text import text

# Names of one folder that are sorted in memory; more are sorted in parts on disk.
_SORTED_AT_ONCE = 200_000


class FolderSource(Source):
    """The files below a folder, in the order of their names."""

    def __init__(self, path: str, options: Options) -> None:
        self.path = _only_folder(_below(path, options.only))
        folders = sorted(name for name, is_folder in _listed(self.path) if is_folder)
        inner = os.path.relpath(self.path, path)
        refuse_splits(path, folders, "" if inner == os.curdir else inner + "/")
        self._has_folders = bool(folders)

    def identity(self) -> Dict[str, Any]:
        return {"kind": "folder", "path": os.path.realpath(self.path)}

    def entries(self) -> Iterator[Entry]:
        self.left_out = 0
        for entry in samples_of(self._files("")):
            if entry.label is None and self._has_folders:
                self.left_out += 1  # a README beside the classes
            else:
                yield entry

    def size_of(self, place: str) -> Optional[int]:
        try:
            return os.stat(os.path.join(self.path, place)).st_size
        except (OSError, ValueError):
            return None  # fetch says why

    def fetch(self, place: str) -> bytes:
        descriptor = open_regular(os.path.join(self.path, place))
        try:
            size = os.fstat(descriptor).st_size
            if size > MOST_MEMBER_BYTES:
                raise DataError(text("{name} is larger than 256 MiB.", name=place))
            # One byte more than expected shows the end; most files are read by one call.
            content = os.read(descriptor, size + 1)
            while len(content) < size:
                more = os.read(descriptor, size + 1 - len(content))
                if not more:
                    break
                content += more
        finally:
            os.close(descriptor)
        return content

    def _files(self, below: str) -> Iterator[File]:
        """Yield files and folders in the order of their names, depth first."""
        folder = os.path.join(self.path, below)
        for name, is_folder in _sorted(_listed(folder)):
            inner = below + name
            if is_folder:
                yield from self._files(inner + "/")
            else:
                yield File(inner, 0, inner)


def _below(path: str, only: Optional[str]) -> str:
    if only is None:
        return path
    inner = os.path.join(path, only.strip("/"))
    inside = os.path.realpath(inner).startswith(os.path.realpath(path) + os.sep)
    if not inside or not os.path.isdir(inner):
        raise no_folder(path, only, _deeper(path, os.path.basename(inner)))
    return inner


def _deeper(path: str, name: str) -> "List[str]":
    """Return the folders of a name one level deeper: archives are often packed in a folder."""
    with contextlib.suppress(OSError, DataError):
        folders = [first for first, is_folder in _listed(path) if is_folder]
        return [f"{first}/{name}" for first in sorted(folders) if os.path.isdir(os.path.join(path, first, name))]
    return []


def _only_folder(path: str) -> str:
    """Go down while a folder has one folder and nothing else: archives are often packed so."""
    with contextlib.suppress(StopIteration):
        while True:
            entries = _listed(path)
            first = next(entries)
            if not first[1] or next(entries, None) is not None:
                return path
            inner = os.path.join(path, first[0])
            # The folder of the only class is a class, not a wrapping.
            if not any(is_folder for _, is_folder in _listed(inner)):
                return path
            path = inner
    raise DataError(text("{path} is empty.", path=path))


def _listed(folder: str) -> "Iterator[Tuple[str, bool]]":
    """Yield (name, whether it is a folder) of what is data. Links to files are followed, links to folders are not."""
    try:
        with os.scandir(folder) as found:
            for item in found:
                if not is_data(item.name):
                    continue
                if item.is_dir(follow_symlinks=False):
                    yield item.name, True
                elif item.is_file():  # neither a pipe nor a device
                    yield item.name, False
    except OSError as exc:
        raise DataError(text("Cannot list {folder}: {reason}.", folder=folder, reason=exc.strerror)) from exc


def _sorted(names: "Iterator[Tuple[str, bool]]") -> "Iterator[Tuple[str, bool]]":
    """Sort by stem and extension, so that files of one sample stand together; in bounded memory."""
    with contextlib.ExitStack() as files:
        parts: List[Iterator[Tuple[str, bool]]] = []
        rows: List[Tuple[str, bool]] = []
        for row in names:
            rows.append(row)
            if len(rows) == _SORTED_AT_ONCE:
                parts.append(_on_disk(sorted(rows, key=_order), files))
                rows = []
        rows.sort(key=_order)
        yield from heapq.merge(*parts, rows, key=_order)


def _order(row: "Tuple[str, bool]") -> "Tuple[str, str, str]":
    stem, extension = split_name(row[0])
    return stem, extension, row[0]


def _on_disk(rows: "List[Tuple[str, bool]]", files: contextlib.ExitStack) -> "Iterator[Tuple[str, bool]]":
    file = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # the stack closes it
    for name, is_folder in rows:
        file.write(b"%d%s\0" % (is_folder, os.fsencode(name)))
    file.seek(0)
    return _read_rows(file)


def _read_rows(file: "IO[bytes]") -> "Iterator[Tuple[str, bool]]":
    rest = b""
    while part := file.read(1 << 16):
        *rows, rest = (rest + part).split(b"\0")
        for row in rows:
            yield os.fsdecode(row[1:]), row[:1] == b"1"
