"""What a folder, an archive, a table or a packed data set contains: kinds, sizes, classes, duplicates, images that are broken.

Every file is read once, by several threads. Memory is bounded: duplicates are found by digests in a mapped file.
"""

import contextlib
import io
import os
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.data import manifest
from ownlab_guest.data.contact_sheet import ContactSheet, Picture
from ownlab_guest.data.digests import Digests, digest_of
from ownlab_guest.data.errors import DataError
from ownlab_guest.data.image_extensions import IMAGES
from ownlab_guest.data.reencoding import image_problem
from ownlab_guest.data.shard_store import ShardStore
from ownlab_guest.data.sources import Options, find_source
from ownlab_guest.data.sources.tables import csv_rows
from ownlab_guest.text import text

Event = Dict[str, Any]
_NAMED = 100
_CHUNK = 16
_CLASSES_KEPT = 10_000
_ROWS_LOOKED_AT = 1000
_LOOKED_AT = 64 << 20  # characters of them: rows may be long
_PROGRESS_FILES = 256


class Seen(NamedTuple):
    """What one file of a sample is."""

    name: str
    label: str
    extension: str
    size: int
    digest: bytes
    image_size: Optional[Tuple[int, int]]
    problem: str
    thumbnail: Any


class _Item(NamedTuple):
    name: str
    label: str
    parts: List[Tuple[str, Any]]  # extension; bytes, or a function that returns them


def inspect_data(
    path: str, *, sheet: Optional[str] = None, thumbnails: bool = False, options: Optional[Options] = None
) -> Iterator[Event]:
    """Look at everything below a path; yield progress, then the result, with thumbnails if Pillow can make them. Raises DataError."""
    report = _Report(path, ContactSheet() if sheet or (thumbnails and _has_pillow()) else None)
    # The source is closed last: files are still read when all of them are listed.
    with contextlib.ExitStack() as sources, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        pending: "Deque[Future[List[Seen]]]" = deque()
        begun = 0
        for chunk in _chunks(_items(path, report, options or Options(), sources)):
            begun += sum(len(item.parts) for item in chunk)
            wanted = report.sheet is not None and report.sheet.wants(begun)
            pending.append(pool.submit(_look_at_all, chunk, wanted))
            while len(pending) > 16:
                yield from report.add(pending.popleft().result())
        while pending:
            yield from report.add(pending.popleft().result())
    if sheet and report.sheet is not None:
        report.sheet.save(sheet)
    pictures = report.sheet.described() if thumbnails and report.sheet is not None else []
    yield {"event": "result", **report.result(), "thumbnails": pictures}


def _items(path: str, report: "_Report", options: Options, sources: contextlib.ExitStack) -> "Iterator[_Item]":
    if os.path.exists(os.path.join(path, manifest.FILE)):
        report.kind = "packed"
        yield from _packed_items(ShardStore(path))
        return
    source = find_source(path, options)
    sources.callback(source.close)
    if path.lower().endswith((".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")):
        report.columns = _columns(path)
    for entry in source.entries():
        label = "" if entry.label is None else str(entry.label)
        parts: List[Tuple[str, Any]] = [
            (part.extension, part.data if part.data is not None else _fetcher(source, part.place))
            for part in entry.parts
        ]
        yield _Item(entry.name, label, parts)
    report.left_out = source.left_out


def _fetcher(source: Any, place: str) -> Any:
    return lambda: source.fetch(place)


def _packed_items(store: ShardStore) -> "Iterator[_Item]":
    from ownlab_guest.data.block_reader import BlockReader
    from ownlab_guest.data.epoch_order import EpochOrder

    classes = store.manifest.classes
    order = EpochOrder(store.manifest.shards, shuffle=False, seed=0, epoch=0)
    for window in BlockReader(store).windows(order.runs([(0, order.samples)])):
        for raw in window.raw(0, len(window)):
            known = raw.label is not None and 0 <= raw.label < len(classes)
            label = classes[raw.label or 0] if known else "" if raw.label is None else str(raw.label)
            fields: List[Tuple[str, Any]] = [(field.extension, bytes(field.data)) for field in raw.fields]
            yield _Item(raw.shard.sample(raw.number).name, label, fields)
        window.release()


def _chunks(items: "Iterable[_Item]") -> "Iterator[List[_Item]]":
    chunk: List[_Item] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _look_at_all(items: "List[_Item]", thumbnails: bool) -> "List[Seen]":
    return [_look_at(item, extension, data, thumbnails) for item in items for extension, data in item.parts]


def _look_at(item: _Item, extension: str, data: Any, thumbnail: bool) -> Seen:
    try:
        content: bytes = data() if callable(data) else data
    except (OSError, DataError) as exc:
        return Seen(item.name, item.label, extension, 0, b"", None, str(exc), None)
    size, problem, made = None, "", None
    if not content:
        problem = text("it is empty")
    elif extension.rsplit(".", 1)[-1] in IMAGES:
        size, problem, made = _look_at_image(content, thumbnail)
    return Seen(item.name, item.label, extension, len(content), digest_of([content]), size, problem, made)


