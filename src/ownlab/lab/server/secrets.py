"""The panel of secrets: names and grants go to the page, values come from it and never go back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

import msgspec
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.errors import LabError, UsageError
from ownlab.lab.secrets.store import Secret, check_name, grant, list_secrets, remove_secret, revoke, set_secret
from ownlab.lab.server.drive import file_of
from ownlab.lab.server.routes import RouteHandler

__all__ = ["Secrets", "SecretsHandler"]

T = TypeVar("T", bound=Struct)


class Secrets(Struct, frozen=True):
    """All secrets of the person, without their values."""

    secrets: tuple[Secret, ...]
    notebook: str | None  # the real path, as grants name it, of the notebook that was asked about


class NewValue(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST."""

    name: str
    value: str
    replace: bool = False  # a secret that is there is meant

    def __repr__(self) -> str:
        return f"NewValue({self.name!r})"


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT."""

    name: str
    notebook: str  # absolute, as this server told it
    granted: bool


class SecretsHandler(RouteHandler):
    """/ownlab/api/secrets?notebook=…: JupyterLab's path of the notebook in front. Every method answers with the list."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List them."""
        await self.work(lambda: None)

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Add one, or replace its value."""
        given = self.request.body
        await self.work(lambda: _set(_body(given, NewValue)))

    @web.authenticated
    @authorized
    async def put(self) -> None:
        """Grant one to a notebook, or take the grant back."""
        given = self.request.body
        await self.work(lambda: _grant(_body(given, Grant)))

    @web.authenticated
    @authorized
    async def delete(self) -> None:
        """Forget the one that is named in the address."""
        name = self.get_query_argument("name", strip=False)
        await self.work(lambda: remove_secret(name))

    async def work(self, do: Callable[[], object]) -> None:
        """Do it in a thread, and answer with what there is then."""
        path = self.get_query_argument("notebook", "", strip=False)
        file = file_of(self, path) if path.endswith(".ipynb") else None
        await self.answer(asyncio.to_thread(_after, do, file))


def _after(do: Callable[[], object], notebook: str | None) -> Secrets:
    do()
    return Secrets(list_secrets(), os.path.realpath(notebook) if notebook else None)


def _set(given: NewValue) -> None:
    check_name(given.name)
    is_there = any(each.name == given.name for each in list_secrets())
    if is_there and not given.replace:
        raise LabError(f"there is a secret named {given.name} already", hint="Its value can be replaced.")
    if given.replace and not is_there:
        raise LabError(f"there is no secret named {given.name} any more", hint="Add it anew.")
    set_secret(given.name, given.value)


def _grant(given: Grant) -> None:
    if not os.path.isabs(given.notebook):
        raise UsageError("the path of a notebook is absolute")
    if given.granted:
        grant(given.name, given.notebook)
    else:
        revoke(given.name, given.notebook)


def _body(given: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(given, type=kind)
    except msgspec.DecodeError:  # its words are not told, for what they quote may be a value
        raise UsageError("the body of the request cannot be used") from None
