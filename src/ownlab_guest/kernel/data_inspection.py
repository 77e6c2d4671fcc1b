"""What `ownlab.data.inspect` returns: the record, and how a notebook shows it."""

import re
import sys
from typing import Any

__all__ = ["DataInspection"]


class DataInspection:
    """What a data set contains. `record` holds the figures of `ownlab data inspect --json`; a notebook shows them as text."""

    def __init__(self, record: Any, text: str) -> None:
        self.record, self.text = record, text  # the text may have colours

    def report(self) -> None:
        """Print everything as text."""
        sys.stdout.write(self.text)

    def __repr__(self) -> str:
        return re.sub("\x1b\\[[0-9;]*m", "", self.text).rstrip()
