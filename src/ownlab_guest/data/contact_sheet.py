"""A picture of many small pictures, spread over a data set. Made with Pillow."""

from typing import Any, List

from ownlab_guest.data.reencoding import load_pillow

COLUMNS, ROWS = 10, 6
_SIDE, _GAP = 112, 4


class ContactSheet:
    """The thumbnails that were chosen so far: every image, then every second, every fourth …"""

    def __init__(self) -> None:
        self._images = load_pillow()
        self._pictures: List[Any] = []
        self._step = 1
        self._next = 0

    def wants(self, files: int) -> bool:
        """Whether the next images should have thumbnails."""
        return files >= self._next

    def add(self, picture: Any) -> None:
        """Keep a thumbnail; when there are twice as many as the sheet has room for, every second goes."""
        self._pictures.append(picture)
        if len(self._pictures) >= 2 * COLUMNS * ROWS:
            self._pictures = self._pictures[::2]
            self._step *= 2
        self._next += self._step

    def save(self, path: str) -> None:
        """Write the sheet. The file's ending says the format."""
        step = max(1, len(self._pictures) // (COLUMNS * ROWS))
        shown = self._pictures[::step][: COLUMNS * ROWS]
        rows = max(1, -(-len(shown) // COLUMNS))
        cell = _SIDE + _GAP
        sheet = self._images.new("RGB", (COLUMNS * cell + _GAP, rows * cell + _GAP), "white")
        for number, picture in enumerate(shown):
            row, column = divmod(number, COLUMNS)
            left = _GAP + column * cell + (_SIDE - picture.width) // 2
            sheet.paste(picture, (left, _GAP + row * cell + (_SIDE - picture.height) // 2))
        sheet.save(path)

    @staticmethod
    def thumbnail(image: Any) -> Any:
        """Make a small copy in RGB."""
        small = image.convert("RGB")
        small.thumbnail((_SIDE, _SIDE))
        return small
