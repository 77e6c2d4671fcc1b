"""A cell after all edits, and what is known about the texts that pages typed into it."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct

from ownlab.lab.notebooks.edits.base import BaseCell
from ownlab.lab.notebooks.edits.records import ChangedCell, OutputsPatch, Patch, SourcePatch
from ownlab.lab.notebooks.edits.three_way import MergedText, merge_text

__all__ = ["Cell", "OutputsBefore", "Ran", "cell_from_file", "same_code", "state_of", "with_last"]

T = TypeVar("T")
_KEPT_TEXTS = 32
# A page that executes a cell may not have got another page's text yet: it was cut off, or the cell has the focus. For so
# long after a text was replaced, or a page sent it, code that ran is no news: it was saved.
_KNOWN_SECONDS = 3600.0


class Ran(NamedTuple):
    """Code that ran in a cell."""

    code: str
    at: float
    client: str = ""  # the page that ran it, as its kernel knows it
    asked: float = 0.0  # when the page asked for it, in seconds since 1970 on the page's clock


class RecoveredCode(Struct, frozen=True, array_like=True):
    """Code that a page ran and had not saved, the text in whose place it is shown, and when the page asked for it."""

    code: str
    before: str
    asked: float
    merged: str | None = None  # the code with what other pages, which do not know of it, have sent since

    @property
    def shown(self) -> str:
        """The text of the cell, as long as nobody who knows of the recovery has edited it."""
        return self.code if self.merged is None else self.merged


class MergedEdit(NamedTuple):
    """A text after a page's edit, and the texts that lost lines to it."""

    text: str
    lost: tuple[str, ...] = ()


class OutputsBefore(NamedTuple):
    """Outputs were set explicitly: what runtimes had sent before is not shown any more."""

    runtime: str | None
    number: int
    at: float


