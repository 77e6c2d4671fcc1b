"""Whether a notebook says what the table says, with a page and without one."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import nbformat
from tests_colab.cases.case import Text
from tests_colab.lab import said, shown

__all__ = ["check_cells", "check_kept"]


def check_cells(notebook: dict[str, Any], says: Mapping[str, Text], shows: Mapping[str, str]) -> None:
    """Every cell says what the table says, and nothing else."""
    cells = {name_of(cell, number): cell for number, cell in enumerate(notebook["cells"])}
    texts = {name: said(cell) for name, cell in cells.items() if cell["cell_type"] == "code"}
    assert set(says) <= set(texts)
    different = {
        name: (text, says.get(name, "")) for name, text in texts.items() if not agrees(text, says.get(name, ""))
    }
    assert different == {}, different
    for name, pattern in shows.items():
        data = shown(cells[name])
        assert re.search(pattern, data, re.DOTALL), f"{name}: {data[:2000]}"


def check_kept(given: dict[str, Any], written: dict[str, Any], but_fields: bool, theirs: tuple[str, ...] = ()) -> None:
    """It is a valid notebook, and all of the given one is in it: unknown metadata too.

    `theirs`: metadata that a page may write anew. `but_fields`: values of forms were filled in.
    """
    nbformat.validate(copy.deepcopy(written))
    metadata = {name: value for name, value in given["metadata"].items() if name not in theirs}
    assert {name: value for name, value in written["metadata"].items() if name in metadata} == metadata
    assert len(written["cells"]) == len(given["cells"])
    for before, after in zip(given["cells"], written["cells"], strict=True):
        left = {name: value for name, value in after["metadata"].items() if name != "execution"}
        assert left == before["metadata"], left
        assert after["cell_type"] == before["cell_type"]
        assert lines_of(after, but_fields) == lines_of(before, but_fields)


def name_of(cell: dict[str, Any], number: int) -> str:
    """The id that Colab gave to a cell, or its number among all cells."""
    return str(cell["metadata"].get("id", number))


def agrees(text: str, expected: Text) -> bool:
    """Whether a cell says what it should."""
    return text == expected if isinstance(expected, str) else expected.fullmatch(text) is not None


def lines_of(cell: dict[str, Any], but_fields: bool) -> list[str]:
    """The lines of a cell; those with fields only as far as the value, where those were filled in."""
    lines = "".join(cell["source"]).splitlines()
    return [line.partition("=")[0] if but_fields and "#@param" in line else line for line in lines]
