"""Deleted cells: an edit by somebody who did not know of the deletion brings one back, to where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ownlab.lab.notebooks.edits.cell import Cell

__all__ = ["DeletedCell", "order_with_deleted"]


class DeletedCell(Struct):
    """A cell that is not in the notebook any more."""

    cell: Cell
    before: list[str]  # the cells that it followed; some of them may have been deleted earlier
    changed: int  # the version that deleted it

    def place_in(self, order: Sequence[str]) -> int:
        """Return the index at which it comes back: behind the nearest cell before it that is there."""
        return _behind(self.before, order)


def order_with_deleted(order: Sequence[str], deleted: Mapping[str, DeletedCell]) -> list[str]:
    """Return the order of cells with the deleted ones where they were. `deleted`: the earliest deletion first."""
    everything = list(order)
    for name, each in deleted.items():
        everything.insert(_behind(each.before, everything), name)
    return everything


def _behind(before: Sequence[str], order: Sequence[str]) -> int:
    places = {name: place for place, name in enumerate(order)}
    return next((places[name] + 1 for name in reversed(before) if name in places), 0)
