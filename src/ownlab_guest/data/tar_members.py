"""Headers of tar members as the shards have them: ustar, with nothing that depends on the time or the machine."""

import tarfile
from typing import Iterator, List, NamedTuple, Tuple

from ownlab_guest.data.errors import DamagedData
from ownlab_guest.text import text

BLOCK = 512
# Two empty blocks end an archive.
END = bytes(2 * BLOCK)
_MOST_OCTAL = 8**11
# The fields that are the same in all headers; summing them up again for each would cost as much as all the rest of a header.
_MODE_AND_OWNER = b"0000644\0" + b"0000000\0" * 2
_TIME = b"%011o\0" % 0
_AFTER = b"0" + bytes(100) + b"ustar\x0000" + bytes(32) * 2 + b"0000000\0" * 2 + bytes(155 + 12)
_FIXED_SUM = sum(_MODE_AND_OWNER) + sum(_TIME) + sum(_AFTER) + 8 * 32
# Up to here a name needs no extension of the format.
MOST_NAME = 100


def header(name: str, size: int) -> bytes:
    """Make the header of a regular file. The same name and size always give the same bytes. Raises DamagedData."""
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > MOST_NAME:  # in an index that is damaged: ours are never so long
        raise DamagedData(text("The name of a member is too long: {name}.", name=name))
    length = b"%011o\0" % size if size < _MOST_OCTAL else b"\x80" + size.to_bytes(11, "big")
    checksum = sum(encoded) + sum(length) + _FIXED_SUM
    return b"%b%b%b%b%06o\0 %b" % (encoded.ljust(100, b"\0"), _MODE_AND_OWNER, length, _TIME, checksum, _AFTER)


def padding(size: int) -> bytes:
    """Return the zeros that fill the last block of a member."""
    return bytes(-size % BLOCK)


class TarFile(NamedTuple):
    """A regular file in a tar."""

    name: str
    offset: int  # of its data
    size: int


def regular_files(path: str) -> Iterator[TarFile]:
    """Yield the regular files of an uncompressed tar, in its order. Raises DamagedData."""
    try:
        with tarfile.open(path, "r:", errors="surrogateescape") as archive:
            for member in archive:
                if member.isreg() and not member.issparse():
                    yield TarFile(member.name, member.offset_data, member.size)
                archive.members = []  # type: ignore[attr-defined]  # tarfile keeps them all
    except (tarfile.TarError, EOFError, ValueError) as exc:
        raise DamagedData(text("{path} is damaged: {reason}.", path=path, reason=exc)) from exc


def split_key(name: str) -> "Tuple[str, str]":
    """Split a name at the first dot of its last part, as WebDataset does: "a/b.seg.png" -> ("a/b", "seg.png")."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension


def grouped(files: Iterator[TarFile]) -> "Iterator[Tuple[str, List[Tuple[str, TarFile]]]]":
    """Yield the files with the same key that stand together, as (key, [(extension, file), …])."""
    current, members = "", []  # type: str, List[Tuple[str, TarFile]]
    for file in files:
        key, extension = split_key(file.name)
        if members and key != current:
            yield current, members
            members = []
        current = key
        members.append((extension, file))
    if members:
        yield current, members
