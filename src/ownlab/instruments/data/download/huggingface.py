"""Repositories of Hugging Face: `hf://datasets/OWNER/NAME[@REVISION][/PATH]`, hf://OWNER/NAME for models, and their web addresses.

The list of files has the size of each, the SHA-256 of large ones (git LFS) and the git SHA-1 of small ones, so that everything is
checked. Files are fetched from the commit that was listed, also if the repository changes meanwhile. HF_ENDPOINT names a mirror.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download.answers import check_status
from ownlab.instruments.data.download.api_requests import get_with_retries
from ownlab.instruments.data.download.connection import Response
from ownlab.instruments.data.download.credentials import find_token
from ownlab.instruments.data.download.names import check_relative_path
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.sources import Context
from ownlab.json_encoding import decode_json
from ownlab.text import text

__all__ = ["Repository", "parse", "resolve"]

_ENDPOINT = "https://huggingface.co"
_KINDS = {"datasets": "datasets", "models": "models", "spaces": "spaces"}
_NAME = r"[\w.-]{1,96}"
_MOST_BYTES = 64 * 2**20  # of one page of a list


class Repository(NamedTuple):
    """What an argument names."""

    kind: str  # datasets, models or spaces: as the API has them
    name: str  # OWNER/NAME; a few old ones have no owner
    revision: str = "main"
    path: str = ""  # a file or a folder; "": everything

    @property
    def label(self) -> str:
        """Its address without revision."""
        return f"hf://{'' if self.kind == 'models' else self.kind + '/'}{self.name}"

    @property
    def web_path(self) -> str:
        """Its path on the web site: models have no prefix there."""
        return self.name if self.kind == "models" else f"{self.kind}/{self.name}"


class _Lfs(msgspec.Struct):
    oid: str
    size: int


class _Entry(msgspec.Struct):
    type: str
    path: str
    size: int = 0
    oid: str = ""
    lfs: _Lfs | None = None


class _Revision(msgspec.Struct):
    sha: str


def resolve(argument: str, context: Context) -> Collection:
    """List the files of a repository. Raises InputError."""
    repository = parse(argument)
    environ = context.credentials.environ
    endpoint = (environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")
    home = Path(environ.get("HF_HOME") or Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    files = [Path(environ["HF_TOKEN_PATH"])] if environ.get("HF_TOKEN_PATH") else [home / "token"]
    token = find_token("HF_TOKEN", ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), files, environ)
    if token:
        context.credentials.allow(endpoint, f"Bearer {token}")
    revision = quote(repository.revision, safe="")
    api = f"{endpoint}/api/{repository.kind}/{repository.name}"
    commit = _get(context, f"{api}/revision/{revision}", repository, _Revision).sha
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise InputError(text("{address} answered with an invalid commit.", address=endpoint))
    entries = [
        entry for entry in _list(context, api, commit, repository) if _is_wanted(entry.path, repository, context)
    ]
    if not entries:
        raise InputError(
            text("{repository} has no such file.", repository=repository.label),
            hint=text("Check the path, and the patterns of --include and --exclude."),
        )
    base = f"{endpoint}/{repository.web_path}/resolve/{commit}"
    name = "" if len(entries) == 1 and entries[0].path == repository.path else repository.name.rpartition("/")[2]
    return Collection(
        repository.label + (f"/{repository.path}" if repository.path else ""),
        tuple(_remote_file(entry, base, repository) for entry in entries),
        name=name,
        revision=commit,
    )


def parse(argument: str) -> Repository:
    """Return the repository that an argument names. Raises UsageError."""
    if argument.lower().startswith("hf://"):
        return _parse_own(argument[5:])
    parts = urlsplit(argument if "://" in argument else f"https://{argument}")
    words = [unquote(word) for word in parts.path.split("/") if word]
    kind = _KINDS.get(words[0], "models") if words else "models"
    if words and words[0] in _KINDS:
        words = words[1:]
    marks = [index for index, word in enumerate(words[:3]) if word in ("tree", "resolve", "blob", "raw", "viewer")]
    if not marks:
        return _checked(kind, "/".join(words[:2]), "main", "/".join(words[2:]), argument)
    mark = marks[0]
    revision, path = (words[mark + 1] if len(words) > mark + 1 else "main"), "/".join(words[mark + 2 :])
    if words[mark] == "viewer":
        revision, path = "main", ""
    return _checked(kind, "/".join(words[:mark]), revision, path, argument)


def _parse_own(rest: str) -> Repository:
    words = [word for word in rest.split("/") if word]
    kind = _KINDS.get(words[0], "") if words else ""
    words = words[1:] if kind else words
    revision = "main"
    for index in (0, 1):
        if len(words) > index and "@" in words[index]:
            words[index], _, revision = words[index].partition("@")
    return _checked(kind or "models", "/".join(words[:2]), unquote(revision), "/".join(words[2:]), f"hf://{rest}")


def _checked(kind: str, name: str, revision: str, path: str, argument: str) -> Repository:
    if not re.fullmatch(rf"{_NAME}(?:/{_NAME})?", name) or ".." in name or not revision:
        raise UsageError(
            text("{argument!r} names no repository of Hugging Face.", argument=argument[:200]),
            hint=text("Write hf://datasets/OWNER/NAME for a data set, hf://OWNER/NAME for a model."),
        )
    return Repository(kind, name, revision, path.strip("/"))


def _list(context: Context, api: str, commit: str, repository: Repository) -> Iterator[_Entry]:
    """Read the list of files, page by page. A path that is a file has no list: its folder has."""
    folder = _literal_folder(repository.path)
    for attempt in (folder, folder.rpartition("/")[0]):
        url = f"{api}/tree/{commit}" + (f"/{quote(attempt)}" if attempt else "") + "?recursive=true&expand=false"
        seen: set[str] = set()
        found = False
        while url and url not in seen:
            seen.add(url)
            with get_with_retries(context.client, url) as response:
                if response.status == 404 and attempt:  # a file, or nothing
                    break
                _check(response, repository)
                page = _decode(response, list[_Entry])
                link = re.search(r'<([^>]+)>;\s*rel="next"', response.headers.get("Link", ""))
            yield from (entry for entry in page if entry.type == "file")
            found = True
            url = urljoin(url, link[1]) if link else ""
        if found:
            return


def _literal_folder(path: str) -> str:
    """Return the part of a path before its first pattern."""
    parts = path.split("/")
    return "/".join(parts[: next((i for i, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))])


def _is_wanted(path: str, repository: Repository, context: Context) -> bool:
    base = repository.path
    if base and not (path == base or path.startswith(f"{base}/") or fnmatch.fnmatchcase(path, base)):
        return False
    return context.wants(path)


def _remote_file(entry: _Entry, base: str, repository: Repository) -> RemoteFile:
    single = entry.path == repository.path
    path = entry.path.rpartition("/")[2] if single else entry.path
    return RemoteFile(
        url=f"{base}/{quote(entry.path)}",
        label=f"{repository.label}/{entry.path}",
        path=check_relative_path(path),
        size=entry.lfs.size if entry.lfs is not None else entry.size,
        sha256=_digest(entry.lfs.oid, 64) if entry.lfs is not None else "",
        git_sha1=_digest(entry.oid, 40) if entry.lfs is None else "",
        html=True,  # a repository may contain web pages; its checksums tell them from notices of errors
    )


def _digest(value: str, length: int) -> str:
    return value.lower() if re.fullmatch(rf"[0-9a-fA-F]{{{length}}}", value) else ""


def _get(context: Context, url: str, repository: Repository, kind: Any) -> Any:
    with get_with_retries(context.client, url) as response:
        _check(response, repository)
        return _decode(response, kind)


def _decode(response: Response, kind: Any) -> Any:
    try:
        return decode_json(response.read_all(_MOST_BYTES), kind)
    except msgspec.DecodeError as exc:
        raise InputError(
            text(
                "{address} is no Hugging Face server, or answers in a new way.", address=urlsplit(response.url).netloc
            ),
            hint=text("Check HF_ENDPOINT, and whether a proxy answers in its place."),
        ) from exc


def _check(response: Response, repository: Repository) -> None:
    """Explain the errors of the API, whose X-Error-Code says more than the status."""
    if response.status < 400:
        return
    code = response.headers.get("X-Error-Code", "")
    login = text(
        "Store a token that may read it: ownlab secrets set HF_TOKEN (from https://huggingface.co/settings/tokens)"
    )
    if code == "GatedRepo":
        raise InputError(
            text("{repository} is gated: its conditions have to be accepted.", repository=repository.label),
            hint=text(
                "Accept them on https://huggingface.co/{path}, then: {login}", path=repository.web_path, login=login
            ),
        )
    if code == "RevisionNotFound":
        raise InputError(
            text(
                "{repository} has no revision {revision!r}.", repository=repository.label, revision=repository.revision
            )
        )
    if response.status in (401, 403, 404):  # the API answers 401 for repositories that do not exist
        raise InputError(
            text("There is no repository {repository}, or it is private.", repository=repository.label),
            hint=text("Check the spelling: data sets need hf://datasets/. {login}", login=login),
        )
    check_status(response, repository.label)
