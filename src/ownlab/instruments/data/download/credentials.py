"""Tokens and passwords of servers: where they come from, and which server may see which. They are never printed or stored."""

from __future__ import annotations

import base64
import contextlib
import netrc
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from ownlab.instruments.data.download.connection import Origin, origin_of
from ownlab.lab.secrets.store import find_own_secret

__all__ = ["CredentialStore", "basic", "find_token"]


def basic(user: str, password: str) -> str:
    """Return the header for a name and a password (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def find_token(
    secret: str, variables: Iterable[str], files: Iterable[Path], environ: Mapping[str, str] = os.environ
) -> str:
    """Return a token: from these environment variables, else ownlab's secret, else these files of other tools; else ""."""
    for variable in variables:
        if token := environ.get(variable, "").strip():
            return token
    stored = find_own_secret(secret, environ)
    if stored is not None:
        return stored.value.strip()
    for path in files:
        with contextlib.suppress(OSError, ValueError):
            if token := path.read_text(encoding="utf-8").strip():
                return token
    return ""


class CredentialStore:
    """The headers that identify us to a server. A server sees its own alone, also after a redirect."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.environ = environ
        self._headers: dict[Origin, dict[str, str]] = {}
        self._netrc = _read_netrc(environ)

    def __call__(self, origin: Origin) -> Mapping[str, str]:
        found = self._headers.get(origin)
        if found is None and self._netrc is not None and (entry := self._netrc.authenticators(origin[1])):
            return {"Authorization": basic(entry[0], entry[2] or "")}
        return found or {}

    def allow(self, url: str, authorization: str) -> None:
        """Let the server of an address see this header."""
        self._headers[origin_of(url)] = {"Authorization": authorization}

    def without_password(self, url: str) -> str:
        """Return an address without name and password, which its server will see nevertheless."""
        origin_of(url)  # raises for what is no address
        parts = urlsplit(url)
        user, has_user, host = parts.netloc.rpartition("@")
        if not has_user:
            return url
        name, _, password = user.partition(":")
        url = urlunsplit(parts._replace(netloc=host))
        self.allow(url, basic(unquote(name), unquote(password)))
        return url


def _read_netrc(environ: Mapping[str, str]) -> netrc.netrc | None:
    path = environ.get("NETRC") or os.path.expanduser("~/.netrc")
    with contextlib.suppress(OSError, netrc.NetrcParseError, ValueError):
        return netrc.netrc(path)
    return None
