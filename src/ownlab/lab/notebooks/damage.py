"""What is wrong with a file that should be a notebook, in words: what, where, and what that usually means."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress

from ownlab.errors import InputError
from ownlab.lab.notebooks.parsing import parse_current_notebook
from ownlab.text import Text, sentence, sentences, text

__all__ = ["describe_damage", "set_damaged_aside"]

# Of git, at the start of a line: JSON has no such lines.
_CONFLICT = re.compile(rb"^(<{7}|={7}|>{7})(?: |\r?$)", re.MULTILINE)
# How Python's parser begins its message about a string that no quotation mark ends.
_OPEN_STRING = "Unterminated string"
_WEB_PAGE = re.compile(rb"\s*(?:<!doctype\s+html|<html)\b", re.IGNORECASE)
_SUFFIX, _MAX_COPIES = ".damaged", 1000


def describe_damage(data: bytes, name: str) -> Text | str:
    """Say why a file cannot be opened as a notebook."""
    if conflict := _CONFLICT.search(data):
        line = data.count(b"\n", 0, conflict.start()) + 1
        return text(
            "{name} has the marks of a merge conflict of git, the first in line {line}."
            " Resolve the conflict, or restore an earlier version.",
            name=name,
            line=line,
        )
    if _WEB_PAGE.match(data):
        return text(
            "{name} is a web page, not a notebook: it was probably downloaded from the page that shows the notebook."
            " Download the file itself; on GitHub it is behind the button Raw.",
            name=name,
        )
    if not data.strip():
        return text("{name} is empty: something removed its content. Restore an earlier version.", name=name)
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        return text("{name} is not a notebook: it is not text in UTF-8 (byte {byte}).", name=name, byte=exc.start)
    try:
        json.loads(content)
    except RecursionError:
        return text("{name} is not a notebook: its values are nested too deeply.", name=name)
    except json.JSONDecodeError as exc:
        return _describe_syntax(content, exc, name)
    except ValueError:
        pass  # a number with more digits than Python reads: the parser says so
    try:
        parse_current_notebook(data, name)
    except InputError as exc:
        return sentences(sentence(exc.message), exc.hint)
    return text("{name} is JSON, but has not the parts of a notebook.", name=name)


def set_damaged_aside(os_path: str) -> str | None:
    """Copy a file that is not a notebook, before a version replaces it. Return the new path; None: there are too many."""
    for number in range(1, _MAX_COPIES):
        aside = f"{os_path}{_SUFFIX}{number if number > 1 else ''}"
        # No second link: a file with two names would be overwritten in place.
        with suppress(FileExistsError), open(os_path, "rb") as source, open(aside, "xb") as copy:
            shutil.copyfileobj(source, copy)
            return aside
    return None


def _describe_syntax(content: str, error: json.JSONDecodeError, name: str) -> Text | str:
    if not content[error.pos :].strip() or error.msg.startswith(_OPEN_STRING):
        return text(
            "{name} ends in the middle, in line {line}: the file was cut off, for instance by a full disk or an"
            " interrupted copy.",
            name=name,
            line=content.rstrip().count("\n") + 1,
        )
    return text(
        "{name} is not valid JSON in line {line}, column {column}: {reason}.",
        name=name,
        line=error.lineno,
        column=error.colno,
        reason=error.msg,
    )
