"""Tables: a CSV or Parquet whose rows name files (or hold them), JSON Lines, and text with one sample per line."""

import csv
import json
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.sources.image_kind import extension_of
from ownlab_guest.data.sources.source import MOST_MEMBER_BYTES, Entry, Options, Part, Source, split_name
from ownlab_guest.text import listing, text

_PATHS = ("path", "filepath", "file_path", "image_path", "file", "filename", "file_name", "image", "img")
_LABELS = ("label", "labels", "class", "class_name", "target", "category")
_MOST_LINE = 64 << 20


class TableSource(Source):
    """The rows of a table. Those that name files refer to them; others are kept as JSON."""

    def __init__(self, path: str, options: Options) -> None:
        self.path, self.options = path, options
        self.folder = os.path.realpath(os.path.dirname(path) or ".")
        self._kind = os.path.splitext(path)[1].lower()
        # Rows without files hold their bytes; whether they name files is known from the first one.
        first = next(self._rows(), None)
        if first is None:
            raise DataError(text("{path} has no rows.", path=path))
        self._path_column = self._column(first, options.path_column, _PATHS, files=True)
        self._label_column = self._column(first, options.label_column, _LABELS, files=False)
        self.by_reference = self._path_column is not None and isinstance(first.get(self._path_column), str)

    def identity(self) -> Dict[str, Any]:
        status = os.stat(self.path)
        columns = [self.options.path_column, self.options.label_column]
        path = os.path.realpath(self.path)
        return {"kind": "table", "path": path, "size": status.st_size, "mtime": status.st_mtime_ns, "columns": columns}

    def entries(self) -> Iterator[Entry]:
        for number, row in enumerate(self._rows()):
            yield self._entry(number, row)

    def fetch(self, place: str) -> bytes:
        path = os.path.realpath(os.path.join(self.folder, place))
        if not path.startswith(self.folder + os.sep):
            raise DataError(text("the table names {place}, which is outside of its folder", place=place))
        with open(path, "rb") as file:
            content = file.read(MOST_MEMBER_BYTES + 1)
        if len(content) > MOST_MEMBER_BYTES:
            raise DataError(text("{name} is larger than 256 MiB", name=place))
        return content

    def _entry(self, number: int, row: Dict[str, Any]) -> Entry:
        label = _label(row.get(self._label_column)) if self._label_column else None
        rest = {name: value for name, value in row.items() if name not in (self._path_column, self._label_column)}
        payload = row.get(self._path_column) if self._path_column else None
        parts: List[Part] = []
        name = f"{number:09d}"
        if isinstance(payload, dict):  # an image as Hugging Face stores it
            payload = payload.get("bytes") or payload.get("path")
        if isinstance(payload, bytes):
            parts.append(Part(extension_of(payload), len(payload), payload))
        elif isinstance(payload, str) and payload:
            name = payload.replace("\\", "/")
            parts.append(Part(split_name(name)[1], 0, place=name))
        if self._kind == ".txt":
            content = str(row["text"]).encode("utf-8", "surrogateescape")
            parts.append(Part("txt", len(content), content))
        elif rest or not parts:
            content = json.dumps(rest, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
            parts.append(Part("json", len(content), content))
        return Entry(name, label, tuple(parts))

    def _column(
        self, row: Dict[str, Any], wanted: Optional[str], usual: "Tuple[str, ...]", *, files: bool
    ) -> Optional[str]:
        if wanted is not None:
            if wanted not in row:
                message = text("{path} has no column {name}.", path=self.path, name=wanted)
                raise DataError(message, hint=text("It has {columns}.", columns=listing(list(row))))
            return wanted
        for name in row:
            if name.lower() in usual and (not files or self._is_file(row[name])):
                return name
        return None

    def _is_file(self, value: Any) -> bool:
        if isinstance(value, dict):
            return isinstance(value.get("bytes") or value.get("path"), (bytes, str))
        if isinstance(value, bytes):
            return True
        return isinstance(value, str) and os.path.isfile(os.path.join(self.folder, value))

    def _rows(self) -> "Iterator[Dict[str, Any]]":
        try:
            if self._kind == ".parquet":
                yield from _parquet_rows(self.path)
            elif self._kind in (".csv", ".tsv"):
                yield from self._csv_rows()
            else:
                yield from self._lines()
        except (UnicodeDecodeError, csv.Error, json.JSONDecodeError, RecursionError) as exc:
            raise DamagedData(text("{path} cannot be read: {reason}.", path=self.path, reason=exc)) from exc

    def _csv_rows(self) -> "Iterator[Dict[str, Any]]":
        csv.field_size_limit(_MOST_LINE)
        with open(self.path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t" if self._kind == ".tsv" else ","):
                yield {name: value for name, value in row.items() if name is not None}

    def _lines(self) -> "Iterator[Dict[str, Any]]":
        with open(self.path, "rb") as file:
            while line := file.readline(_MOST_LINE):
                if not line.endswith(b"\n") and len(line) == _MOST_LINE:
                    raise DataError(text("{path} has a line of more than 64 MiB.", path=self.path))
                if not line.strip():
                    continue
                if self._kind == ".txt":
                    yield {"text": line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")}
                    continue
                value = json.loads(line)
                yield value if isinstance(value, dict) else {"value": value}


def _parquet_rows(path: str) -> "Iterator[Dict[str, Any]]":
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as exc:
        raise DataError(
            text("Parquet files are read with pyarrow, which this Python lacks."),
            hint=text("pip install pyarrow, or choose another environment with --python."),
        ) from exc
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as exc:
        raise DamagedData(text("{path} cannot be read: {reason}.", path=path, reason=exc)) from exc


def _label(value: Any) -> "Union[str, int, None]":
    """Numbers in a CSV are strings; "03" is a name."""
    if value is None or value == "" or isinstance(value, bool):
        return None if value is None or value == "" else int(value)
    if isinstance(value, int):
        return value if abs(value) < 2**31 else str(value)
    if isinstance(value, str):
        return (
            int(value)
            if value.isascii() and value.isdigit() and str(int(value)) == value and len(value) < 10
            else value
        )
    return None
