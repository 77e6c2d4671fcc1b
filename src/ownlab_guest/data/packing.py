"""Packs a source: lists it, reads it with several threads, and writes shards. Killed at any moment, it continues.

The listing is on disk and fixed (`spool.py`), so the order of samples is the same in each attempt. The journal has a line
for each finished shard; what is not in it is written again.
"""

import errno
import hashlib
import json
import os
import shutil
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.atomic_files import replace_durably, sync, sync_folder
from ownlab_guest.data import manifest
from ownlab_guest.data.digests import Digests, encode_digests, read_digests
from ownlab_guest.data.errors import DataError
from ownlab_guest.data.manifest import Manifest, Shard
from ownlab_guest.data.output_lock import lock_output
from ownlab_guest.data.preparation import Prepared
from ownlab_guest.data.read_ahead import Work, read_ahead
from ownlab_guest.data.reencoding import FORMATS, Reencoding, load_pillow
from ownlab_guest.data.sealed_json import seal, unseal
from ownlab_guest.data.shard_writer import ShardWriter, key_of, shard_name
from ownlab_guest.data.sources import Options, Source, find_source
from ownlab_guest.data.sources.source import ArchiveReader, archive_of
from ownlab_guest.data.spool import Listed, Spool
from ownlab_guest.text import text

Event = Dict[str, Any]
WORK = ".pack"
DEFAULT_SHARD_BYTES = 128 << 20
_LEAST_SHARD_BYTES = 64 << 10
# On an SSD, 8 threads read small files three times as fast as one; more gain nothing.
_READERS = 8
_EVENT_SECONDS = 0.25
_SKIPPED_NAMED = 100
# They change nothing of what is packed, or the source's identity has them.
_NOT_OF_THE_PLAN = ("path", "out", "workers", "archive")
# For the index, the listing and the last shard's journal.
_SPARE_BYTES = 64 << 20


class Request(NamedTuple):
    """What to pack, and how."""

    path: str
    out: str
    shuffle: bool = True
    seed: int = 0
    dedupe: bool = False
    shard_bytes: int = DEFAULT_SHARD_BYTES
    workers: int = 0  # 0: eight readers; as many as cores, eight at most, where images are changed
    side: Optional[int] = None
    quality: Optional[int] = None
    format: Optional[str] = None
    path_column: Optional[str] = None
    label_column: Optional[str] = None
    split: Optional[str] = None
    only: Optional[str] = None
    archive: Optional[ArchiveReader] = None

    @property
    def source_options(self) -> Options:
        """Which part of the source is meant, and how it is read."""
        return Options(self.path_column, self.label_column, self.split, self.only, self.archive)

    @property
    def reencoding(self) -> Reencoding:
        """What is done to images."""
        return Reencoding(self.side, self.quality, self.format)


def request_of(fields: "Dict[str, Any]") -> Request:
    """Return the request that the host sent as JSON."""
    return Request(**{**fields, "archive": archive_of(fields)})


def pack(request: Request) -> Iterator[Event]:
    """Pack; yield progress, and the result as the last event. Raises DataError."""
    _check(request)
    source = find_source(request.path, request.source_options)
    try:
        try:
            with _Work(request, source) as work:
                yield from work.run()
        except OSError as exc:
            raise _disk_error(request.out, exc) from exc
    finally:
        source.close()


def _check(request: Request) -> None:
    if request.shard_bytes < _LEAST_SHARD_BYTES:
        raise DataError(text("A shard must have at least 64 KiB."))
    if request.format is not None and request.format not in FORMATS:
        raise DataError(text("Images cannot be saved as {name}: use jpeg, png or webp.", name=request.format))
    if request.reencoding.wanted:
        load_pillow()
    if os.path.realpath(request.out).startswith(os.path.realpath(request.path) + os.sep):
        raise DataError(
            text("{out} is inside of {path}: the shards would be packed too.", out=request.out, path=request.path)
        )


