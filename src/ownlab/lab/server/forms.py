"""POST /ownlab/api/forms: the page has no grammar of its own, it asks for the forms of cells that changed."""

from __future__ import annotations

import asyncio
import json

import msgspec
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from msgspec.structs import replace
from tornado import web

from ownlab.errors import OwnlabError, UsageError
from ownlab.json_encoding import encode_json, to_builtins
from ownlab.lab.forms.grammar import Field, Form, Markdown, parse_form
from ownlab.lab.server.routes import RouteHandler
from ownlab.lab.server.snapshot_stream import document_of

__all__ = ["Forms", "FormsHandler"]

_MOST_CELLS = 2_000
_MOST_BYTES = 16 << 20


class Asked(Struct, frozen=True):
    """A cell as the page has it."""

    source: str
    view: str | None = None  # its metadata's cellView


class Question(Struct, frozen=True):
    """The body of POST /ownlab/api/forms."""

    cells: tuple[Asked, ...]


class Forms(Struct, frozen=True):
    """The forms of the cells that were asked about, in their order; null where there is none. Places count UTF-16 units."""

    forms: tuple[Form | None, ...]


class FormsHandler(RouteHandler):
    """POST /ownlab/api/forms."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Parse cells."""
        try:
            found = await asyncio.to_thread(_answer, self.request.body)
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            found = document_of(exc)
        self.finish(found)


def _answer(body: bytes) -> bytes:
    asked = _question(body).cells
    if len(asked) > _MOST_CELLS:
        raise UsageError(f"{len(asked)} cells are too many for one request: at most {_MOST_CELLS}.")
    return _encoded(Forms(tuple(_form(cell) for cell in asked)))


def _form(cell: Asked) -> Form | None:
    form = parse_form(cell.source, {"cellView": cell.view})
    return in_utf16(cell.source, form) if form is not None and not cell.source.isascii() else form


def in_utf16(source: str, form: Form) -> Form:
    """The same form, its places counted as JavaScript counts."""
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


def _units(text: str) -> int:
    return len(text) + sum(char > "\uffff" for char in text)


def _question(body: bytes) -> Question:
    if len(body) > _MOST_BYTES:
        raise UsageError(f"the request is too large: at most {_MOST_BYTES >> 20} MB.")
    try:
        try:
            return msgspec.json.decode(body, type=Question)
        except UnicodeDecodeError:
            raise
        except msgspec.DecodeError:  # a half of a character, which JavaScript sends as an escape
            return msgspec.convert(json.loads(body), Question)
    except (ValueError, RecursionError) as exc:  # msgspec's own errors are among them
        raise UsageError(f"the body of the request cannot be used: {exc}") from exc


def _encoded(found: Forms) -> bytes:
    try:
        return encode_json(found)
    except UnicodeEncodeError:  # likewise
        return json.dumps(to_builtins(found)).encode()
