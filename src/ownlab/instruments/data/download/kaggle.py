"""Kaggle: `kaggle://datasets/OWNER/NAME[@VERSION][/FILE]`, `kaggle://competitions/NAME[/FILE]`, and the addresses of their pages.

A whole data set is one zip, as Kaggle makes it. The version is found first, so that an interrupted download continues the same
one. Requests as in Kaggle's public API (kagglehub 1.0, 2026-05): public data sets need no account.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download.answers import check_status
from ownlab.instruments.data.download.api_requests import get_with_retries
from ownlab.instruments.data.download.connection import Response
from ownlab.instruments.data.download.credentials import basic, find_token
from ownlab.instruments.data.download.names import check_relative_path
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.sources import Context
from ownlab.json_encoding import decode_json
from ownlab.text import text

__all__ = ["KaggleSource", "parse", "resolve"]

_ENDPOINT = "https://www.kaggle.com"
_SLUG = r"[A-Za-z0-9][\w-]{0,99}"
_BEARER = "KGAT_"  # begins the tokens that Kaggle makes since 2025; older keys belong to a user name
_MOST_BYTES = 2**22


class KaggleSource(NamedTuple):
    """What an argument names."""

    kind: str  # datasets or competitions: as the API has them
    name: str  # OWNER/NAME; a competition has no owner
    version: str = ""  # of a data set; "": the newest
    path: str = ""  # a single file

    @property
    def label(self) -> str:
        """Its address without version."""
        return f"kaggle://{self.kind}/{self.name}" + (f"/{self.path}" if self.path else "")


class _DataSet(msgspec.Struct):
    currentVersionNumber: int | None = None  # noqa: N815  # the API's name


class _KeyFile(msgspec.Struct):
    """kaggle.json, as Kaggle's page makes it."""

    username: str
    key: str


def resolve(argument: str, context: Context, endpoint: str = _ENDPOINT) -> Collection:
    """Return the zip of a data set or a competition, or one file of it. Raises InputError."""
    source = parse(argument)
    authorization = _authorization(context.credentials.environ)
    if authorization:
        context.credentials.allow(endpoint, authorization)
    version = _check_access(source, context, endpoint, signed_in=bool(authorization))
    base = f"{endpoint}/api/v1"
    if source.kind == "competitions":
        action = "download" if source.path else "download-all"
        url = f"{base}/competitions/data/{action}/{source.name}"
    else:
        url = f"{base}/datasets/download/{source.name}"
    url += f"/{quote(source.path, safe='')}" if source.path else ""
    url += f"?datasetVersionNumber={version}" if version else ""
    # A large single file comes as FILE.zip, which only the address of its storage says.
    path = "" if source.path else check_relative_path(f"{source.name.rpartition('/')[2]}.zip")
    remote = RemoteFile(url=url, label=source.label, path=path, named_by_redirect=True)
    return Collection(source.label, (remote,), revision=version)


def parse(argument: str) -> KaggleSource:
    """Return what an argument names. Raises UsageError."""
    parts = urlsplit(argument if "://" in argument else f"https://{argument}")
    words = [unquote(word) for word in f"{parts.netloc}/{parts.path}".split("/") if word]
    selected = ""
    if parts.scheme in ("http", "https"):
        words = words[1:]
        selected = parse_qs(parts.query).get("select", [""])[0]
    if words and words[0] in ("competitions", "c"):
        rest = [] if parts.scheme in ("http", "https") else words[2:]
        return _checked(KaggleSource("competitions", "".join(words[1:2]), "", "/".join(rest)), argument)
    words = words[1:] if words[:1] == ["datasets"] else words
    name, _, version = "/".join(words[:2]).partition("@")
    rest = words[2:]
    if rest[:1] == ["versions"]:
        version, rest = "".join(rest[1:2]), rest[2:]
    if parts.scheme in ("http", "https"):
        rest = [selected] if selected else []  # what follows in an address is a part of the page: /data, /code
    return _checked(KaggleSource("datasets", name, version, "/".join(rest)), argument)


