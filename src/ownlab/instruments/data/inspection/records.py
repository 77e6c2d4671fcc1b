"""What `ownlab data inspect` prints as JSON."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["BrokenFile", "Column", "DataClass", "FileKind", "Illustrated", "ImageSize", "Inspection", "Thumbnail"]


class FileKind(Struct, frozen=True):
    extension: str
    files: int
    bytes: int
    smallest: int
    largest: int


class DataClass(Struct, frozen=True):
    name: str
    samples: int


class ImageSize(Struct, frozen=True):
    width: int
    height: int
    images: int


class BrokenFile(Struct, frozen=True):
    name: str
    reason: str


class Column(Struct, frozen=True):
    name: str
    kind: str
    rows: int
    filled: int | None = None  # of the rows that were looked at
    distinct: int | None = None


class Inspection(Struct, frozen=True):
    """What a folder, an archive, a table or a packed data set contains."""

    path: str
    kind: Literal["files", "packed"]
    files: int
    bytes: int
    kinds: tuple[FileKind, ...]  # the largest first
    classes: tuple[DataClass, ...]  # the most frequent first
    image_sizes: tuple[ImageSize, ...]  # the twenty most frequent
    image_size_count: int
    images_checked: bool  # False: there are images, and Pillow is missing
    broken: tuple[BrokenFile, ...]  # the first hundred
    broken_count: int
    duplicates: tuple[str, ...]  # the first hundred; the first of equal files is none
    duplicate_count: int
    left_out: int
    columns: tuple[Column, ...]
    seconds: float

    @property
    def is_table(self) -> bool:
        """Whether its files are the rows of a table."""
        return bool(self.columns) and self.columns[0].rows == self.files


class Thumbnail(Struct, frozen=True):
    """A small picture of an image somewhere in the data."""

    name: str
    label: str
    width: int  # of the image itself
    height: int
    jpeg: str  # in base64


class Illustrated(Inspection, frozen=True):
    """An inspection with thumbnails; they are shown, never printed as JSON."""

    thumbnails: tuple[Thumbnail, ...] = ()

    def plain(self) -> Inspection:
        """Return it without them."""
        return Inspection(*(getattr(self, name) for name in Inspection.__struct_fields__))
