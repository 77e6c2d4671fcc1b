"""Notebooks as files: read with `parsing`, and written exactly as nbformat writes them, but without importing it."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import shutil
from collections.abc import Callable
from typing import Any, BinaryIO, TextIO

from ownlab.atomic_files import replace_file
from ownlab.errors import InputError, OwnlabError
from ownlab.input_files import read_bytes
from ownlab.lab.notebooks.damage import describe_damage
from ownlab.lab.notebooks.parsing import parse_current_notebook
from ownlab.text import english_document, text

__all__ = [
    "FileChangedError",
    "notebook_json",
    "read_notebook",
    "read_notebook_file",
    "replace_notebook",
    "write_new",
    "write_over",
]


class FileChangedError(OwnlabError):
    """Another program has changed a file that was about to be replaced."""


def read_notebook(path: str) -> dict[str, Any]:
    """Read a notebook of any format and convert it to the newest, with all edits that an open page has sent.

    InputError if that is impossible.
    """
    notebook = read_notebook_file(path)
    from ownlab.lab.notebooks.edits.edit_log import apply_pending_edits  # it writes files, too

    apply_pending_edits(path, notebook)
    return notebook


def read_notebook_file(path: str) -> dict[str, Any]:
    """Read a notebook of any format as it is in its file, and convert it to the newest. InputError if that is impossible."""
    try:
        data = read_bytes(path)
    except InputError as exc:
        if isinstance(exc.__cause__, FileNotFoundError):
            raise InputError(text("There is no notebook {path}.", path=path)) from exc
        raise
    try:
        notebook = parse_current_notebook(data, path)
    except InputError as exc:
        from ownlab.lab.notebooks.identity import find_identity  # seldom needed

        command = shlex.join(["ownlab", "history", path])
        versions = text("Its earlier versions: {command}", command=command) if find_identity(path) is not None else ""
        raise InputError(describe_damage(data, path), hint=exc.hint or versions) from exc
    return notebook


def write_new(path: str, notebook: dict[str, Any]) -> None:
    """Write a new file. FileExistsError if there is one already."""
    with open(path, "x", encoding="utf-8", newline="\n") as file:
        file.write(notebook_json(notebook))


def write_over(path: str, notebook: dict[str, Any]) -> None:
    """Replace a file atomically; in place where that is impossible. InputError if it cannot be written."""
    content = notebook_json(notebook)

    def write(file: TextIO) -> None:
        file.write(content)

    try:
        if not replace_notebook(path, write):
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                write(file)
    except OSError as exc:
        raise InputError(text("{path} cannot be written: {reason}.", path=path, reason=exc.strerror)) from exc


def replace_notebook(
    path: str, write: Callable[[TextIO], None], before_replacing: Callable[[str], None] | None = None
) -> bool:
    """Replace a notebook's file atomically. False when that is impossible here; then it must be written in place.

    The new file gets the owner, the mode and the attributes of the old one. A file with several names (hard links) cannot
    be replaced. `before_replacing` is called last, with the path of the new file; if it raises an error that is no OSError,
    the old file stays.
    """
    import hashlib  # needed only to write

    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    old = os.stat(path) if os.path.exists(path) else None
    if old is not None and (old.st_nlink > 1 or not os.access(path, os.W_OK)):
        return False

    def write_text(file: BinaryIO) -> None:
        wrapped = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            write(wrapped)
        finally:
            wrapped.detach()  # flushes, and leaves the file open

    def finish(new: str) -> None:
        if old is not None:
            _make_alike(path, old, new)
        if before_replacing is not None:
            before_replacing(new)

    try:
        replace_file(
            path,
            write_text,
            mode=0o666 if old is None else 0o600,
            durable=True,
            # Always the same name: the next write removes what an interrupted one left.
            temporary=os.path.join(folder, f".~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.tmp"),
            finish=finish,
        )
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False  # another person's folder, a file that is a mount point …
    return True


def _make_alike(path: str, old: os.stat_result, new: str) -> None:
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.stat(new).st_gid):
        os.chown(new, old.st_uid, old.st_gid)
    shutil.copystat(path, new)
    os.utime(new)


def notebook_json(notebook: dict[str, Any]) -> str:
    """Return the JSON as Jupyter writes it: sorted, indented by one, texts as lists of lines."""
    cells = [_split_cell(cell) for cell in notebook["cells"]]
    content = (
        json.dumps(english_document({**notebook, "cells": cells}), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    )
    try:
        content.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON may hold and a file in UTF-8 may not
        return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return content


def _split_cell(cell: dict[str, Any]) -> dict[str, Any]:
    split = {**cell, "source": _lines(cell["source"])}
    if isinstance(cell.get("outputs"), list):
        split["outputs"] = [_split_output(output) for output in cell["outputs"]]
    return split


def _split_output(output: Any) -> Any:
    if not isinstance(output, dict):
        return output
    split = {**output}
    if isinstance(output.get("text"), str):
        split["text"] = _lines(output["text"])
    if isinstance(output.get("data"), dict):
        split["data"] = {mime: _lines(value) if _is_text(mime) else value for mime, value in output["data"].items()}
    return split


def _is_text(mime: str) -> bool:
    return mime.startswith("text/") or mime in ("application/javascript", "image/svg+xml")


def _lines(value: Any) -> Any:
    return value.splitlines(keepends=True) if isinstance(value, str) else value
