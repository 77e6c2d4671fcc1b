"""POST /ownlab/api/forms: parses the forms of cells.

The page has no form grammar of its own and asks for changed cells.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import msgspec
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from msgspec.structs import replace
from tornado import web

from ownlab.errors import OwnlabError, UsageError
from ownlab.json_encoding import encode_json, to_builtins
from ownlab.lab.forms.grammar import Field, Form, Markdown, parse_form
from ownlab.lab.server.routes import RouteHandler
from ownlab.text import text

__all__ = ["Forms", "FormsHandler"]

_MAX_CELLS = 2_000
_MAX_BYTES = 16 << 20

Translate = Callable[[str], str] | None


class Cell(Struct, frozen=True):
    """A cell of the page's notebook."""

    source: str
    view: str | None = None  # cellView in its metadata


class Question(Struct, frozen=True):
    """The body of POST /ownlab/api/forms."""

    cells: tuple[Cell, ...]


class Forms(Struct, frozen=True):
    """The forms of the requested cells, in the same order; null for a cell without a form. Offsets count UTF-16 code units."""

    forms: tuple[Form | None, ...]


class FormsHandler(RouteHandler):
    """POST /ownlab/api/forms."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Parse cells."""
        try:
            document = await asyncio.to_thread(_parse_forms, self.request.body, self.translate)
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            document = self.encode(exc)
        self.finish(document)


def _parse_forms(body: bytes, translate: Translate) -> bytes:
    cells = _parse_question(body).cells
    if len(cells) > _MAX_CELLS:
        raise UsageError(
            text("{count} cells are too many for one request (limit: {limit}).", count=len(cells), limit=_MAX_CELLS)
        )
    return _encode(Forms(tuple(_parse_cell(cell) for cell in cells)), translate)


def _parse_cell(cell: Cell) -> Form | None:
    form = parse_form(cell.source, {"cellView": cell.view})
    return in_utf16(cell.source, form) if form is not None and not cell.source.isascii() else form


def in_utf16(source: str, form: Form) -> Form:
    """Return the same form with offsets counted in UTF-16 code units, as in JavaScript."""
    parts: list[Field | Markdown] = []
    before, units = 0, 0
    for part in form.parts:
        if isinstance(part, Field):
            start = units + _units(source[before : part.start])
            end = start + _units(source[part.start : part.end])
            before, units = part.end, end
            part = replace(part, start=start, end=end)
        parts.append(part)
    return replace(form, parts=tuple(parts))


def _units(source: str) -> int:
    return len(source) + sum(char > "\uffff" for char in source)


def _parse_question(body: bytes) -> Question:
    if len(body) > _MAX_BYTES:
        raise UsageError(text("The request is too large (limit: {limit} MB).", limit=_MAX_BYTES >> 20))
    try:
        try:
            return msgspec.json.decode(body, type=Question)
        except UnicodeDecodeError:
            raise
        except (msgspec.DecodeError, RecursionError):  # a lone surrogate, which JavaScript sends as an escape sequence
            return msgspec.convert(json.loads(body), Question)
    except (ValueError, RecursionError) as exc:  # msgspec's errors are ValueErrors
        raise UsageError(text("The request body is invalid: {reason}.", reason=str(exc))) from exc


def _encode(forms: Forms, translate: Translate) -> bytes:
    try:
        return encode_json(forms, translate=translate)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(to_builtins(forms)).encode()