def _disk_error(out: str, exc: OSError) -> DataError:
    full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
    return DataError(
        text("The disk of {out} is full.", out=out)
        if full
        else text("Packing stopped: {reason}.", reason=exc.strerror or exc),
        hint=text("Nothing finished is lost. Run the same command again to continue in {out}.", out=out),
    )


class _Work:
    """One attempt to pack into a folder."""

    def __init__(self, request: Request, source: Source) -> None:
        self.request, self.source = request, source
        self.out, self.folder = request.out, os.path.join(request.out, WORK)
        self._journal = os.path.join(self.folder, "journal")
        self._options = {name: value for name, value in request._asdict().items() if name not in _NOT_OF_THE_PLAN}
        self.shards: List[Shard] = []
        self.consumed = self.samples = self.payload = self.duplicates = self.skipped = 0
        self.skipped_names: List[List[str]] = []
        self.extensions: Dict[str, int] = {}
        self.digests = Digests()
        self._lock: Optional[int] = None

    def __enter__(self) -> "_Work":
        os.makedirs(self.out, exist_ok=True)
        ours = os.path.isdir(self.folder) or os.path.exists(os.path.join(self.out, manifest.FILE))
        if not ours and os.listdir(self.out):
            raise DataError(text("{out} is not empty.", out=self.out), hint=text("Choose a new folder."))
        os.makedirs(self.folder, exist_ok=True)
        self._lock = lock_output(self.out, os.path.join(self.folder, "lock"))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._lock is not None
        os.close(self._lock)

    def run(self) -> Iterator[Event]:
        if os.path.exists(os.path.join(self.out, manifest.FILE)):
            yield self._already_packed()
            return
        self._check_plan()
        spool = self._spool()
        if spool.listed() is None:
            yield from self._list(spool)
        listed = spool.listed()
        assert listed is not None
        if not listed.samples:
            raise DataError(text("{path} contains nothing that can be packed.", path=self.request.path))
        self._resume()
        self._check_space(listed)
        yield from self._write_shards(spool, listed)
        yield self._finish(listed)

    def _already_packed(self) -> Event:
        """Nothing to do, if the folder has just what would be packed."""
        packed = manifest.read(self.out)
        if packed.plan != self._plan():
            raise DataError(
                text("{out} has another data set, or one that was packed with other options.", out=self.out),
                hint=text("Choose a new folder, or remove it."),
            )
        shutil.rmtree(self.folder, ignore_errors=True)  # left by an attempt that was killed at its very end
        return _result(packed, resumed=True, names=[])

    def _check_plan(self) -> None:
        """What continues must be what was begun."""
        path = os.path.join(self.folder, "plan")
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                begun = file.read()
        except FileNotFoundError:
            begun = ""
        if begun == self._plan():
            return
        if not self._spool().has_begun():  # nothing of another attempt is used
            replace_durably(path, self._plan().encode())
        else:
            raise DataError(
                text("{out} was begun with other options, or its source has changed since.", out=self.out),
                hint=text("Use the options of the first attempt, or remove the folder and pack again."),
            )

    def _plan(self) -> str:
        """Return a digest of the options and the source. The manifest has it: paths of this machine are nobody's business."""
        plan = json.dumps({**self._options, "source": self.source.identity()}, sort_keys=True)
        return hashlib.sha256(plan.encode()).hexdigest()

    def _spool(self) -> Spool:
        size = os.path.getsize(self.request.path) if os.path.isfile(self.request.path) else 0
        expected = 0 if self.source.by_reference else size
        return Spool(
            os.path.join(self.folder, "listing"),
            seed=self.request.seed if self.request.shuffle else None,
            expected_bytes=expected,
        )

    def _list(self, spool: Spool) -> Iterator[Event]:
        said = 0.0
        for samples, size in spool.fill(self.source.entries(), lambda: self.source.left_out):
            if time.monotonic() - said > _EVENT_SECONDS:
                said = time.monotonic()
                yield {
                    "event": "progress",
                    "phase": "list",
                    "samples": samples,
                    "bytes": size,
                    "total": self.source.total,
                }

    def _resume(self) -> None:
        """Take over the finished shards; remove what was not finished."""
        try:
            with open(self._journal, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            lines = []
        for line in lines[:-1]:  # what follows the last newline was cut off
            self._take_over(unseal(line, self._journal))
        kept = {name for shard in self.shards for name in (shard.name, shard.name[:-4] + ".index")}
        for name in os.listdir(self.out):
            if name.startswith("data-") and name not in kept:
                os.unlink(os.path.join(self.out, name))
        with open(self._journal, "ab") as file:
            file.truncate(sum(len(line) + 1 for line in lines[:-1]))

    def _take_over(self, line: "Dict[str, Any]") -> None:
        shard = Shard(**line["shard"])
        self.shards.append(shard)
        self.consumed, self.samples, self.payload = line["consumed"], line["samples"], line["payload"]
        self.duplicates, self.skipped = line["duplicates"], line["skipped"]
        self.skipped_names, self.extensions = line["skipped_names"], line["extensions"]
        if self.request.dedupe:
            for digest in read_digests(self._digest_file(shard.name)):
                self.digests.add(digest)

    def _digest_file(self, name: str) -> str:
        return os.path.join(self.folder, name + ".digests")

    def _check_space(self, listed: Listed) -> None:
        """Say at the beginning that the disk is too small, where sizes are known and images stay as they are."""
        if self.request.reencoding.wanted or self.request.dedupe:
            return
        needed = listed.payload_bytes - self.payload
        free = shutil.disk_usage(self.out).free
        if needed and needed + _SPARE_BYTES > free:
            raise DataError(
                text("{out} has {free} bytes free; packing needs {needed}.", out=self.out, free=free, needed=needed),
                hint=text("Free some space, or choose a folder on another disk with -o."),
            )

    def _write_shards(self, spool: Spool, listed: Listed) -> Iterator[Event]:
        classes = {name: number for number, name in enumerate(listed.classes)}
        begun, said = self.consumed, 0.0
        shard: Optional[_OpenShard] = None
        pool = ThreadPoolExecutor
        with pool(1) as writer, pool(1) as finisher, pool(self._workers()) as readers:
            pending: "Deque[Future[Tuple[Shard, _OpenShard]]]" = deque()
            try:
                work = Work(self.source, self.request.reencoding, self.request.dedupe)
                for prepared in read_ahead(spool.entries(self.consumed), work, readers, self._workers()):
                    self.consumed += 1
                    if not self._keep(prepared):
                        continue
                    if shard is not None and shard.is_full(prepared, self.request.shard_bytes):
                        self._hand_over(shard, finisher, pending)
                        shard = None
                    if shard is None:
                        shard = _OpenShard(ShardWriter(self.out, shard_name(len(self.shards) + len(pending)), writer))
                    shard.add(self.samples, prepared, classes)
                    self.samples += 1
                    self._count(prepared)
                    if time.monotonic() - said > _EVENT_SECONDS:
                        said = time.monotonic()
                        yield self._progress(listed, begun)
                if shard is not None:
                    self._hand_over(shard, finisher, pending)
                    shard = None
                self._wait(pending, 0)
            finally:
                if shard is not None:
                    shard.writer.abandon()
        yield self._progress(listed, begun)

    def _workers(self) -> int:
        if self.request.workers or not self.request.reencoding.wanted:
            return self.request.workers or _READERS  # they wait for the disk, however few cores there are
        return min(_READERS, os.cpu_count() or 1)

    def _keep(self, prepared: Prepared) -> bool:
        if prepared.error:
            self.skipped += 1
            if len(self.skipped_names) < _SKIPPED_NAMED:
                self.skipped_names.append([prepared.name, prepared.error])
            return False
        if self.request.dedupe and not self.digests.add(prepared.digest):
            self.duplicates += 1
            return False
        return True

    def _count(self, prepared: Prepared) -> None:
        for payload in prepared.payloads:
            self.payload += len(payload.data)
            self.extensions[payload.extension] = self.extensions.get(payload.extension, 0) + 1

    def _progress(self, listed: Listed, begun: int) -> Event:
        return {
            "event": "progress",
            "phase": "pack",
            "samples": self.consumed,
            "bytes": self.payload,
            "total": listed.samples,
            "resumed": begun,
        }

    def _hand_over(self, shard: "_OpenShard", finisher: ThreadPoolExecutor, pending: "Deque[Future[Any]]") -> None:
        """Finish a shard in the background: the disk is waited for while the next one is filled."""
        self._wait(pending, 1)
        # The state as it is now: what the journal's line says must not include the next shard.
        shard.consumed = self.consumed - 1 if shard.open_follows else self.consumed
        shard.line = {
            "consumed": shard.consumed,
            "samples": self.samples,
            "payload": self.payload,
            "duplicates": self.duplicates,
            "skipped": self.skipped,
            "skipped_names": list(self.skipped_names),
            "extensions": dict(self.extensions),
        }
        pending.append(finisher.submit(self._finish_shard, shard))

    def _finish_shard(self, shard: "_OpenShard") -> "Tuple[Shard, _OpenShard]":
        finished = shard.writer.finish()
        if self.request.dedupe:
            replace_durably(self._digest_file(finished.name), encode_digests(shard.digests))
        with open(self._journal, "ab") as file:
            file.write(seal({"shard": finished._asdict(), **shard.line}) + b"\n")
            sync(file)
        return finished, shard

    def _wait(self, pending: "Deque[Future[Tuple[Shard, _OpenShard]]]", most: int) -> None:
        while len(pending) > most:
            self.shards.append(pending.popleft().result()[0])

    def _finish(self, listed: Listed) -> Event:
        if not self.shards:
            first = self.skipped_names[0] if self.skipped_names else ["", ""]
            raise DataError(text("None of the files could be read: {name}: {reason}.", name=first[0], reason=first[1]))
        sync_folder(self.out)
        by_count = sorted(self.extensions, key=lambda name: (-self.extensions[name], name))
        packed = Manifest(
            samples=self.samples,
            shards=tuple(self.shards),
            classes=self.source.class_names or listed.classes,
            shuffled=self.request.shuffle,
            seed=self.request.seed,
            source=os.path.basename(self.request.path.rstrip(os.sep)),
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            extensions=tuple(by_count),
            payload_bytes=self.payload,
            duplicates=self.duplicates,
            skipped=self.skipped,
            options=tuple(sorted(self._options.items())),
            plan=self._plan(),
        )
        replace_durably(os.path.join(self.out, manifest.FILE), manifest.encode(packed))
        shutil.rmtree(self.folder, ignore_errors=True)
        return _result(packed, resumed=False, names=self.skipped_names, left_out=listed.left_out)


class _OpenShard:
    """A shard that is being filled, and what its line of the journal will say."""

    open_follows = False  # a sample that begins the next shard was taken already

    def __init__(self, writer: ShardWriter) -> None:
        self.writer = writer
        self.digests: List[bytes] = []
        self.consumed = 0
        self.line: Dict[str, Any] = {}

    def is_full(self, following: Prepared, most: int) -> bool:
        """Whether the next sample belongs into the next shard."""
        self.open_follows = self.writer.position + sum(len(p.data) for p in following.payloads) > most
        return self.open_follows

    def add(self, number: int, prepared: Prepared, classes: "Dict[str, int]") -> None:
        label = classes[prepared.label] if isinstance(prepared.label, str) else prepared.label
        self.writer.add(key_of(number, prepared.name), prepared.name, label, prepared.payloads)
        self.digests.append(prepared.digest)


def _result(packed: Manifest, *, resumed: bool, names: "List[List[str]]", left_out: int = 0) -> Event:
    return {
        "event": "result",
        "samples": packed.samples,
        "shards": len(packed.shards),
        "bytes": sum(shard.bytes + shard.index_bytes for shard in packed.shards),
        "payload_bytes": packed.payload_bytes,
        "classes": list(packed.classes),
        "duplicates": packed.duplicates,
        "skipped": packed.skipped,
        "skipped_names": [{"name": name, "reason": reason} for name, reason in names],
        "left_out": left_out,
        "already_packed": resumed,
    }
