"""Detect whether a notebook was written for Colab, and for which accelerator there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ownlab.lab.forms.notebook_forms import cell_source
from ownlab.lab.forms.source_lines import scan_lines

__all__ = ["accelerator_of", "gpu_type_of", "lacks_colab", "wants_colab"]

# Also in quotes ('google.colab' in sys.modules), and as JavaScript's google.colab.kernel in an HTML cell.
_MENTIONS = re.compile(
    r"(?<![\w.])google\s*\.\s*colab(?!\w)"
    r"|(?<![\w.])from\s+google\s+import\s*(?:\([^)]*|[^\n;(]*)(?<!\w)colab(?!\w)"
)
_NO_COLAB = re.compile(r"No module named 'google\.colab[.']|cannot import name 'colab' from 'google'")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NO_ACCELERATOR = ("", "NONE")
_CARD = re.compile(r"[\w .-]{1,40}")  # it is shown to people, and comes from an untrusted file


def wants_colab(notebook: Mapping[str, Any]) -> bool:
    """Return whether its kernel should run in Colab mode: by its metadata, else by who saved it and what it imports."""
    metadata = _mapping(notebook, "metadata")
    setting = _mapping(metadata, "ownlab").get("colab")
    if isinstance(setting, bool):
        return setting
    if "colab" in metadata:
        return True
    cells = notebook.get("cells")
    return any(_mentions_colab(cell) for cell in (cells if isinstance(cells, list) else []))


def lacks_colab(name: str, value: str, traceback: Iterable[str]) -> bool:
    """Return whether a cell failed because google.colab cannot be imported. The page decides in the same way.

    Where nothing else of `google` is installed, Python says only that `google` is missing.
    """
    if name not in ("ModuleNotFoundError", "ImportError"):
        return False
    if _NO_COLAB.match(value):
        return True
    lines = _COLOURS.sub("", "\n".join(traceback))
    return value == "No module named 'google'" and _MENTIONS.search(lines) is not None


def accelerator_of(notebook: Mapping[str, Any]) -> str | None:
    """Return the accelerator that the notebook requests on Colab, "GPU" or "TPU"; None where it requests none."""
    accelerator = _mapping(notebook, "metadata").get("accelerator")
    name = accelerator.strip().upper() if isinstance(accelerator, str) else ""
    return None if name in _NO_ACCELERATOR else name


def gpu_type_of(notebook: Mapping[str, Any]) -> str | None:
    """Return the card that the notebook requests on Colab, "T4", "L4", "A100"; None where it names none."""
    card = _mapping(_mapping(notebook, "metadata"), "colab").get("gpuType")
    return card.strip() or None if isinstance(card, str) and _CARD.fullmatch(card) else None


def _mentions_colab(cell: object) -> bool:
    if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
        return False
    source = cell_source(cell)
    if source is None or _MENTIONS.search(source) is None:
        return False
    return _MENTIONS.search("\n".join(line.text[: line.comment] for line in scan_lines(source))) is not None


def _mapping(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}
