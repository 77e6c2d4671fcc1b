"""The last numbers that a run has printed: `loss=0.12`, `accuracy: 0.93`."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

__all__ = ["last_metrics", "printed_by_notebook", "printed_to_file"]

_METRIC = re.compile(r"(?<![\w.])([A-Za-z][\w./-]*)\s*[=:]\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.:/])")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TAIL = 1 << 18  # bytes of a log that are searched
_MOST = 12  # of one line


def last_metrics(printed: str) -> dict[str, float]:
    """Return the numbers of the last line that has any. A progress bar counts as it was shown last."""
    for line in reversed(_COLOURS.sub("", printed).splitlines()):
        found = {name: float(value) for name, value in _METRIC.findall(line)[:_MOST]}
        found = {name: value for name, value in found.items() if math.isfinite(value)}
        if found:
            return found
    return {}


def printed_to_file(path: str) -> str:
    """The end of a log; "" if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def printed_by_notebook(path: str) -> str:
    """What the cells of a notebook have printed, and the text of their results."""
    try:
        with open(path, encoding="utf-8") as file:
            notebook: dict[str, Any] = json.load(file)
        outputs = [output for cell in notebook["cells"] for output in cell.get("outputs") or ()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not written, or damaged
        return ""
    texts = (output.get("text") or (output.get("data") or {}).get("text/plain") or "" for output in outputs)
    return "\n".join("".join(each) for each in texts)[-_TAIL:]