def _checked(source: KaggleSource, argument: str) -> KaggleSource:
    name = rf"{_SLUG}/{_SLUG}" if source.kind == "datasets" else _SLUG
    if not re.fullmatch(name, source.name) or not re.fullmatch(r"\d{0,9}", source.version):
        raise UsageError(
            text("{argument!r} names no data set of Kaggle.", argument=argument[:200]),
            hint=text("Write kaggle://datasets/OWNER/NAME or kaggle://competitions/NAME."),
        )
    if source.path:
        check_relative_path(source.path)
    return source


def _authorization(environ: Mapping[str, str]) -> str:
    """Return the header for the token that is found first, in the order of Kaggle's own tools; "" for none."""
    folder = Path(environ.get("KAGGLE_CONFIG_DIR") or Path(environ.get("HOME") or Path.home()) / ".kaggle")
    token = find_token("KAGGLE_API_TOKEN", ("KAGGLE_API_TOKEN",), [folder / "access_token"], environ)
    if token:
        return f"Bearer {token}"
    user = find_token("KAGGLE_USERNAME", ("KAGGLE_USERNAME",), (), environ)
    key = find_token("KAGGLE_KEY", ("KAGGLE_KEY",), (), environ)
    if key and (user or key.startswith(_BEARER)):
        return _header(user, key)
    return _from_key_file(folder / "kaggle.json")


def _header(user: str, key: str) -> str:
    return f"Bearer {key}" if key.startswith(_BEARER) else basic(user, key)


def _from_key_file(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError:
        return ""
    try:
        found = decode_json(content, _KeyFile)
    except msgspec.DecodeError as exc:
        raise InputError(
            text("{path} is no file of Kaggle: it must have a username and a key.", path=os.fspath(path)),
            hint=text(
                "Make a new one: Settings, API, on kaggle.com. Or store a token: ownlab secrets set KAGGLE_API_TOKEN"
            ),
        ) from exc
    return _header(found.username, found.key)


def _check_access(source: KaggleSource, context: Context, endpoint: str, *, signed_in: bool) -> str:
    """Ask whether it can be read; return the version of a data set. The API explains refusals better than the download."""
    action = "data/list" if source.kind == "competitions" else "view"
    url = f"{endpoint}/api/v1/{source.kind}/{action}/{source.name}"
    with get_with_retries(context.client, url) as response:
        if response.status >= 400:
            _refuse(response, source, signed_in=signed_in)
        if source.kind == "competitions":
            return ""
        try:
            newest = decode_json(response.read_all(_MOST_BYTES), _DataSet).currentVersionNumber
        except msgspec.DecodeError as exc:
            raise InputError(
                text("{address} is not Kaggle, or answers in a new way.", address=urlsplit(response.url).netloc),
                hint=text("Check whether a proxy answers in its place."),
            ) from exc
    return source.version or (str(newest) if newest else "")


def _refuse(response: Response, source: KaggleSource, *, signed_in: bool) -> None:
    login = text("Store a token: Settings, API, on kaggle.com, then: ownlab secrets set KAGGLE_API_TOKEN")
    if response.status == 401 or (response.status in (403, 404) and not signed_in):
        message = (
            text("Kaggle refuses the token.")
            if signed_in
            else text("There is no {source}, or it needs an account.", source=source.label)
        )
        raise InputError(message, hint=login)
    if response.status == 403:
        page = f"{_ENDPOINT}/{source.kind}/{source.name}" + ("/rules" if source.kind == "competitions" else "")
        raise InputError(
            text("Kaggle does not give {source} to this account.", source=source.label),
            hint=text("Accept its rules on {page}, then run the command again.", page=page),
        )
    if response.status == 404:
        raise InputError(
            text("There is no {source} on Kaggle.", source=source.label),
            hint=text("Its name is in the address of its page: kaggle.com/datasets/OWNER/NAME"),
        )
    check_status(response, source.label)
