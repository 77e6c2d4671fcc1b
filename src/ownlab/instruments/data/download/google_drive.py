"""Files and folders of Google Drive that are shared with “anyone with the link”.

A file comes from drive.usercontent.google.com, with ranges. Large ones are preceded by a page that warns of viruses; transfer.py
follows its form. A folder is listed from the page that Drive makes for embedding it (facts: gdown 6.5, 2026-10), which names
at most a few hundred files of each folder.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download.answers import check_status
from ownlab.instruments.data.download.api_requests import get_with_retries
from ownlab.instruments.data.download.names import RESERVED
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.sources import Context
from ownlab.text import text

__all__ = ["FolderPage", "resolve"]

_FILES = "https://drive.usercontent.google.com"
_PAGES = "https://drive.google.com"
_ID = r"[\w-]{10,200}"
_MOST_BYTES = 64 * 2**20
_DEEPEST = 30  # folders within folders
_EXPORTS = {"document": "docx", "spreadsheets": "xlsx", "presentation": "pptx"}


def resolve(argument: str, context: Context, *, pages: str = _PAGES, files: str = _FILES) -> Collection:
    """Return the file, or the files of the folder, that a link names. `pages` and `files` are the servers, for tests."""
    address = argument.removeprefix("gdrive:")
    parts = urlsplit(address if "://" in address else f"https://{address}")
    if match := re.search(rf"/drive/(?:u/\d+/)?(?:mobile/)?folders/({_ID})", parts.path):
        return _folder(match[1], context, pages, files)
    ids = parse_qs(parts.query).get("id", [])
    match = re.search(rf"/(file|document|spreadsheets|presentation)/(?:u/\d+/)?d/({_ID})", parts.path)
    if match and match[1] in _EXPORTS:
        kind, name = match[1], match[2]
        url = f"https://docs.google.com/{kind}/d/{name}/export?format={_EXPORTS[kind]}"
        return Collection(argument, (RemoteFile(url=url, label=f"https://docs.google.com/{kind}/d/{name}"),))
    if match or (len(ids) == 1 and re.fullmatch(_ID, ids[0])):
        return Collection(*_single(match[2] if match else ids[0], files))
    if argument.startswith("gdrive:") and re.fullmatch(_ID, address):
        return Collection(*_single(address, files))
    raise UsageError(
        text("{argument!r} names no file or folder of Google Drive.", argument=argument[:200]),
        hint=text("Copy the link of a file (…/file/d/ID/view) or a folder (…/drive/folders/ID)."),
    )


def _single(identifier: str, files: str) -> tuple[str, tuple[RemoteFile, ...]]:
    remote = _file(identifier, "", files)
    return remote.label, (remote,)


def _file(identifier: str, path: str, files: str) -> RemoteFile:
    return RemoteFile(
        url=f"{files}/download?id={identifier}&export=download&confirm=t",
        label=f"{_PAGES}/file/d/{identifier}",
        path=path,
    )


def _folder(identifier: str, context: Context, pages: str, files: str) -> Collection:
    found: list[RemoteFile] = []
    name = _list(identifier, "", context, (pages, files), found, _DEEPEST)
    if not found:
        raise InputError(
            text("The folder {name!r} has no files, or they are not shared.", name=name),
            hint=text("Its general access must be “Anyone with the link”."),
        )
    return Collection(f"{_PAGES}/drive/folders/{identifier}", tuple(found), name=_component(name))


def _list(
    identifier: str, path: str, context: Context, servers: tuple[str, str], found: list[RemoteFile], depth: int
) -> str:
    """Add the files of a folder and of those in it; return the folder's name."""
    pages, files = servers
    with get_with_retries(context.client, f"{pages}/embeddedfolderview?id={identifier}") as response:
        if response.status in (401, 403, 404):
            raise InputError(
                text("The folder {identifier} of Google Drive cannot be read.", identifier=identifier),
                hint=text("Check the link. Its general access must be “Anyone with the link”."),
            )
        check_status(response, f"{_PAGES}/drive/folders/{identifier}")
        page = FolderPage(response.read_all(_MOST_BYTES).decode(errors="replace"))
    if not page.title and not page.entries:
        raise InputError(
            text("The page of the folder {identifier} has no list of files.", identifier=identifier),
            hint=text(
                "Google asks to sign in, or the page has changed. Download the folder in a browser: it comes as a zip."
            ),
        )
    taken: set[str] = set()
    for kind, entry, title in page.entries:
        below = f"{path}{_unique(_component(title), entry, taken)}"
        if kind == "folder" and depth:
            _list(entry, f"{below}/", context, servers, found, depth - 1)
        elif kind == "file":
            found.append(_file(entry, below, files))
        elif kind in _EXPORTS:
            ending = _EXPORTS[kind]
            url = f"https://docs.google.com/{kind}/d/{entry}/export?format={ending}"
            found.append(
                RemoteFile(url=url, label=f"https://docs.google.com/{kind}/d/{entry}", path=f"{below}.{ending}")
            )
    return page.title


def _component(title: str) -> str:
    """Return a title as the name of one file or folder: titles of Drive may contain anything."""
    name = re.sub(r"[\x00-\x1f\x7f-\x9f/\\]", "_", title).strip()
    encoded = name.encode(errors="replace")[:200].decode(errors="ignore")
    return f"_{encoded}" if encoded in ("", ".", "..", RESERVED) else encoded


def _unique(name: str, identifier: str, taken: set[str]) -> str:
    """Return a name for a file whose folder has another one of the same title, as Drive allows."""
    if name in taken:
        stem, dot, ending = name.rpartition(".")
        name = f"{stem} ({identifier[:12]}){dot}{ending}" if dot else f"{name} ({identifier[:12]})"
    taken.add(name)
    return name


class FolderPage(HTMLParser):
    """The page of a folder: its title, and the links to what is in it."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.title = ""
        self.entries: list[tuple[str, str, str]] = []  # kind, identifier, title
        self._in_title = False
        self._link: tuple[str, str] | None = None
        self._text: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin the title or a link."""
        if tag == "title":
            self._in_title = True
        if tag == "a":
            address = dict(attrs).get("href") or ""
            match = re.search(
                rf"google\.com/(?:(file|document|spreadsheets|presentation)/d|drive/(folder)s)/({_ID})", address
            )
            if match:
                self._link, self._text = (match[1] or match[2], match[3]), []

    def handle_data(self, data: str) -> None:
        """Collect the text of the title or of a link."""
        if self._in_title:
            self.title += data
        elif self._link is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """End the title or a link."""
        if tag == "title":
            self._in_title, self.title = False, self.title.strip()
        elif tag == "a" and self._link is not None:
            self.entries.append((*self._link, " ".join("".join(self._text).split())))
            self._link = None
