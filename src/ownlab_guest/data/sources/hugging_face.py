"""A data set of Hugging Face `datasets`: saved by save_to_disk, or by its name. Images keep their bytes."""

import json
from typing import Any, Dict, Iterator, Optional

from ownlab_guest.data.errors import DataError
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.sources.image_kind import extension_of
from ownlab_guest.data.sources.source import Entry, Options, Part, Source
from ownlab_guest.text import listing, text


class HuggingFaceSource(Source):
    """The rows of one split. A ClassLabel is the label; images are members, other columns are JSON."""

    by_reference = False

    def __init__(self, name: str, options: Options, *, local: bool) -> None:
        try:
            import datasets
        except ImportError as exc:
            raise DataError(
                text("Hugging Face data sets are read with the library datasets, which this Python lacks."),
                hint=text("pip install datasets, or choose another environment with --python."),
            ) from exc
        self.name, self.options = name, options
        try:
            loaded = datasets.load_from_disk(name) if local else datasets.load_dataset(name, split=options.split)
        except Exception as exc:
            raise DataError(text("datasets cannot load {name}: {reason}.", name=name, reason=exc)) from exc
        self._rows = self._split(loaded)
        self._images = [name for name, kind in self._rows.features.items() if isinstance(kind, datasets.Image)]
        for column in self._images:
            self._rows = self._rows.cast_column(column, datasets.Image(decode=False))
        labels = [name for name, kind in self._rows.features.items() if isinstance(kind, datasets.ClassLabel)]
        self._label: Optional[str] = options.label_column or (labels[0] if labels else None)
        if self._label in labels:
            self.class_names = tuple(self._rows.features[self._label].names)
        self.total = len(self._rows)

    def identity(self) -> Dict[str, Any]:
        return {"kind": "hugging-face", "name": self.name, "split": self.options.split, "rows": self.total}

    def entries(self) -> Iterator[Entry]:
        for number, row in enumerate(self._rows):
            alone = len(self._images) == 1
            parts = [_image(column, row[column], alone=alone) for column in self._images if row[column] is not None]
            rest = {name: value for name, value in row.items() if name not in (*self._images, self._label)}
            if rest or not parts:
                content = json.dumps(rest, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
                parts.append(Part("json", len(content), content))
            label = row.get(self._label) if self._label else None
            # ClassLabel has -1 for "not labelled".
            yield Entry(f"{number:09d}", None if label is None or label == -1 else label, tuple(parts))

    def fetch(self, place: str) -> bytes:
        raise DataError(text("{name} has no files.", name=self.name))

    def _split(self, loaded: Any) -> Any:
        if not isinstance(loaded, dict):
            return loaded
        names = list(loaded)
        wanted = self.options.split or (names[0] if len(names) == 1 else None)
        if wanted not in loaded:
            message = text("{name} has the splits {splits}.", name=self.name, splits=listing(names))
            raise DataError(message, hint=text("Name one with --split."))
        return loaded[wanted]


def _image(column: str, value: "Dict[str, Any]", *, alone: bool) -> Part:
    content = value.get("bytes")
    if content is None:
        with open(value["path"], "rb", opener=open_regular) as file:
            content = file.read()
    extension = extension_of(content)
    prefix = "" if alone else "".join(letter for letter in column.lower() if letter.isalnum()) + "."
    return Part(prefix + extension, len(content), content)
