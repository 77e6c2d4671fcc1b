"""The members of a tar archive, as a stream: compressed in any way, or converted by libarchive's `bsdtar`."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, cast

from ownlab.errors import InputError
from ownlab.instruments.data.archives.errors import CorruptArchive
from ownlab.instruments.data.archives.member_path import decode_name
from ownlab.instruments.data.archives.recognition import Format
from ownlab.instruments.data.archives.records import Member, MemberKind
from ownlab.text import text

__all__ = ["TarReader", "decompressed", "libarchive_as_tar"]

_BLOCK = 2**20


class TarReader:
    """Reads from front to back: nothing is known in advance."""

    total: int | None = None
    count: int | None = None

    def __init__(self, stream: BinaryIO, encoding: str = "") -> None:
        """Begin to read. Raises tarfile.TarError."""
        self._tar = tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK, errors="surrogateescape")  # noqa: SIM115
        self._encoding = encoding

    def members(self) -> Iterator[Member]:
        """Yield the members; each has to be read before the next one."""
        number = 0
        while (info := self._tar.next()) is not None:
            self._tar.members = []  # type: ignore[attr-defined]  # it would keep every header of a million members
            yield Member(
                number,
                self._text(info.name),
                _kind(info),
                info.size,
                float(info.mtime),
                bool(info.mode & 0o111) and info.isreg(),
                self._text(info.linkname),
                partial(self._open, info),
            )
            number += 1

    def _open(self, info: tarfile.TarInfo) -> BinaryIO:
        file = self._tar.extractfile(info)
        if file is None:
            raise CorruptArchive(text("A member of the archive has no content."))
        return cast("BinaryIO", file)

    def _text(self, name: str) -> str:
        try:
            name.encode()
        except UnicodeEncodeError:  # bytes that are not UTF-8
            return decode_name(name.encode("utf-8", "surrogateescape"), self._encoding)
        return name


def _kind(info: tarfile.TarInfo) -> MemberKind:
    if info.isreg():
        return "file"
    if info.isdir():
        return "folder"
    if info.issym():
        return "symlink"
    return "hardlink" if info.islnk() else "device"


def decompressed(file: BinaryIO, kind: Format) -> BinaryIO:
    """Return what is inside of a compressed file."""
    if kind == "gz":
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if kind == "bz2":
        return cast("BinaryIO", bz2.BZ2File(file))
    if kind == "xz":
        return cast("BinaryIO", lzma.LZMAFile(file))
    if kind == "zst":
        return _zstandard(file)
    return file


def _zstandard(file: BinaryIO) -> BinaryIO:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        return cast("BinaryIO", io.BufferedReader(_Filter(["zstd", "-dc"], file, "zstd", "zstd"), _BLOCK))
    return cast("BinaryIO", zstd.ZstdFile(file))


def libarchive_as_tar(path: str) -> BinaryIO:
    """Return an archive that Python cannot read (7z, rar) as a tar stream. Its members are checked as those of any tar."""
    command = ["bsdtar", "-cf", "-", "--format", "pax", f"@{path}"]
    return cast("BinaryIO", io.BufferedReader(_Filter(command, None, "bsdtar", "libarchive-tools"), _BLOCK))


class _Filter(io.RawIOBase):
    """The output of a program; its failure is an error at the end of the output."""

    def __init__(self, command: list[str], source: BinaryIO | None, program: str, package: str) -> None:
        if shutil.which(program) is None:
            raise InputError(
                text("This archive needs the program {program}, which is not installed.", program=program),
                hint=text(
                    "Install it: apt install {package} (conda install -c conda-forge {package})", package=package
                ),
            )
        self._name = program
        stdin = subprocess.DEVNULL if source is None else subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._complaints: list[bytes] = []
        self._feeder = threading.Thread(target=self._feed, args=(source,), daemon=True)
        self._feeder.start()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _feed(self, source: BinaryIO | None) -> None:
        if source is None or self._process.stdin is None:
            return
        try:
            with self._process.stdin as pipe:
                while block := source.read(_BLOCK):
                    pipe.write(block)
        except OSError:
            return  # the program ended, and says why

    def _listen(self) -> None:
        assert self._process.stderr is not None
        self._complaints.append(self._process.stderr.read(4000))
        while self._process.stderr.read(_BLOCK):
            pass

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read from the program. Raises CorruptArchive if it has failed."""
        assert self._process.stdout is not None
        count: int = self._process.stdout.readinto(buffer)  # type: ignore[attr-defined]
        if not count and self._process.wait() != 0:
            self._listener.join()
            complaint = b"".join(self._complaints).decode(errors="replace").strip().splitlines()
            raise CorruptArchive(
                text(
                    "{program} cannot read the archive: {cause}",
                    program=self._name,
                    cause=complaint[-1] if complaint else "",
                )
            )
        return count

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        super().close()
