"""Compare a notebook that ran with the table, with a page and without one."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import nbformat
from tests_colab.cases.case import Text
from tests_colab.suite import output_data, output_text

__all__ = ["check_cells", "check_unchanged"]


def check_cells(notebook: dict[str, Any], texts: Mapping[str, Text], displays: Mapping[str, str]) -> None:
    """Every cell has the output of the table, and no other."""
    cells = {name_of(cell, number): cell for number, cell in enumerate(notebook["cells"])}
    actual = {name: output_text(cell) for name, cell in cells.items() if cell["cell_type"] == "code"}
    assert set(texts) <= set(actual)
    different = {
        name: (output, texts.get(name, ""))
        for name, output in actual.items()
        if not matches(output, texts.get(name, ""))
    }
    assert different == {}, different
    for name, pattern in displays.items():
        data = output_data(cells[name])
        assert re.search(pattern, data, re.DOTALL), f"{name}: {data[:2000]}"


def check_unchanged(
    given: dict[str, Any], written: dict[str, Any], ignore_fields: bool, replaced: tuple[str, ...] = ()
) -> None:
    """The written notebook is valid and contains all of the given one, also unknown metadata.

    `replaced`: metadata that a page may rewrite. `ignore_fields`: values of forms were filled in.
    """
    nbformat.validate(copy.deepcopy(written))
    metadata = {name: value for name, value in given["metadata"].items() if name not in replaced}
    assert {name: value for name, value in written["metadata"].items() if name in metadata} == metadata
    assert len(written["cells"]) == len(given["cells"])
    for before, after in zip(given["cells"], written["cells"], strict=True):
        left = {name: value for name, value in after["metadata"].items() if name != "execution"}
        assert left == before["metadata"], left
        assert after["cell_type"] == before["cell_type"]
        assert lines_of(after, ignore_fields) == lines_of(before, ignore_fields)


def name_of(cell: dict[str, Any], number: int) -> str:
    """Return the id that Colab gave to a cell, or its index."""
    return str(cell["metadata"].get("id", number))


def matches(output: str, expected: Text) -> bool:
    """Return whether an output is as expected."""
    return output == expected if isinstance(expected, str) else expected.fullmatch(output) is not None


def lines_of(cell: dict[str, Any], ignore_fields: bool) -> list[str]:
    """Return the lines of a cell; with ignore_fields, lines with fields without their values."""
    lines = "".join(cell["source"]).splitlines()
    return [line.partition("=")[0] if ignore_fields and "#@param" in line else line for line in lines]
