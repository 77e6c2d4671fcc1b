"""What a person does to the code of a notebook: each line has a token that exists nowhere else.

A line prints its token, so that an output says which code it is the output of.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

__all__ = ["Typist", "make_notebook", "printed", "tokens"]

TOKEN = re.compile(r"\bt\d+\b")
PRINTED = re.compile(r"print\('(t\d+)'")
CellJson = dict[str, Any]


def tokens(text: str) -> list[str]:
    """All tokens of a text, in order."""
    return TOKEN.findall(text)


def printed(text: str) -> list[str]:
    """The tokens that code prints, in order."""
    return PRINTED.findall(text)


def all_tokens(texts: Iterable[str]) -> Counter[str]:
    """How often each token occurs."""
    return Counter(token for text in texts for token in tokens(text))


class Tokens:
    """Tokens and cell ids of one run."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def line(self, seconds: float) -> str:
        return f"print('t{next(self._numbers)}', flush=True); __import__('time').sleep({seconds:.2f})"

    def comment(self) -> str:
        return f"  # t{next(self._numbers)}"

    def cell(self) -> str:
        return f"cell-{next(self._numbers)}"


def make_notebook(new: Tokens, chance: random.Random, kernel: str) -> dict[str, Any]:
    """A notebook that was never run."""
    cells: list[CellJson] = []
    for _ in range(chance.randint(2, 5)):
        lines = [new.line(0.02) for _ in range(chance.randint(1, 4))]
        cells.append(code_cell(new.cell(), "\n".join(lines)))
    return {
        "cells": cells,
        "metadata": {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def code_cell(name: str, source: str) -> CellJson:
    """A code cell without outputs."""
    return {
        "cell_type": "code", "id": name, "metadata": {}, "source": source, "outputs": [], "execution_count": None,
    }  # fmt: skip


class Typist:
    """Changes the cells of a page at random. `cells` is the page's own list."""

    def __init__(self, new: Tokens, chance: random.Random) -> None:
        self.new, self.chance = new, chance
        self.cells: list[CellJson] = []
        self.on_removed: Callable[[CellJson], None] = lambda cell: None
        self.on_added: Callable[[CellJson], None] = lambda cell: None
        self.on_cleared: Callable[[CellJson], None] = lambda cell: None
        self._gone: list[tuple[int, CellJson]] = []

    def act(self) -> str:
        """Do one thing. Return what, for the report."""
        names = list(WEIGHTS)
        name = self.chance.choices(names, [WEIGHTS[name] for name in names])[0]
        place = self.chance.randrange(len(self.cells))
        cell = self.cells[place]
        getattr(self, f"_{name}")(place, cell)
        return f"{name} {cell['id']}"

    def _lines(self, cell: CellJson) -> list[str]:
        return cell["source"].split("\n") if cell["source"] else []

    def _set(self, cell: CellJson, lines: list[str]) -> None:
        cell["source"] = "\n".join(lines)

    def _new_line(self) -> str:
        return self.new.line(self.chance.choice((0.0, 0.02, 0.1)))

    def _add_line(self, place: int, cell: CellJson) -> None:
        lines = self._lines(cell)
        lines.insert(self.chance.randint(0, len(lines)), self._new_line())
        self._set(cell, lines)

    def _extend_line(self, place: int, cell: CellJson) -> None:
        lines = self._lines(cell)
        if lines:
            lines[self.chance.randrange(len(lines))] += self.new.comment()
            self._set(cell, lines)

    def _replace_line(self, place: int, cell: CellJson) -> None:
        lines = self._lines(cell)
        if lines:
            lines[self.chance.randrange(len(lines))] = self._new_line()
            self._set(cell, lines)

    def _remove_line(self, place: int, cell: CellJson) -> None:
        lines = self._lines(cell)
        if lines:
            del lines[self.chance.randrange(len(lines))]
            self._set(cell, lines)

    def _insert(self, place: int, cell: CellJson) -> None:
        lines = [self._new_line() for _ in range(self.chance.randint(0, 2))]
        self._put(place + self.chance.randint(0, 1), code_cell(self.new.cell(), "\n".join(lines)))

    def _put(self, place: int, cell: CellJson) -> None:
        self.cells.insert(place, cell)
        self.on_added(cell)

    def _move(self, place: int, cell: CellJson) -> None:
        self.cells.insert(self.chance.randrange(len(self.cells)), self.cells.pop(place))

    def _delete(self, place: int, cell: CellJson) -> None:
        if len(self.cells) > 2:
            self._gone.append((place, self.cells.pop(place)))
            self.on_removed(cell)

    def _undelete(self, place: int, cell: CellJson) -> None:
        if self._gone:
            where, gone = self._gone.pop()
            if all(each["id"] != gone["id"] for each in self.cells):
                self._put(min(where, len(self.cells)), gone)

    def _split(self, place: int, cell: CellJson) -> None:
        lines = self._lines(cell)
        if len(lines) > 1:
            cut = self.chance.randrange(1, len(lines))
            self._set(cell, lines[:cut])
            made = code_cell(self.new.cell(), "\n".join(lines[cut:]))
            if cell["cell_type"] != "code":
                made = {name: made[name] for name in ("id", "metadata", "source")} | {"cell_type": cell["cell_type"]}
            self._put(place + 1, made)

    def _join(self, place: int, cell: CellJson) -> None:
        if place + 1 < len(self.cells) and len(self.cells) > 2:
            below = self.cells.pop(place + 1)
            self.on_removed(below)
            self._set(cell, self._lines(cell) + self._lines(below))
            self._clear(place, cell)

    def _clear(self, place: int, cell: CellJson) -> None:
        if cell["cell_type"] == "code":
            self.on_cleared(cell)

    def _retype(self, place: int, cell: CellJson) -> None:
        self.on_removed(cell)
        if cell["cell_type"] == "code":
            cell["cell_type"] = "markdown"
            cell.pop("outputs", None)
            cell.pop("execution_count", None)
        else:
            cell |= {"cell_type": "code", "outputs": [], "execution_count": None}
        self.on_added(cell)

    def _tag(self, place: int, cell: CellJson) -> None:
        cell["metadata"]["tags"] = [self.new.cell()]


# Relative frequency.
WEIGHTS = {
    "add_line": 8, "extend_line": 4, "replace_line": 3, "remove_line": 1.5, "insert": 2, "move": 2, "delete": 1, "undelete": 0.7,
    "split": 1.5, "join": 1, "clear": 0.7, "retype": 0.5, "tag": 0.7,
}  # fmt: skip
