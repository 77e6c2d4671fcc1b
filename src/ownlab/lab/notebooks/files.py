"""Notebooks as files: read without nbformat, whose import takes longer than many a run, and written as it writes them."""

from __future__ import annotations

import json
from typing import Any, TextIO

import msgspec

from ownlab.errors import InputError

__all__ = ["as_text", "read_file", "write_new", "write_over"]

_FORMAT = 4


def read_file(path: str) -> dict[str, Any]:
    """A notebook of any format, in the newest. InputError where there is none, or it cannot be understood."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as exc:
        raise InputError(f"there is no notebook {path}") from exc
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}") from exc
    try:
        given = _parse(data)
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{path} is no notebook: it is not JSON ({exc})") from exc
    if not isinstance(given, dict) or not isinstance(given.get("nbformat"), int):
        raise InputError(f"{path} is no notebook: it is JSON of another kind")
    if given["nbformat"] > _FORMAT:
        raise InputError(f"{path} has the notebook format {given['nbformat']}; the newest known here is {_FORMAT}")
    notebook = given if given["nbformat"] == _FORMAT else _older(path, data)
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(_is_cell(cell) for cell in cells):
        raise InputError(f"{path} is a damaged notebook: its cells are not a list of cells")
    return notebook


def write_new(path: str, notebook: dict[str, Any]) -> None:
    """Write a file that is not there yet; FileExistsError where it is."""
    with open(path, "x", encoding="utf-8", newline="\n") as file:
        file.write(as_text(notebook))


def write_over(path: str, notebook: dict[str, Any]) -> None:
    """Write a file in the place of what is there, so that nobody finds a part of it. InputError where that fails."""
    from ownlab.lab.notebooks.documents import replace_notebook

    text = as_text(notebook)

    def write(file: TextIO) -> None:
        file.write(text)

    try:
        if not replace_notebook(path, write):
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                write(file)
    except OSError as exc:
        raise InputError(f"{path} cannot be written: {exc.strerror}") from exc


def as_text(notebook: dict[str, Any]) -> str:
    """As Jupyter writes it: sorted, indented by one, texts as lists of lines."""
    cells = [_split_cell(cell) for cell in notebook["cells"]]
    text = json.dumps({**notebook, "cells": cells}, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which JSON may hold and a file may not
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _parse(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # NaN, a mark of the byte order, and what else Python's own reader takes
        return json.loads(data.decode("utf-8-sig"))


def _older(path: str, data: bytes) -> dict[str, Any]:
    from ownlab.lab.notebooks.documents import read_notebook

    try:
        found: dict[str, Any] = json.loads(json.dumps(read_notebook(data)))
    except Exception as exc:  # whatever nbformat makes of a damaged file
        raise InputError(f"{path} has an old notebook format, and cannot be brought to a new one: {exc}") from exc
    return found


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("metadata", {}), dict):
        return False
    source = cell.get("source")
    return isinstance(source, str) or (isinstance(source, list) and all(isinstance(line, str) for line in source))


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
