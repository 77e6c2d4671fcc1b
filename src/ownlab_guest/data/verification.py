"""Checks a packed data set: sizes and indexes; with `full` every byte of every shard against its index."""

import os
import zlib
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional

from ownlab_guest.data import manifest, tar_members
from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.manifest import Manifest, Shard
from ownlab_guest.data.regular_files import check_regular, open_regular
from ownlab_guest.data.shard_index import Member, Sample, ShardIndex
from ownlab_guest.data.shard_writer import PART, index_name
from ownlab_guest.data.sources.source import ArchiveReader
from ownlab_guest.text import text

Event = Dict[str, Any]
_BUFFER = 8 << 20
_PROBLEMS_NAMED = 1000


class Problem(NamedTuple):
    """Something that is damaged or missing."""

    file: str
    kind: str  # missing, size, index, sample, tar, temporary
    message: str
    sample: str = ""


class ShardState(NamedTuple):
    """A shard after it was checked."""

    problems: "List[Problem]"
    shard_index: Optional[ShardIndex]  # None: it is missing or damaged
    damaged: "List[int]"  # samples of it whose bytes are not what was packed
    bytes: int  # that were read


def verify(
    folder: str, *, full: bool = False, repair_from: Optional[str] = None, archive: Optional[ArchiveReader] = None
) -> Iterator[Event]:
    """Check a data set, and repair it where a source is given; yield progress, then the result. Raises DataError."""
    packed = manifest.read(folder)
    totals = {"samples": 0, "bytes": 0, "repaired": 0, "count": 0}
    listed: List[Event] = []
    for shard in packed.shards:
        state = check_shard(folder, shard, full=full)
        repaired = False
        if state.problems and repair_from is not None:
            yield _progress("repair", totals, packed)
            from ownlab_guest.data.repair import repair_shard

            reason = repair_shard(folder, packed, shard, state, repair_from, archive)
            repaired = not reason
            if reason:
                state.problems.append(Problem(shard.name, state.problems[0].kind, reason))
        totals["samples"] += shard.samples
        totals["bytes"] += state.bytes
        totals["count"] += len(state.problems)
        totals["repaired"] += repaired * len(state.problems)
        named = state.problems[: _PROBLEMS_NAMED - len(listed)]
        listed += [{**problem._asdict(), "repaired": repaired} for problem in named]
        yield _progress("verify", totals, packed)
    for problem in _temporary_files(folder, packed, remove=repair_from is not None):
        totals["count"] += 1
        totals["repaired"] += repair_from is not None
        listed.append({**problem._asdict(), "repaired": repair_from is not None})
    yield _result(packed, totals, listed, full)


def _progress(phase: str, totals: "Dict[str, int]", packed: Manifest) -> Event:
    return {
        "event": "progress",
        "phase": phase,
        "samples": totals["samples"],
        "bytes": totals["bytes"],
        "total": packed.samples,
    }


def _result(packed: Manifest, totals: "Dict[str, int]", listed: "List[Event]", full: bool) -> Event:
    return {
        "event": "result",
        "full": full,
        "samples": packed.samples,
        "shards": len(packed.shards),
        "bytes": totals["bytes"],
        "problems": listed,
        "problem_count": totals["count"],
        "repaired": totals["repaired"],
        "ok": totals["count"] == totals["repaired"],
    }


def check_shard(folder: str, shard: Shard, *, full: bool) -> ShardState:
    """Check one shard and its index."""
    problems: List[Problem] = []
    index = _check_index(folder, shard, problems)
    path = os.path.join(folder, shard.name)
    try:
        check_regular(path)
        size = os.stat(path).st_size
    except (FileNotFoundError, DataError) as exc:
        reason = exc.message if isinstance(exc, DataError) else text("{name} is missing.", name=shard.name)
        problems.append(Problem(shard.name, "missing", reason))
        return ShardState(problems, index, list(range(shard.samples)), 0)
    if size != shard.bytes:
        message = text("{name} has {size} bytes instead of {wanted}.", name=shard.name, size=size, wanted=shard.bytes)
        problems.append(Problem(shard.name, "size", message))
    if index is None or not (full or size != shard.bytes):
        return ShardState(problems, index, [], 0)
    with open(path, "rb", buffering=_BUFFER, opener=open_regular) as file:
        damaged = _check_members(file, shard, index, problems)
    return ShardState(problems, index, damaged, size)


def _check_index(folder: str, shard: Shard, problems: "List[Problem]") -> Optional[ShardIndex]:
    name = index_name(shard.name)
    try:
        with open(os.path.join(folder, name), "rb", opener=open_regular) as file:
            index = ShardIndex(file.read(), name)
    except FileNotFoundError:
        problems.append(Problem(name, "missing", text("{name} is missing.", name=name)))
        return None
    except DataError as exc:
        problems.append(Problem(name, "index", exc.message))
        return None
    if len(index) != shard.samples or index.tar_bytes != shard.bytes:
        problems.append(Problem(name, "index", text("{name} belongs to another data set.", name=name)))
        return None
    return index


def _check_members(file: BinaryIO, shard: Shard, index: ShardIndex, problems: "List[Problem]") -> "List[int]":
    """Compare each member with its checksum, and what is between members with what a tar has there."""
    damaged, tar_is_damaged = [], False
    for number in range(len(index)):
        sample = index.sample(number)
        whole = True
        for member in sample.members:
            place = max(0, member.offset - tar_members.BLOCK)
            if file.tell() != place:
                file.seek(place)
            header = _header(sample, member)
            tar_is_damaged = tar_is_damaged or file.read(member.offset - place) != header
            content = file.read(member.length)
            whole = whole and len(content) == member.length and zlib.crc32(content) == member.crc
            between = tar_members.padding(member.length)
            tar_is_damaged = tar_is_damaged or file.read(len(between)) != between
        if not whole:
            damaged.append(number)
            message = text("{sample} in {name} is damaged.", sample=sample.name, name=shard.name)
            problems.append(Problem(shard.name, "sample", message, sample.name))
    if (tar_is_damaged or file.read() != tar_members.END) and not damaged:
        message = text("{name} is damaged: bytes between the members of the tar archive have changed.", name=shard.name)
        problems.append(Problem(shard.name, "tar", message))
    return damaged


def _header(sample: Sample, member: Member) -> bytes:
    """Return what should stand before a member; nothing fits the name of a damaged index."""
    try:
        return tar_members.header(f"{sample.key}.{member.extension}", member.length)
    except DamagedData:
        return b""


def _temporary_files(folder: str, packed: Manifest, *, remove: bool) -> Iterator[Problem]:
    known = {name for shard in packed.shards for name in (shard.name, index_name(shard.name))}
    for name in sorted(os.listdir(folder)):
        if name.startswith("data-") and name.endswith(PART) and name[: -len(PART)] in known:
            if remove:
                os.unlink(os.path.join(folder, name))
            yield Problem(name, "temporary", text("{name} was left by a repair that was interrupted.", name=name))
