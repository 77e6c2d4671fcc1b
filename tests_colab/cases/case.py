"""What a notebook is given, and what has to come out of it.

`says` has the text of every cell that says something: printed, shown (as text/plain) and raised, in this order. A cell that
is not in it has to be silent. A string is the whole text; a pattern has to match all of it. Cells have the ids that Colab
gave them; where it gave none, their number among all cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["HTML", "JAVASCRIPT", "TIMES", "Case", "Text", "like"]

Text = str | re.Pattern[str]

TIMES = r"CPU times: [^\n]+\nWall time: [^\n]+\n"  # what %%time prints
HTML = "<IPython.core.display.HTML object>\n"
JAVASCRIPT = "<IPython.core.display.Javascript object>\n"


class Case(NamedTuple):
    """One run of one notebook."""

    notebook: str
    says: Mapping[str, Text] = {}
    shows: Mapping[str, str] = {}  # cell -> a pattern that is found in what it shows besides text
    parameters: tuple[str, ...] = ()
    uploads: Mapping[str, bytes] | None = None  # None: without a folder of uploads
    downloads: Mapping[str, str] | None = None  # pattern of the content; None: without a folder of outputs
    drive: Mapping[str, str] = {}  # files that are in the drive afterwards, and patterns of their content
    environ: Mapping[str, str] = {}
    after: str = ""  # the notebook that has to be done before
    code: int = 0
    reason: str = ""  # a pattern that is found in why it failed


def like(pattern: str) -> re.Pattern[str]:
    """A text of which not every character is known."""
    return re.compile(pattern, re.DOTALL)
