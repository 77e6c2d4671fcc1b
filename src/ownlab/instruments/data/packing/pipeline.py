"""`ownlab data pack` and `verify`: request -> guest -> record. For the command line and `ownlab.data`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from ownlab.errors import UsageError
from ownlab.instruments.data.archives.limits import Limits
from ownlab.instruments.data.archives.member_stream import stream_request
from ownlab.instruments.data.data_sets import DataSetEntry, remember
from ownlab.instruments.data.guest_events import Progress, run_guest
from ownlab.instruments.data.packing.records import Packed, Verified
from ownlab.text import text
from ownlab.units import MIB, parse_bytes

__all__ = ["PackRequest", "pack_data", "shard_bytes_of", "verify_data"]

_HUGGING_FACE = "hf:"  # begins the name of a data set that is no path
_SHARD_BYTES = 128 * MIB


class PackRequest(NamedTuple):
    """What to pack, and how."""

    path: str
    out: str
    shuffle: bool = True
    seed: int = 0
    dedupe: bool = False
    shard_bytes: int = _SHARD_BYTES
    workers: int = 0  # 0: 8; with images that are changed one for each core, up to 8
    side: int | None = None  # of the shorter side of images that are made smaller
    quality: int | None = None
    format: str | None = None
    path_column: str | None = None
    label_column: str | None = None
    split: str | None = None
    only: str | None = None  # a folder in the source


def pack_data(
    request: PackRequest,
    python: str,
    on_progress: Callable[[Progress], None],
    *,
    encoding: str = "",
    limits: Limits = Limits(),  # noqa: B008  # immutable
) -> Packed:
    """Pack. Raises DataUnusable and other OwnlabErrors. `encoding` and `limits` are for archives."""
    path = _absolute(request.path)
    archive = stream_request(path, encoding, limits)
    fields = {**request._asdict(), "path": path, "out": os.path.abspath(request.out), "archive": archive}
    packed = run_guest(python, "data.pack", fields, Packed, on_progress)
    # A tar and an index for each shard, and the manifest.
    entry = DataSetEntry(str(fields["out"]), "packed", path, size=packed.bytes, files=2 * packed.shards + 1)
    remember(entry)
    return packed


def verify_data(
    folder: str, repair: str | None, python: str, on_progress: Callable[[Progress], None], *, full: bool
) -> Verified:
    """Check packed data; repair it from a source. Raises DataUnusable and other OwnlabErrors."""
    source = None if repair is None else _absolute(repair)
    fields = {
        "folder": os.path.abspath(folder),
        "full": full,
        "repair_from": source,
        "archive": None if source is None else stream_request(source),
    }
    return run_guest(python, "data.verify", fields, Verified, on_progress)


def shard_bytes_of(size: str) -> int:
    """Return the bytes of a size such as 128MiB. Raises UsageError."""
    try:
        return parse_bytes(size)
    except ValueError as exc:
        raise UsageError(text("--shard-size: {error}.", error=exc)) from exc


def _absolute(path: str) -> str:
    """Return a path for the guest, which may have another current folder."""
    return path if path.startswith(_HUGGING_FACE) else os.path.abspath(path)
