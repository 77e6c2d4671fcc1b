"""Records of staged copies and of the list of data sets."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["CopyRecord", "DataSetList", "DataSetRow", "StageReport"]


class CopyRecord(Struct, frozen=True):
    """`record.json` of a staged copy."""

    source: str  # the real path of what was copied
    name: str
    size: int  # bytes of the source when it was listed
    files: int
    last_used: float  # seconds since the epoch
    complete: bool = False
    format: int = 1


class StageReport(Struct, frozen=True):
    """`ownlab data stage --json`."""

    path: str  # of the copy
    source: str
    size: int
    files: int
    copied: int  # bytes that were copied in this run
    evicted: tuple[str, ...]  # sources of the copies that made room
    complete: bool  # False: it is being copied in the background
    seconds: float


class DataSetRow(Struct, frozen=True):
    """One data set of `ownlab data sets`."""

    path: str
    kind: Literal["downloaded", "unpacked", "packed", "staged"]
    source: str
    size: int
    files: int
    last_used: float  # seconds since the epoch
    state: Literal["complete", "partial", "copying", "missing"]


class DataSetList(Struct, frozen=True):
    """`ownlab data sets --json`."""

    data_sets: tuple[DataSetRow, ...]
    stage_folder: str
    stage_size: int  # bytes of all staged copies
    stage_limit: int | None  # None: no limit is set
    stage_free: int | None  # bytes free on that disk
