"""A case of the suite: a notebook, its input, and the expected output.

`texts` has the text output of every cell: printed, displayed (as text/plain) and raised, in this order. A cell that is
missing must have no output. A string is the whole text; a pattern must match all of it. Cells have the ids that Colab gave
them, otherwise their index.
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
    texts: Mapping[str, Text] = {}
    displays: Mapping[str, str] = {}  # cell -> a pattern in its displayed data
    parameters: tuple[str, ...] = ()
    uploads: Mapping[str, bytes] | None = None  # None: without a folder of uploads
    downloads: Mapping[str, str] | None = None  # pattern of the content; None: without a folder of outputs
    drive: Mapping[str, str] = {}  # files in the drive afterwards, and patterns of their content
    environ: Mapping[str, str] = {}
    after: str = ""  # the notebook that must run before
    code: int = 0
    reason: str = ""  # a pattern of the reason why it failed


def like(pattern: str) -> re.Pattern[str]:
    """Return a pattern for a text that is only partly known."""
    return re.compile(pattern, re.DOTALL)
