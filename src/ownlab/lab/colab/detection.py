"""Whether a notebook was written for Colab, and for which kind of machine there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ownlab.lab.forms.notebook_forms import source_of
from ownlab.lab.forms.source_lines import lines_of

__all__ = ["accelerator_of", "gpu_type_of", "wants_colab"]

# In quotes too: 'google.colab' in sys.modules. With JavaScript's google.colab.kernel, in an HTML cell, likewise.
_MENTIONS = re.compile(
    r"(?<![\w.])google\s*\.\s*colab(?!\w)"
    r"|(?<![\w.])from\s+google\s+import\s*(?:\([^)]*|[^\n;(]*)(?<!\w)colab(?!\w)"
)
_NO_ACCELERATOR = ("", "NONE")
_CARD = re.compile(r"[\w .-]{1,40}")  # it is shown to people, and anybody may have written it


def wants_colab(notebook: Mapping[str, Any]) -> bool:
    """Whether its kernel is to be like Colab's: as the notebook says, else by who saved it and what its code uses."""
    metadata = _part(notebook, "metadata")
    said = _part(metadata, "ownlab").get("colab")
    if isinstance(said, bool):
        return said
    if "colab" in metadata:
        return True
    cells = notebook.get("cells")
    return any(_mentions(cell) for cell in (cells if isinstance(cells, list) else []))


def accelerator_of(notebook: Mapping[str, Any]) -> str | None:
    """ "GPU" or "TPU", as the notebook asks for it on Colab; None where it asks for none."""
    found = _part(notebook, "metadata").get("accelerator")
    name = found.strip().upper() if isinstance(found, str) else ""
    return None if name in _NO_ACCELERATOR else name


def gpu_type_of(notebook: Mapping[str, Any]) -> str | None:
    """Which card it asks for on Colab: "T4", "L4", "A100"; None where it does not say."""
    found = _part(_part(notebook, "metadata"), "colab").get("gpuType")
    return found.strip() or None if isinstance(found, str) and _CARD.fullmatch(found) else None


def _mentions(cell: object) -> bool:
    if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
        return False
    source = source_of(cell)
    if source is None or _MENTIONS.search(source) is None:
        return False
    return _MENTIONS.search("\n".join(line.text[: line.comment] for line in lines_of(source))) is not None


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = record.get(name)
    return found if isinstance(found, Mapping) else {}