class Cell(Struct):
    """A cell after all edits. `changed` is the version of its last change."""

    id: str
    type: str
    source: str
    metadata: dict[str, Any]
    attachments: dict[str, Any] | None = None
    outputs: OutputsPatch | None = None
    outputs_before: tuple[str | None, int, float] | None = None
    changed: int = 0
    edited_at: float = 0.0  # when its source was last changed
    edited_by: str = ""  # by which client of a page; "": by something else
    typed: dict[str, tuple[str, float]] = {}  # page -> the digest of the text that it sent last, and when
    replaced: list[tuple[str, float]] = []  # digests of earlier texts, and when they were replaced
    ran: dict[
        str, RecoveredCode
    ] = {}  # client of a page -> the code of it that was recovered, until the page sends its text
    sent: dict[str, float] = {}  # client of a page -> when it made the last text that it sent, on its own clock

    def replace_source(self, source: str, at: float, client: str = "") -> None:
        """Change the text."""
        self.edited_by = client
        self.replaced = [*self.replaced, (_code_digest(self.source), at)][-_KEPT_TEXTS:]
        self.source, self.edited_at = source, at

    def note_typed(self, patch: Patch, text: str, at: float) -> None:
        """A page has this text now."""
        self.typed = with_last(self.typed, patch.page, (_code_digest(text), at))
        if patch.client:
            self.sent = with_last(self.sent, patch.client, patch.at)

    def recover(self, ran: Ran) -> None:
        """Show the code that ran."""
        earlier = self.ran.get(ran.client)
        # What the same page ran before is no text that it would go back to.
        before = earlier.before if earlier is not None and earlier.shown == self.source else self.source
        self.ran = with_last(self.ran, ran.client, RecoveredCode(ran.code, before, ran.asked))
        self.replace_source(ran.code, ran.at)

    @property
    def is_recovered(self) -> bool:
        """Whether it shows code that was recovered, and nobody has edited it since."""
        return self.recovered_client is not None

    def merge(self, patch: Patch, source: SourcePatch, is_new: bool, at: float) -> MergedEdit:
        """Return the text after a page's edit. `is_new`: the cell was not there before.

        If code that the page ran was recovered, it is not gone, as it seemed, and now sends what it had: the recovery is
        undone. A patch that it made before it ran the code is contained in the code.

        Code of another page may be shown as recovered. If that page is not gone either, its recovery will be undone, too: then
        the cell must have what this page sends now.
        """
        base = source.base
        if base is None:  # the page takes the cell as new: perhaps it has undone a deletion
            base = self.source if is_new else ""
        client = patch.client or ""
        ran = self.ran.get(client) if client else None
        # What it ran has everything that it sent before; only if that is not all of it will another patch follow.
        if ran is not None and patch.at < ran.asked and not same_code(source.text, ran.code):
            before = merge_text(base, source.text, ran.before)
            self.ran[client] = msgspec.structs.replace(ran, before=before.text)
            return MergedEdit(self.source, (ran.before,) if before.conflict else ())
        shown, other = self.source, self.recovered_client
        if ran is not None:
            del self.ran[client]
            if shown == ran.shown:
                self.replace_source(ran.before, at)
        merged = _merge_after_run(base, source.text, shown, ran)
        lost = [self.source] if merged.conflict else []
        if other not in (None, client) and (base != shown or patch.version < self.changed):
            # The page has not taken over the code of another page that is shown instead of its text.
            recovered = self.ran[other]
            kept = _merge_after_run(base, source.text, recovered.before, ran)
            self.ran[other] = msgspec.structs.replace(recovered, before=kept.text, merged=merged.text)
            lost += [recovered.before] if kept.conflict and recovered.before not in lost else []
        return MergedEdit(merged.text, tuple(lost))

    @property
    def recovered_client(self) -> str | None:
        """The client whose code is shown as recovered."""
        return next((name for name, each in self.ran.items() if each.shown == self.source), None)

    def undo_recovery(self, patch: Patch, at: float) -> bool:
        """The page whose code is shown as recovered is not gone: show the other text again. Return whether it changed."""
        ran = self.ran.get(patch.client or "") if patch.client else None
        if ran is None or ran.shown != self.source or patch.at < ran.asked:
            return False
        del self.ran[patch.client or ""]
        self.replace_source(ran.before, at)
        return True

    def was_edited_after(self, ran: Ran) -> bool:
        """Return whether the text was changed after code ran; not by what its page sent before it ran the code."""
        is_older = bool(ran.asked) and self.edited_by == ran.client and self.sent.get(ran.client, ran.asked) < ran.asked
        return self.edited_at > ran.at and not is_older

    def knows(self, ran: Ran) -> bool:
        """Return whether code that ran is no news: the cell or a page had it before, or the page has sent a newer text.

        A page that was cut off sends its edits and its executions again, in any order.
        """
        if ran.asked and self.sent.get(ran.client, 0.0) >= ran.asked:
            return True
        recovered = self.ran.get(ran.client)
        if ran.asked and recovered is not None and recovered.asked >= ran.asked:
            return True  # what the page ran later is known
        digest = _code_digest(ran.code)
        return any(
            each == digest and ran.at - when <= _KNOWN_SECONDS for each, when in [*self.typed.values(), *self.replaced]
        )

    def as_change(self) -> ChangedCell:
        """Return it as pages get it."""
        return ChangedCell(
            self.id,
            self.type,
            self.source,
            self.metadata,
            UNSET if self.attachments is None else self.attachments,
            UNSET if self.outputs is None else self.outputs,
        )


def _merge_after_run(base: str, text: str, onto: str, ran: RecoveredCode | None) -> MergedText:
    """Merge what a page sends into a text that may be, or have come from, the code that this page ran."""
    if ran is None:
        return merge_text(base, text, onto)
    if onto == ran.shown:
        return merge_text(base, text, ran.before)
    return merge_text(ran.code, text, onto)


def with_last(table: dict[str, T], name: str, value: T, most: int = _KEPT_TEXTS) -> dict[str, T]:
    """Return the table with this entry as the last one, and only its last ones."""
    others = {each: kept for each, kept in table.items() if each != name}
    return dict([*others.items(), (name, value)][-most:])


def cell_from_file(name: str, cell: BaseCell) -> Cell:
    """Return a cell without edits."""
    return Cell(name, cell.type, cell.source, dict(cell.metadata), cell.attachments)


def state_of(cell: Cell) -> tuple[str, str, dict[str, Any], dict[str, Any] | None]:
    """Return what the file has of a cell besides its outputs."""
    return cell.type, cell.source, cell.metadata, cell.attachments


def same_code(first: str, second: str) -> bool:
    """Return whether two texts are the same code: line ends, and space at the end, do not matter."""
    return _plain_code(first) == _plain_code(second)


def _plain_code(code: str) -> str:
    return code.replace("\r\n", "\n").rstrip()


def _code_digest(code: str) -> str:
    return hashlib.blake2b(_plain_code(code).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
