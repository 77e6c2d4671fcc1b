"""What `ownlab data pack` and `verify` print as JSON."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Packed", "Problem", "SkippedFile", "Verified"]


class SkippedFile(Struct, frozen=True):
    name: str
    reason: str


class Packed(Struct, frozen=True):
    """A data set that was packed."""

    folder: str
    samples: int
    shards: int
    bytes: int  # of all shards and indexes
    payload_bytes: int  # of the members alone
    classes: tuple[str, ...]
    duplicates: int  # left out
    skipped: int  # could not be read
    skipped_names: tuple[SkippedFile, ...]  # the first hundred
    left_out: int  # files beside the folders of classes
    already_packed: bool  # nothing was to be done
    seconds: float


class Problem(Struct, frozen=True):
    """Something that is damaged or missing."""

    file: str
    kind: str  # missing, size, index, sample, tar, temporary
    message: str
    sample: str = ""
    repaired: bool = False


class Verified(Struct, frozen=True):
    """A packed data set that was checked."""

    folder: str
    full: bool  # every byte was read
    samples: int
    shards: int
    bytes: int  # read
    problems: tuple[Problem, ...]  # the first thousand
    problem_count: int
    repaired: int
    ok: bool
    seconds: float
