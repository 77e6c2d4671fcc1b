"""Repairs shards: from another copy of the packed data set, or from what was packed.

Packing is deterministic, so a shard can be made again with the same bytes. What is on disk is replaced only by what fits the
manifest and the index.
"""

import os
import shutil
import tempfile
import zlib
from typing import BinaryIO, Dict, List, Optional

from ownlab_guest.atomic_files import sync, sync_folder
from ownlab_guest.data import manifest, tar_members
from ownlab_guest.data.manifest import Manifest, Shard
from ownlab_guest.data.packing import Request, pack
from ownlab_guest.data.preparation import prepare
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.shard_index import Sample
from ownlab_guest.data.shard_writer import PART, names_of
from ownlab_guest.data.sources import find_source
from ownlab_guest.data.sources.source import ArchiveReader, Entry
from ownlab_guest.data.verification import ShardState, check_shard
from ownlab_guest.text import text

_LABEL = "cls"


def repair_shard(
    folder: str, packed: Manifest, shard: Shard, state: ShardState, source: str, archive: Optional[ArchiveReader] = None
) -> str:
    """Repair one shard; return why it is not repaired, or "". Raises DataError when the source cannot be used."""
    if os.path.exists(os.path.join(source, manifest.FILE)):
        return _copy(source, folder, shard)
    if state.shard_index is None:
        return _pack_again(folder, packed, shard, _request(packed, source, archive))
    return _rebuild(folder, packed, shard, state, _request(packed, source, archive))


def _request(packed: Manifest, path: str, archive: Optional[ArchiveReader]) -> Request:
    """Return the request that packed it, with another path."""
    known = {name: value for name, value in packed.options if name in Request._fields}
    return Request(path=path, out="", archive=archive, **known)


def _copy(source: str, folder: str, shard: Shard) -> str:
    """Take both files from another copy, if they are whole there."""
    other = manifest.read(source)
    found = next((entry for entry in other.shards if entry.name == shard.name), None)
    if found != shard or check_shard(source, shard, full=True).problems:
        return text("{source} does not have {name} as it was packed.", source=source, name=shard.name)
    for name in names_of(shard):
        part = os.path.join(folder, name + PART)
        shutil.copyfile(os.path.join(source, name), part)
        _put(part, os.path.join(folder, name))
    return _still_damaged(folder, shard)


def _pack_again(folder: str, packed: Manifest, shard: Shard, request: Request) -> str:
    """Without an index only packing everything again tells which samples the shard has. It takes the space of the data set."""
    with tempfile.TemporaryDirectory(prefix=".repair-", dir=folder) as inner:
        for _ in pack(request._replace(out=os.path.join(inner, "out"))):
            pass
        return _copy(os.path.join(inner, "out"), folder, shard)


def _rebuild(folder: str, packed: Manifest, shard: Shard, state: ShardState, request: Request) -> str:
    """Write the shard again: good samples from where they are, damaged ones from the source."""
    index = state.shard_index
    assert index is not None
    wanted = {index.sample(number).name for number in state.damaged}
    fetched = _fetch(wanted, request) if wanted else {}
    path = os.path.join(folder, shard.name)
    old = open(path, "rb", opener=open_regular) if os.path.isfile(path) else None  # noqa: SIM115  # closed below
    missing: List[str] = []
    try:
        with open(path + PART, "wb") as new:
            for number in range(len(index)):
                sample = index.sample(number)
                contents = _contents(sample, fetched.get(sample.name, {}), old)
                if contents is None:
                    missing.append(sample.name)
                    continue
                for member, content in zip(sample.members, contents):
                    new.write(tar_members.header(f"{sample.key}.{member.extension}", member.length))
                    new.write(content + tar_members.padding(member.length))
            new.write(tar_members.END)
    finally:
        if old is not None:
            old.close()
    if missing:
        os.unlink(path + PART)
        return text("{source} does not have {name} as it was packed.", source=request.path, name=missing[0])
    _put(path + PART, path)
    return _still_damaged(folder, shard)


def _fetch(wanted: "set[str]", request: Request) -> "Dict[str, Dict[str, bytes]]":
    """Return the members of the wanted samples by name and extension, made as they were when they were packed."""
    source = find_source(request.path, request.source_options)
    fetched: Dict[str, Dict[str, bytes]] = {}
    try:
        entries: List[Entry] = [entry for entry in source.entries() if entry.name in wanted]
        for prepared in (prepare(entry, source, request.reencoding, digests=False) for entry in entries):
            fetched[prepared.name] = {payload.extension: payload.data for payload in prepared.payloads}
    finally:
        source.close()
    return fetched


def _contents(sample: Sample, fetched: "Dict[str, bytes]", old: Optional[BinaryIO]) -> "Optional[List[bytes]]":
    """Return the content of each member that has the right checksum; None if one is nowhere."""
    contents: List[bytes] = []
    for member in sample.members:
        tried = [fetched.get(member.extension)]
        if old is not None:
            tried.append(os.pread(old.fileno(), member.length, member.offset))
        if member.extension == _LABEL and sample.label is not None:
            tried.append(b"%d" % sample.label)
        found = next((one for one in tried if one is not None and _is(one, member.length, member.crc)), None)
        if found is None:
            return None
        contents.append(found)
    return contents


def _is(content: bytes, length: int, crc: int) -> bool:
    return len(content) == length and zlib.crc32(content) == crc


def _put(part: str, path: str) -> None:
    with open(part, "rb+") as file:
        sync(file)
    os.replace(part, path)
    sync_folder(os.path.dirname(path))


def _still_damaged(folder: str, shard: Shard) -> str:
    problems = check_shard(folder, shard, full=True).problems
    return problems[0].message if problems else ""
