"""The secrets panel. The page gets names and grants; values are sent by the page and never returned."""

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
from ownlab.text import text

__all__ = ["Secrets", "SecretsHandler"]

T = TypeVar("T", bound=Struct)


class Secrets(Struct, frozen=True):
    """All secrets of the user, without their values."""

    secrets: tuple[Secret, ...]
    notebook: str | None  # the real path of the requested notebook, as in grants


class NewValue(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST."""

    name: str
    value: str
    replace: bool = False  # whether the secret must already exist

    def __repr__(self) -> str:
        return f"NewValue({self.name!r})"


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT."""

    name: str
    notebook: str  # absolute, as returned by this server
    granted: bool


class SecretsHandler(RouteHandler):
    """/ownlab/api/secrets?notebook=…: JupyterLab's path of the current notebook.

    Every method returns the list of secrets.
    """

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List the secrets."""
        await self.work(lambda: None)

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Add a secret, or replace its value."""
        body = self.request.body
        await self.work(lambda: _set(_parse_body(body, NewValue)))

    @web.authenticated
    @authorized
    async def put(self) -> None:
        """Grant a secret to a notebook, or revoke the grant."""
        body = self.request.body
        await self.work(lambda: _grant(_parse_body(body, Grant)))

    @web.authenticated
    @authorized
    async def delete(self) -> None:
        """Delete the secret named in the query."""
        name = self.get_query_argument("name", strip=False)
        await self.work(lambda: remove_secret(name))

    async def work(self, change: Callable[[], object]) -> None:
        """Make a change in a thread, then answer with the list of secrets."""
        path = self.get_query_argument("notebook", "", strip=False)
        file = file_of(self, path) if path.endswith(".ipynb") else None
        await self.answer(asyncio.to_thread(_change_and_list, change, file))


def _change_and_list(change: Callable[[], object], notebook: str | None) -> Secrets:
    change()
    return Secrets(list_secrets(), os.path.realpath(notebook) if notebook else None)


def _set(request: NewValue) -> None:
    check_name(request.name)
    exists = any(each.name == request.name for each in list_secrets())
    if exists and not request.replace:
        raise LabError(
            text("A secret named {name} already exists.", name=request.name), hint=text("You can replace its value.")
        )
    if request.replace and not exists:
        raise LabError(text("The secret {name} no longer exists.", name=request.name), hint=text("Add it again."))
    set_secret(request.name, request.value)


def _grant(request: Grant) -> None:
    if not os.path.isabs(request.notebook):
        raise UsageError(text("The path of the notebook must be absolute."))
    if request.granted:
        grant(request.name, request.notebook)
    else:
        revoke(request.name, request.notebook)


def _parse_body(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError):  # without its message, which may quote a value
        raise UsageError(text("The request body is invalid.")) from None
