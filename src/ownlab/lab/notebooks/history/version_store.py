"""The versions of one notebook on disk. Cells and outputs are blobs named by their content, so versions share them.

`index.json` lists the versions; `blobs/` has compressed JSON. Only the owner may read them.
"""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.errors import InputError, LabError
from ownlab.file_lock import wait_for_lock
from ownlab.lab.notebooks.history.comparison import source_of
from ownlab.lab.notebooks.history.records import Reason, Version
from ownlab.lab.notebooks.history.retention import thin_out
from ownlab.lab.notebooks.identity import identity_folder
from ownlab.lab.notebooks.parsing import cells_of
from ownlab.text import text

__all__ = ["VersionStore"]

# Larger outputs of a cell are not kept in the history.
_MAX_OUTPUTS = 8 << 20
# Recorded because something else takes the place of the notebook, or of a text in it: perhaps it exists nowhere else.
_REPLACED: tuple[Reason, ...] = ("before-restore", "deleted", "conflict", "recovered")


class _Content(Struct, frozen=True):
    """What a version consists of: blobs of the cells and of their outputs ("" for none, "-" for too large)."""

    cells: tuple[tuple[str, str], ...]
    rest: str  # metadata and format


class VersionStore:
    """The history of one notebook. Its methods block, and raise OSError if the disk does."""

    def __init__(self, identity: str, *, days: float, megabytes: float) -> None:
        self.folder: Path = identity_folder(identity) / "history"
        self._days, self._bytes = days, int(megabytes * (1 << 20))

    def versions(self) -> list[Version]:
        """Return all versions, oldest first. A damaged list is empty."""
        try:
            return msgspec.json.decode((self.folder / "index.json").read_bytes(), type=list[Version])
        except (OSError, msgspec.MsgspecError):
            return []

    def find(self, version: str) -> Version:
        """Return a version by its id, or the beginning of it, or its name. InputError if there is none, or several."""
        versions = self.versions()
        found = [each for each in versions if version in (each.id, each.name)]
        found = found or [each for each in versions if version and each.id.startswith(version)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(text("{version} is the beginning of several versions.", version=version))
        raise InputError(
            text("There is no version {version}.", version=version or '""'),
            hint=text("`ownlab history NOTEBOOK` lists the versions."),
        )

    def load(self, version: Version) -> dict[str, Any]:
        """Return the notebook of a version. LabError if its files are damaged."""
        content = self._read(version.content, _Content)
        cells = [self._load_cell(*names) for names in content.cells]
        return {**self._read(content.rest, dict[str, Any]), "cells": cells}

    def _load_cell(self, cell: str, outputs: str) -> dict[str, Any]:
        loaded: dict[str, Any] = self._read(cell, dict[str, Any])
        if loaded.get("cell_type") == "code":
            loaded["outputs"] = self._read(outputs, list[dict[str, Any]]) if len(outputs) > 1 else []
            loaded.setdefault("execution_count", None)
        return loaded

    # -- changes

    def record(
        self, notebook: dict[str, Any], reason: Reason, *, name: str | None = None, at: float | None = None
    ) -> Version | None:
        """Add a version. None if it is the same as the newest, and needs no name.

        If something took its place, the newest one is marked instead, so that it is not thinned out.
        """
        at = time.time() if at is None else at
        with self._locked():
            versions = self.versions()
            cells = tuple((self._write(_cell(cell)), self._write_outputs(cell)) for cell in cells_of(notebook))
            rest = {key: value for key, value in notebook.items() if key != "cells"}
            content = self._write(_Content(cells, self._write(rest)))
            newest = versions[-1] if versions else None
            if newest is not None and newest.content == content and name is None:
                return self._mark(versions, reason) if reason in _REPLACED and newest.reason == "edited" else None
            changed, lost = self._changes(newest, content)
            version = Version(_new_id(versions, at), at, reason, len(cells), changed, name, content, lost)
            self._keep([*versions, version])
            return version

    def _changes(self, before: Version | None, content: str) -> tuple[int, int]:
        """Return how many cells a version changes, and of how many of these it has lost the text."""
        old = {blob for blob, _ in self._content_of(before).cells} if before else set()
        new = {blob for blob, _ in self._read(content, _Content).cells}
        gone, came = self._cells(old - new), self._cells(new - old)
        return len(gone.keys() | came.keys()), sum(_has_lost_text(cell, came.get(name)) for name, cell in gone.items())

    def _cells(self, blobs: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return cells by their ids. A damaged one is left out."""
        cells: dict[str, dict[str, Any]] = {}
        for blob in blobs:
            with suppress(LabError):
                cell: dict[str, Any] = self._read(blob, dict[str, Any])
                cells[str(cell.get("id", blob))] = cell
        return cells

    def _mark(self, versions: list[Version], reason: Reason) -> Version:
        marked = msgspec.structs.replace(versions[-1], reason=reason)
        self._write_index([*versions[:-1], marked])
        return marked

    def rename(self, version: Version, name: str | None) -> Version:
        """Give a version a name, or take it away."""
        with self._locked():
            versions = self.versions()
            renamed = msgspec.structs.replace(version, name=name or None)
            self._write_index([renamed if each.id == version.id else each for each in versions])
            return renamed

    def purge(self, version: Version | None = None) -> None:
        """Remove a version, or all: people paste secrets. What other versions contain stays."""
        with self._locked():
            before = self.versions()
            versions = [each for each in before if version is not None and each.id != version.id]
            versions = self._compare_again(before, versions)
            self._write_index(versions)
            self._remove_unused(versions)

    def size(self) -> int:
        """Return the bytes on disk."""
        return sum(size for _, size in self._blobs())

    def _keep(self, versions: list[Version]) -> None:
        kept = self._compare_again(versions, thin_out(versions, time.time(), self._days))
        self._write_index(kept)
        if len(kept) < len(versions) or self.size() > self._bytes:
            self._remove_unused(kept)
        while self.size() > self._bytes and (oldest := next((each for each in kept[:-1] if not each.name), None)):
            kept.remove(oldest)
            self._write_index(kept)
            self._remove_unused(kept)

    def _compare_again(self, before: list[Version], kept: list[Version]) -> list[Version]:
        """Compare versions whose predecessor was removed with the one that precedes them now."""
        predecessors = {version.id: older.id for older, version in pairwise(before)}
        compared = kept[:1]
        for older, version in pairwise(kept):
            if predecessors.get(version.id) != older.id:
                with suppress(LabError):
                    changed, lost = self._changes(older, version.content)
                    version = msgspec.structs.replace(version, changed=changed, lost=lost)
            compared.append(version)
        return compared

    def _remove_unused(self, versions: Iterable[Version]) -> None:
        used: set[str] = set()
        for version in versions:
            content = self._content_of(version)
            used |= {version.content, content.rest, *(blob for pair in content.cells for blob in pair)}
        for path, _ in list(self._blobs()):
            if path.name not in used:
                with suppress(FileNotFoundError):
                    path.unlink()

    def _content_of(self, version: Version) -> _Content:
        try:
            content: _Content = self._read(version.content, _Content)
        except LabError:
            return _Content((), "")
        return content

    # -- files

    @contextmanager
    def _locked(self) -> Iterator[None]:
        for folder in (self.folder.parent, self.folder, self.folder / "blobs"):
            folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            wait_for_lock(descriptor, LabError(text("The history of this notebook is in use by another process.")))
            yield
        finally:
            os.close(descriptor)

    def _write_index(self, versions: list[Version]) -> None:
        replace_file(self.folder / "index.json", msgspec.json.encode(versions), durable=True)

    def _write_outputs(self, cell: dict[str, Any]) -> str:
        outputs = cell.get("outputs")
        if not outputs:
            return ""
        encoded = _encode(outputs)
        return "-" if len(encoded) > _MAX_OUTPUTS else self._write_blob(encoded)

    def _write(self, value: object) -> str:
        return self._write_blob(_encode(value))

    def _write_blob(self, encoded: bytes) -> str:
        name = hashlib.blake2b(encoded, digest_size=16).hexdigest()
        path = self.folder / "blobs" / name
        if not path.exists():
            replace_file(path, zlib.compress(encoded, 6))
        return name

    def _read(self, blob: str, kind: Callable[..., Any] | Any) -> Any:
        try:
            encoded = zlib.decompress((self.folder / "blobs" / blob).read_bytes())
            return msgspec.json.decode(encoded, type=kind)
        except (OSError, zlib.error, ValueError, msgspec.MsgspecError) as exc:
            raise LabError(
                text("This version cannot be read: a file of the history is missing or damaged."),
                hint=text("Other versions may still be readable."),
            ) from exc

    def _blobs(self) -> Iterator[tuple[Path, int]]:
        try:
            with os.scandir(self.folder / "blobs") as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        yield Path(entry.path), entry.stat().st_size
        except FileNotFoundError:
            return


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Return a cell without what each execution changes, so that executing a cell does not look like an edit."""
    metadata = {key: value for key, value in cell.get("metadata", {}).items() if key not in ("execution", "trusted")}
    return {key: value for key, value in cell.items() if key not in ("outputs", "execution_count")} | {
        "metadata": metadata
    }


def _has_lost_text(before: dict[str, Any], after: dict[str, Any] | None) -> bool:
    text_before = source_of(before).strip()
    return bool(text_before) and (after is None or 2 * len(source_of(after).strip()) < len(text_before))


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, msgspec.MsgspecError):  # lone surrogates
        from ownlab.lab.notebooks.parsing import replace_lone_surrogates

        return msgspec.json.encode(replace_lone_surrogates(value), order="sorted")


def _new_id(versions: list[Version], at: float) -> str:
    """Return an id that people can type: the time, in the order of time."""
    made = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at))
    taken = {version.id for version in versions}
    number = 1
    unique = made
    while unique in taken:
        number += 1
        unique = f"{made}-{number}"
    return unique
