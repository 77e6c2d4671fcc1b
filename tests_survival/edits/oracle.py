"""What must hold in the end, whatever happened: written from what users are promised, not from how the server merges.

- A line that somebody typed and the server acknowledged is there, once, unless somebody removed it. If two people changed the
  same lines at the same time, the text that lost is in the history, and pages were told.
- A line or cell that somebody removed is gone, unless somebody else edited that cell at the same time.
- The output of a cell is that of its code, unless the cell was edited after it ran.
- Cells that nobody moved are in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests_survival.edits.document import TOKEN, printed, tokens
from tests_survival.edits.ledger import PROGRAM, Change, Execution, Ledger, View, view_of

__all__ = ["judge"]


def judge(ledger: Ledger, notebook: dict[str, Any], history: set[str]) -> list[str]:
    """Everything that is wrong. `history`: the tokens of all recorded versions."""
    return [*Judge(ledger, notebook, history).faults()]


class Judge:
    """Compares the notebook with what was meant."""

    def __init__(self, ledger: Ledger, notebook: dict[str, Any], history: set[str]) -> None:
        self.ledger, self.cells, self.history = ledger, notebook["cells"], history
        self.view: View = view_of(self.cells)
        # The code that ran may replace another text, with a notice, only if its page had not been able to save it, or
        # another program changed the file behind the page's back.
        unsaved = {execution.cell for execution in ledger.executions if not execution.flushed}
        unsaved |= {name for change in ledger.changes if change.who == PROGRAM for name in change.touched}
        recovered = [notice for notice in ledger.recovered if notice["cell"] in unsaved]
        self.told = {token for notice in ledger.conflicts + recovered for token in tokens(notice["other"])}
        self.removed: dict[str, list[Change]] = {}
        for change in ledger.changes:
            for token in change.removed:
                self.removed.setdefault(token, []).append(change)

    def story(self, token: str) -> str:
        """Where a token was, for the report."""
        steps = [f"first in {self.ledger.first.cells_of(token)}"]
        for change in self.ledger.changes:
            origin, target = change.before.cells_of(token), change.after.cells_of(token)
            if origin != target or {*origin, *target} & change.touched:
                known = [change.known.get(name) for name in dict.fromkeys([*origin, *target])]
                steps.append(
                    f"{change.who[:4]}/{change.number} knew {known}, is {change.version}: {origin} to {target}"
                )
        steps.append(f"at last in {self.view.cells_of(token)}")
        return "; ".join(steps)

    def faults(self) -> Iterable[str]:
        ids = [cell["id"] for cell in self.cells]
        if len(set(ids)) != len(ids):
            yield f"a cell is there twice: {ids}"
        yield from self._missing_lines()
        yield from self._lines_too_many()
        yield from self._cells_too_many()
        yield from self._order()
        for cell in self.cells:
            if cell["cell_type"] == "code":
                yield from self._outputs(cell)

    def _missing_lines(self) -> Iterable[str]:
        expected = dict.fromkeys(self.ledger.first.counts, "the first file")
        for change in self.ledger.changes:
            if change.version is not None or change.who == PROGRAM:
                expected |= dict.fromkeys(change.created, f"patch {change.number} of {change.who[:4]}")
        there = self.view.counts
        for token, origin in expected.items():
            if there[token] or token in self.removed or self._each_removed_a_copy(token):
                continue
            told = [
                f"{kind} of {notice['cell']}"
                for kind in ("conflicts", "recovered")
                for notice in getattr(self.ledger, kind)
                if token in tokens(notice["other"])
            ]
            if token not in self.history:
                yield f"lost: {token}, typed in {origin}; not in the history; {told} ({self.story(token)})"
            elif token not in self.told and not self._all_gone(token):
                yield f"lost without a notice: {token}, typed in {origin}; {told} ({self.story(token)})"

    def _each_removed_a_copy(self, token: str) -> bool:
        """Whether a line was in two cells, since people joined and edited them at once, and each removed it from another one."""
        removals = [
            (change.who, name)
            for change in self.ledger.changes
            if change.before.counts[token] > change.after.counts[token] > 0
            for name in set(change.before.cells_of(token)) - set(change.after.cells_of(token))
        ]
        return len({who for who, _ in removals}) > 1 and len({name for _, name in removals}) > 1

    def _all_gone(self, token: str) -> bool:
        """Whether the page that would have shown the notice was closed: its last patch got no answer."""
        return any(change.sent and change.version is None for change in self.ledger.changes)

    def _lines_too_many(self) -> Iterable[str]:
        for token, number in self.view.counts.items():
            if number > 1 and not self._was_doubled_by_people(token):
                places = [name for name, text in self.view.sources.items() if token in tokens(text)]
                yield f"doubled: {token} is in {places} ({self.story(token)})"
            for change in self.removed.get(token, ()):
                if change.version is None or self._came_back(token, change):
                    continue
                yield f"not removed: {token}, by patch {change.number} of {change.who[:4]} ({self.story(token)})"

    def _came_back(self, token: str, removal: Change) -> bool:
        """Whether somebody edited the token's cell without knowing of the removal, or undid the deletion of the cell."""
        if any(token in change.created for change in self.ledger.changes if change is not removal):
            return True
        cell = removal.before.cell_of(token)
        return (cell is not None and self.ledger.is_contested(removal, cell)) or self._was_doubled_by_people(token)

    def _was_doubled_by_people(self, token: str) -> bool:
        """Whether one joined or split cells, and another edited or split the same cell at the same time."""
        for change in self.ledger.changes:
            if change.before.counts[token] <= 1 < change.after.counts[token]:
                return True  # an undone deletion of a cell whose lines were elsewhere by then
            origins = [change.moved_from(token), *self._typed_and_moved(token, change)]
            if any(origin is not None and self.ledger.is_contested(change, origin) for origin in origins):
                return True
        if self._came_with_recovered_code(token):
            return True
        # It was brought back by undoing the deletion of a cell whose lines had gone elsewhere.
        return any(token in change.created and change.added for change in self.ledger.changes) and token in self.removed

    def _came_with_recovered_code(self, token: str) -> bool:
        """Whether a page joined or split cells, ran one of them, and was gone before it could send that.

        The code that ran is shown, and pages are told; that the lines were taken from another cell the server never learned.
        """
        told = {notice["cell"] for notice in self.ledger.recovered}
        return any(
            not run.flushed and token in tokens(run.code) and run.cell in told and not self._sent_after(run)
            for run in self.ledger.executions
            if run.cell in self.view.cells_of(token)
        )

    def _sent_after(self, run: Execution) -> bool:
        """Whether the page of a run was there afterwards: the server has a later patch of it."""
        return any(
            change.who == run.who and change.version is not None and change.made_at >= run.at
            for change in self.ledger.changes
        )

    def _typed_and_moved(self, token: str, change: Change) -> list[str]:
        """Return the cells in which its page ran a line that it typed, and had in another cell when it sent it at last."""
        if token not in change.created:
            return []
        runs = [each.cell for each in self.ledger.executions if each.who == change.who and token in tokens(each.code)]
        return [cell for cell in runs if cell not in change.after.cells_of(token)]

    def _cells_too_many(self) -> Iterable[str]:
        for change in self.ledger.changes:
            for name in change.deleted:
                again = any(name in other.added for other in self.ledger.changes)
                if change.version is None or again or self.ledger.is_contested(change, name):
                    continue
                if name in self.view.sources:
                    yield f"the cell {name}, which {change.who[:4]} deleted, is there"
        deleted = {name for change in self.ledger.changes for name in change.deleted}
        for change in self.ledger.changes:
            for name in change.added - deleted:
                if change.version is not None and name not in self.view.sources:
                    yield f"the cell {name}, which {change.who[:4]} created, is missing"

    def _order(self) -> Iterable[str]:
        """The cells of the first file, if nobody moved anything."""
        first = list(self.ledger.first.sources)
        moved = any(
            [name for name in change.before.sources if name in change.after.sources]
            != [name for name in change.after.sources if name in change.before.sources]
            for change in self.ledger.changes
        )
        again = {name for change in self.ledger.changes for name in change.added}
        # Where a cell was that another program has removed, a server that starts later does not know.
        again |= {name for change in self.ledger.changes if change.who == PROGRAM for name in change.deleted}
        found = [name for name in self.view.sources if name in first and name not in again]
        if not moved and found != [name for name in first if name in found]:
            orders = [
                f"{each.who[:4]}: {[*each.before.sources]} to {[*each.after.sources]}" for each in self.ledger.changes
            ]
            yield f"the order of cells is {found}, and nobody moved any: {orders}"

    def _outputs(self, cell: dict[str, Any]) -> Iterable[str]:
        shown = [token for output in cell["outputs"] for token in TOKEN.findall("".join(output.get("text") or ""))]
        runs = [each for each in self.ledger.executions if each.cell == cell["id"]]
        if not shown:
            return
        mine = [each for each in runs if printed(each.code)[: len(shown)] == shown]
        if not mine:
            twice = " twice" if len(set(shown)) != len(shown) else ""
            yield f"{cell['id']} shows {shown}, which no run of it printed{twice}"
            return
        source = "".join(cell["source"])
        # A run that was lost with its page left the output of the one before.
        if not any(source.strip() == run.code.strip() or self._edited_after(cell["id"], run) for run in mine):
            yield f"{cell['id']}: output of other code: {shown} under {tokens(source)}, ran {tokens(mine[-1].code)}"
        if all(run.ended and len(shown) < len(printed(run.code)) for run in mine):
            yield f"{cell['id']}: only {shown} of {printed(mine[-1].code)} is shown"

    def _edited_after(self, cell: str, run: Execution) -> bool:
        """Whether the cell was edited after a run, or by somebody of whose edit the page did not know when it ran."""
        for change in self.ledger.touching(cell):
            if change.who == run.who:
                if change.edited_at.get(cell, change.made_at) >= run.at:
                    return True
            elif change.version is None or change.version > run.known or change.made_at >= run.at:
                return True
        return any(_ran_without(change, cell, run) for change in self.ledger.touching(cell) if change.who == PROGRAM)


def _ran_without(change: Change, cell: str, run: Execution) -> bool:
    """Whether a page ran a cell without what another program had changed in it: when the page got that, nobody knows."""
    before, after = (set(tokens(view.sources.get(cell, ""))) for view in (change.before, change.after))
    ran = set(tokens(run.code))
    return bool((after - before) - ran or (before - after) & ran)
