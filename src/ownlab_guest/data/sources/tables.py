"""Tables: a CSV or Parquet whose rows name files (or hold them), JSON Lines, and text with one sample per line."""

import csv
import json
import os
from typing import Any, Dict, Iterator, List, Optional, TextIO, Tuple, Union

from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.sources.image_kind import extension_of
from ownlab_guest.data.sources.source import MOST_MEMBER_BYTES, Entry, Options, Part, Source, split_name
from ownlab_guest.text import listing, text

_PATHS = ("path", "filepath", "file_path", "image_path", "file", "filename", "file_name", "image", "img")
_LABELS = ("label", "labels", "class", "class_name", "target", "category")
_MOST_ROW = 64 << 20  # bytes of a line of JSON, characters of a row of a CSV: rows are held in memory


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

    def size_of(self, place: str) -> Optional[int]:
        try:
            return os.stat(os.path.join(self.folder, place)).st_size
        except (OSError, ValueError):
            return None  # fetch says why

    def fetch(self, place: str) -> bytes:
        if "\0" in place:
            raise DataError(text("the table names {place}, which is no path", place=repr(place[:200])))
        path = os.path.realpath(os.path.join(self.folder, place))
        if not path.startswith(self.folder + os.sep):
            raise DataError(text("the table names {place}, which is outside of its folder", place=place))
        with open(path, "rb", opener=open_regular) as file:
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
                yield from csv_rows(self.path)
            else:
                yield from self._lines()
        except UnicodeDecodeError as exc:
            raise DamagedData(text("{path} cannot be read: {reason}.", path=self.path, reason=exc)) from exc

    def _lines(self) -> "Iterator[Dict[str, Any]]":
        with open(self.path, "rb", opener=open_regular) as file:
            number = 0
            while line := file.readline(_MOST_ROW + 1):
                number += 1
                if len(line) > _MOST_ROW:
                    raise _too_long(self.path, number)
                if not line.strip():
                    continue
                if self._kind == ".txt":
                    yield {"text": line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")}
                    continue
                value = self._parsed(line, number)
                yield value if isinstance(value, dict) else {"value": value}

    def _parsed(self, line: bytes, number: int) -> Any:
        try:
            return json.loads(line)
        except RecursionError as exc:
            cause, reason = exc, text("its values are nested too deeply")  # type: Exception, str
        except json.JSONDecodeError as exc:
            cause, reason = exc, text("{problem} in column {column}", problem=exc.msg, column=exc.pos + 1)
        except UnicodeDecodeError as exc:
            cause, reason = exc, str(exc)
        except ValueError as exc:  # Python limits them to 4300
            cause, reason = exc, text("a number has thousands of digits")
        raise DamagedData(
            text("{path}, line {number} cannot be read: {reason}.", path=self.path, number=number, reason=reason)
        ) from cause


def csv_rows(path: str) -> "Iterator[Dict[str, str]]":
    """Yield the rows of a CSV or TSV by column. Raises DataError and OSError, also for rows that are too long to be held."""
    lines = _CsvLines(path)
    csv.field_size_limit(_MOST_ROW)
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="", opener=open_regular) as file:
        reader = csv.DictReader(lines.of(file), delimiter="\t" if path.lower().endswith(".tsv") else ",")
        try:
            for row in reader:
                lines.of_this_row = 0
                yield {name: value for name, value in row.items() if name is not None}
        except csv.Error as exc:
            message = text(
                "{path}, line {number} cannot be read: {reason}.", path=path, number=reader.line_num, reason=exc
            )
            raise DamagedData(message) from exc


class _CsvLines:
    """The lines of a CSV. A quotation mark that is never closed makes one row of all that follow: their length is limited, too."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.of_this_row = 0  # characters

    def of(self, file: TextIO) -> Iterator[str]:
        """Yield the lines of the file. Raises DataError."""
        number = 0
        while line := file.readline(_MOST_ROW + 1):
            number += 1
            self.of_this_row += len(line)
            if self.of_this_row > _MOST_ROW:
                raise _too_long(self._path, number)
            yield line


def _too_long(path: str, number: int) -> DataError:
    return DataError(
        text("{path}, line {number}: the row is longer than 64 MiB.", path=path, number=number),
        hint=text(
            "A row is a line, unless its values are in quotation marks: see whether one of them is never closed."
        ),
    )


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
            if len(value) < 10 and value.isascii() and value.isdigit() and str(int(value)) == value
            else value
        )
    return None
