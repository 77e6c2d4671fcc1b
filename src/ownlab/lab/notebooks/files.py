"""Notebooks as files: read with `parsing`, and written exactly as nbformat writes them, but without importing it."""

from __future__ import annotations

import json
from typing import Any, TextIO

from ownlab.errors import InputError
from ownlab.lab.notebooks.parsing import parse_current_notebook
from ownlab.text import text

__all__ = ["notebook_json", "read_notebook", "write_new", "write_over"]


def read_notebook(path: str) -> dict[str, Any]:
    """Read a notebook of any format and convert it to the newest. InputError if that is impossible."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as exc:
        raise InputError(text("there is no notebook {path}", path=path)) from exc
    except OSError as exc:
        raise InputError(text("{path} cannot be read: {reason}", path=path, reason=exc.strerror)) from exc
    return parse_current_notebook(data, path)


def write_new(path: str, notebook: dict[str, Any]) -> None:
    """Write a new file. FileExistsError if there is one already."""
    with open(path, "x", encoding="utf-8", newline="\n") as file:
        file.write(notebook_json(notebook))


def write_over(path: str, notebook: dict[str, Any]) -> None:
    """Replace a file atomically; in place where that is impossible. InputError if it cannot be written."""
    from ownlab.lab.notebooks.merging import replace_notebook

    content = notebook_json(notebook)

    def write(file: TextIO) -> None:
        file.write(content)

    try:
        if not replace_notebook(path, write):
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                write(file)
    except OSError as exc:
        raise InputError(text("{path} cannot be written: {reason}", path=path, reason=exc.strerror)) from exc


def notebook_json(notebook: dict[str, Any]) -> str:
    """Return the JSON as Jupyter writes it: sorted, indented by one, texts as lists of lines."""
    cells = [_split_cell(cell) for cell in notebook["cells"]]
    content = json.dumps({**notebook, "cells": cells}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
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
