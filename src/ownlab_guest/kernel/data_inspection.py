"""What `ownlab.data.inspect` returns: the record, and how a notebook shows it."""

import re
import sys
from typing import Any

__all__ = ["DataInspection"]


class DataInspection:
    """What a data set contains. `record` holds the figures of `ownlab data inspect --json`; a notebook shows them with pictures."""

    def __init__(self, record: Any, text: str, html: str) -> None:
        self.record, self.text, self.html = record, text, html  # the text may have colours

    def report(self) -> None:
        """Print everything as text."""
        sys.stdout.write(self.text)

    def __repr__(self) -> str:
        return re.sub("\x1b\\[[0-9;]*m", "", self.text).rstrip()

    def _repr_html_(self) -> str:
        return self.html