def _look_at_image(content: bytes, thumbnail: bool) -> "Tuple[Optional[Tuple[int, int]], str, Any]":
    """Decode it as a whole: a truncated image has a good header."""
    try:
        from PIL import Image
    except ImportError:
        return None, "", None
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            return image.size, "", ContactSheet.thumbnail(image) if thumbnail else None
    except Exception as exc:
        return None, image_problem(exc), None


class _Report:
    """What was seen so far."""

    def __init__(self, path: str, sheet: Optional[ContactSheet]) -> None:
        self.path, self.sheet, self.kind = path, sheet, "files"
        self.files = self.bytes = self.left_out = self.duplicates = self.broken_count = 0
        self.kinds: Dict[str, List[int]] = {}  # extension -> files, bytes, smallest, largest
        self.classes: "Counter[str]" = Counter()
        self.image_sizes: "Counter[Tuple[int, int]]" = Counter()
        self.broken: List[Event] = []
        self.copies: List[str] = []
        self.columns: List[Event] = []
        self._digests = Digests()
        self._labelled: Optional[str] = None

    def add(self, found: "List[Seen]") -> Iterator[Event]:
        for seen in found:
            self._add(seen)
            if self.files % _PROGRESS_FILES == 0:
                yield {"event": "progress", "phase": "inspect", "samples": self.files, "bytes": self.bytes}

    def _add(self, seen: Seen) -> None:
        self.files += 1
        self.bytes += seen.size
        kind = self.kinds.setdefault(seen.extension, [0, 0, seen.size, 0])
        kind[:] = [kind[0] + 1, kind[1] + seen.size, min(kind[2], seen.size), max(kind[3], seen.size)]
        # The files of one sample come one after the other: its label counts once.
        if seen.label and seen.name != self._labelled and len(self.classes) < _CLASSES_KEPT:
            self.classes[seen.label] += 1
        self._labelled = seen.name
        if seen.image_size is not None:
            self.image_sizes[seen.image_size] += 1
        if seen.problem:
            self.broken_count += 1
            if len(self.broken) < _NAMED:
                self.broken.append({"name": seen.name, "reason": seen.problem})
        elif seen.extension != "cls" and not self._digests.add(seen.digest):
            self.duplicates += 1
            if len(self.copies) < _NAMED:
                self.copies.append(seen.name)
        if seen.thumbnail is not None and seen.image_size is not None and self.sheet is not None:
            self.sheet.add(self.files - 1, Picture(seen.thumbnail, seen.name, seen.label, seen.image_size))

    def result(self) -> Event:
        if not self.files:
            raise DataError(text("{path} contains no data.", path=self.path))
        kinds = sorted(self.kinds.items(), key=lambda row: -row[1][1])
        return {
            "kind": self.kind,
            "files": self.files,
            "bytes": self.bytes,
            "kinds": [
                {"extension": name, "files": row[0], "bytes": row[1], "smallest": row[2], "largest": row[3]}
                for name, row in kinds
            ],
            "classes": [{"name": name, "samples": count} for name, count in self.classes.most_common()],
            "image_sizes": [
                {"width": size[0], "height": size[1], "images": count}
                for size, count in self.image_sizes.most_common(20)
            ],
            "image_size_count": len(self.image_sizes),
            "images_checked": not IMAGES.intersection(self.kinds) or _has_pillow(),
            "broken": self.broken,
            "broken_count": self.broken_count,
            "duplicates": self.copies,
            "duplicate_count": self.duplicates,
            "left_out": self.left_out,
            "columns": self.columns,
        }


def _has_pillow() -> bool:
    try:
        import PIL  # noqa: F401
    except ImportError:
        return False
    return True


def _columns(path: str) -> "List[Event]":
    """Describe the columns: their kinds, and how many of the first thousand rows have a value."""
    if path.lower().endswith(".parquet"):
        return _parquet_columns(path)
    if not path.lower().endswith((".csv", ".tsv")):
        return []
    rows, size = [], 0
    for row in csv_rows(path):
        rows.append(row)
        size += sum(len(value or "") for value in row.values())
        if len(rows) == _ROWS_LOOKED_AT or size > _LOOKED_AT:
            break
    names = list(rows[0]) if rows else []
    found = []
    for name in names:
        values = [row[name] for row in rows if row.get(name)]
        found.append(
            {
                "name": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
                "kind": _kind_of(values),
                "filled": len(values),
                "distinct": len(set(values)),
                "rows": len(rows),
            }
        )
    return found


def _kind_of(values: "List[str]") -> str:
    for kind, convert in (("integer", int), ("number", float)):
        try:
            for value in values:
                convert(value)
        except ValueError:
            continue
        if values:
            return kind
    return "text"


def _parquet_columns(path: str) -> "List[Event]":
    try:
        import pyarrow.parquet
    except ImportError:
        return []
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as exc:
        raise DataError(text("{path} cannot be read: {reason}.", path=path, reason=exc)) from exc
    rows = file.metadata.num_rows
    return [
        {"name": field.name, "kind": str(field.type), "filled": None, "distinct": None, "rows": rows}
        for field in file.schema_arrow
    ]
