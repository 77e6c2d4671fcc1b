"""Small pictures from everywhere in a data set: as one image, or on their own for a page. Made with Pillow."""

import base64
import io
from typing import Any, Dict, List, NamedTuple, Tuple

from ownlab_guest.data.reencoding import load_pillow

COLUMNS, ROWS = 10, 6
_SIDE, _GAP = 112, 4


class Picture(NamedTuple):
    """A thumbnail, and what it is of."""

    small: Any
    name: str
    label: str
    size: Tuple[int, int]  # of the image itself


class ContactSheet:
    """The thumbnails that were chosen so far: every image, then every second, every fourth …"""

    def __init__(self) -> None:
        self._images = load_pillow()
        self._pictures: List[Picture] = []
        self._step = 1
        self._next = 0

    def wants(self, end: int) -> bool:
        """Whether one of the files before this number should have a thumbnail, of those that were not offered yet."""
        return end > self._next

    def add(self, number: int, picture: Picture) -> None:
        """Keep the thumbnail of a file, if it is far enough from the last one; when there are twice as many as the sheet has
        room for, every second goes."""
        if number < self._next:
            return
        self._pictures.append(picture)
        if len(self._pictures) >= 2 * COLUMNS * ROWS:
            self._pictures = self._pictures[::2]
            self._step *= 2
        self._next = number + self._step

    def save(self, path: str) -> None:
        """Write the sheet. The file's ending says the format."""
        shown = [picture.small for picture in self._shown()]
        rows = max(1, -(-len(shown) // COLUMNS))
        cell = _SIDE + _GAP
        sheet = self._images.new("RGB", (COLUMNS * cell + _GAP, rows * cell + _GAP), "white")
        for number, picture in enumerate(shown):
            row, column = divmod(number, COLUMNS)
            left = _GAP + column * cell + (_SIDE - picture.width) // 2
            sheet.paste(picture, (left, _GAP + row * cell + (_SIDE - picture.height) // 2))
        sheet.save(path)

    def described(self) -> "List[Dict[str, Any]]":
        """Return the pictures as JSON: each as a JPEG in base64."""
        rows = []
        for picture in self._shown():
            file = io.BytesIO()
            picture.small.save(file, "JPEG", quality=75)
            width, height = picture.size
            row = {"name": picture.name, "label": picture.label, "width": width, "height": height}
            rows.append({**row, "jpeg": base64.b64encode(file.getvalue()).decode()})
        return rows

    def _shown(self) -> "List[Picture]":
        count = len(self._pictures)
        shown = min(count, COLUMNS * ROWS)
        return [self._pictures[place * count // shown] for place in range(shown)]

    @staticmethod
    def thumbnail(image: Any) -> Any:
        """Make a small copy in RGB."""
        small = image.convert("RGB")
        small.thumbnail((_SIDE, _SIDE))
        return small
