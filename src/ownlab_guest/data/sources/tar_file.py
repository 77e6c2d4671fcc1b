"""Tars: an uncompressed one is listed and read by offset; a compressed one is one stream, whose bytes are kept as they pass."""

import lzma
import os
import tarfile
import zlib
from functools import cached_property
from typing import Any, ContextManager, Dict, Iterator, Optional, Tuple

from ownlab_guest.data import tar_members
from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.sources.source import (
    MOST_MEMBER_BYTES,
    Entry,
    File,
    Layout,
    Options,
    Part,
    Source,
    is_data,
    layout_of,
    samples_of,
)
from ownlab_guest.text import text


class _Tar(Source):
    def __init__(self, path: str, options: Options) -> None:
        self.path, self._options = path, options

    @cached_property
    def _layout(self) -> Layout:
        """Found when it is needed: it takes reading the tar once, and continuing packing may not need it."""
        return layout_of(self.path, self._names(), self._options.only)

    def identity(self) -> Dict[str, Any]:
        status = os.stat(self.path)
        return {"kind": "tar", "path": os.path.realpath(self.path), "size": status.st_size, "mtime": status.st_mtime_ns}

    def _names(self) -> Iterator[str]:
        raise NotImplementedError

    def _kept(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        self.left_out = 0
        for entry in entries:
            if entry.label is None and self._layout.has_folders:
                self.left_out += 1
            else:
                yield entry


class TarSource(_Tar):
    """The files of an uncompressed tar. Samples of WebDataset (key.jpg, key.cls) stay samples."""

    def __init__(self, path: str, options: Options) -> None:
        super().__init__(path, options)
        self._file = open_regular(path)

    def close(self) -> None:
        os.close(self._file)

    def entries(self) -> Iterator[Entry]:
        yield from self._kept(self._with_labels(samples_of(self._files())))

    def _names(self) -> Iterator[str]:
        return (file.name for file in _data_files(tar_members.regular_files(self.path)))

    def _files(self) -> Iterator[File]:
        root = self._layout.root
        for file in _data_files(tar_members.regular_files(self.path)):
            if file.name.startswith(root):
                yield File(file.name[len(root) :], file.size, f"{file.offset}:{file.size}")

    def _with_labels(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            classes = [part for part in entry.parts if part.extension == "cls"]
            yield entry._replace(label=_number(self.fetch(classes[0].place))) if classes else entry

    def fetch(self, place: str) -> bytes:
        offset, size = map(int, place.split(":"))
        if size > MOST_MEMBER_BYTES:
            raise DataError(text("a member of {path} is larger than 256 MiB", path=self.path))
        content = os.pread(self._file, size, offset)
        if len(content) != size:
            raise DamagedData(text("{path} is cut off", path=self.path))
        return content


class CompressedTarSource(_Tar):
    """The files of a compressed tar, read from its beginning to its end."""

    by_reference = False

    def entries(self) -> Iterator[Entry]:
        yield from self._kept(self._joined())

    def _names(self) -> Iterator[str]:
        return (name for name, _ in self._members(read=False))

    def _joined(self) -> Iterator[Entry]:
        """Give the entries the bytes that were read while their files were listed."""
        contents: Dict[str, bytes] = {}
        for entry in samples_of(self._files(contents)):
            parts = tuple(Part(part.extension, part.size, contents.pop(part.place)) for part in entry.parts)
            label = next((_number(part.data) for part in parts if part.extension == "cls"), entry.label)
            yield Entry(entry.name, label, parts)

    def _files(self, contents: Dict[str, bytes]) -> Iterator[File]:
        root = self._layout.root
        for number, (name, content) in enumerate(self._members(read=True, below=root)):
            place = str(number)
            contents[place] = content
            yield File(name[len(root) :], len(content), place)

    def _opened(self) -> "ContextManager[tarfile.TarFile]":
        return tarfile.open(self.path, "r|*", errors="surrogateescape")

    def _members(self, *, read: bool, below: str = "") -> "Iterator[Tuple[str, bytes]]":
        try:
            with self._opened() as archive:
                for member in archive:
                    name = _clean(member.name)
                    if member.isreg() and is_data(name) and name.startswith(below):
                        yield name, self._content(archive, member) if read else b""
                    archive.members = []  # type: ignore[attr-defined]  # tarfile keeps them all
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as exc:
            if isinstance(exc, DataError):
                raise
            raise DamagedData(text("{path} is damaged: {reason}.", path=self.path, reason=exc)) from exc

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
        if member.size > MOST_MEMBER_BYTES:
            raise DataError(text("{name} in {path} is larger than 256 MiB.", name=member.name, path=self.path))
        file = archive.extractfile(member)
        assert file is not None  # a regular file
        return file.read()


def _data_files(files: "Iterator[tar_members.TarFile]") -> "Iterator[tar_members.TarFile]":
    for file in files:
        name = _clean(file.name)
        if is_data(name):
            yield file._replace(name=name)


def _clean(name: str) -> str:
    while name.startswith(("./", "/")):
        name = name[2:] if name.startswith("./") else name[1:]
    return name


def _number(content: Optional[bytes]) -> "Optional[int]":
    """Return what a .cls of WebDataset says."""
    try:
        return int((content or b"").strip())
    except ValueError:
        return None
