"""Google Drive, from stand-ins of its pages (as gdown 6.5 describes them): files, the warning about large ones, folders, errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.instruments.data.file_server import FileServer, serve_files

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download import google_drive
from ownlab.instruments.data.download.connection import Client
from ownlab.instruments.data.download.credentials import CredentialStore
from ownlab.instruments.data.download.downloader import Downloader
from ownlab.instruments.data.download.records import Collection, FileReport
from ownlab.instruments.data.download.sources import Context
from ownlab.instruments.data.download.target import Target
from ownlab.instruments.data.download.transfer import TransferOptions

FILE = "1q86w74Ygw2hNzYP9cWkeClGT5X25PvBT"
FOLDER = "1xPo8PcbMXzcUyvwe5liJrfbA5yx4OF1j"

WARNING = """<!DOCTYPE html><html><head><title>Google Drive - Virus scan warning</title></head><body>
<p class="uc-warning-subcaption">too large for Google to scan for viruses</p>
<form id="download-form" action="{server}/download" method="get"><input type="submit" id="uc-download-link" value="Download anyway"/>
<input type="hidden" name="id" value="{id}"><input type="hidden" name="export" value="download">
<input type="hidden" name="confirm" value="t"><input type="hidden" name="uuid" value="5b1e-&amp;7"></form></body></html>"""
QUOTA = """<!DOCTYPE html><html><head><title>Google Drive - Quota exceeded</title></head><body>
<p class="uc-error-caption">Sorry, you can't view or download this file at this time.</p>
<p class="uc-error-subcaption">Too many users have viewed or downloaded this file recently. Please try again later.</p></body></html>"""
SIGN_IN = """<!doctype html><html><head><title>Google Drive: Sign-in</title></head>
<body><form action="https://accounts.google.com/v3/signin/identifier"></form></body></html>"""


def folder_page(title: str, *links: tuple[str, str]) -> bytes:
    entries = "".join(f'<div class="flip-entry"><a href="{href}"><div>{name}</div></a></div>' for href, name in links)
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{entries}</body></html>".encode()


@pytest.fixture
def drive() -> Iterator[FileServer]:
    with serve_files() as server:
        yield server


def context(tmp_path: Path) -> Context:
    credentials = CredentialStore({"OWNLAB_HOME": str(tmp_path / "home"), "NETRC": str(tmp_path / "none")})
    return Context(Client(credentials), credentials)


def resolve(drive: FileServer, tmp_path: Path, link: str) -> Collection:
    used = context(tmp_path)
    try:
        return google_drive.resolve(link, used, pages=drive.url, files=drive.url)
    finally:
        used.client.close()


def fetch(drive: FileServer, tmp_path: Path, link: str) -> tuple[list[FileReport], list[InputError]]:
    collection = resolve(drive, tmp_path, link)
    target = Target(tmp_path / "data")
    target.manifest.load()
    options = TransferOptions(connections=2, attempts=2, backoff=0.01)
    return Downloader(collection.files, target, context(tmp_path).credentials, options).run(lambda progress: None)


def download(
    drive: FileServer, identifier: str, content: bytes, query: str = "&export=download&confirm=t", **more: object
) -> None:
    drive.put(f"/download?id={identifier}{query}", content, **more)


LINKS = [
    f"https://drive.google.com/file/d/{FILE}/view?usp=sharing",
    f"https://drive.google.com/uc?id={FILE}",
    f"https://drive.google.com/open?id={FILE}",
    f"drive.google.com/file/u/1/d/{FILE}/edit",
    f"gdrive:{FILE}",
]


@pytest.mark.parametrize("link", LINKS)
def test_a_file_by_every_kind_of_link(drive: FileServer, tmp_path: Path, link: str) -> None:
    name = "attachment; filename=\"model.zip\"; filename*=UTF-8''mod%C3%A8le.zip"
    download(drive, FILE, b"PK data", headers={"Content-Disposition": name})
    (file,), errors = fetch(drive, tmp_path, link)
    assert not errors
    assert file.source == f"https://drive.google.com/file/d/{FILE}"
    assert (tmp_path / "data/modèle.zip").read_bytes() == b"PK data"


def test_the_warning_about_viruses_is_followed(drive: FileServer, tmp_path: Path) -> None:
    download(drive, FILE, WARNING.format(server=drive.url, id=FILE).encode(), headers={"Content-Type": "text/html"})
    content = bytes(range(256)) * 50_000
    name = {"Content-Disposition": 'attachment; filename="big.tar"'}
    download(drive, FILE, content, "&export=download&confirm=t&uuid=5b1e-%267", headers=name)
    (file,), errors = fetch(drive, tmp_path, f"gdrive:{FILE}")
    assert not errors
    assert Path(tmp_path / "data" / file.path).read_bytes() == content


def test_a_warning_that_leads_to_itself_ends(drive: FileServer, tmp_path: Path) -> None:
    page = WARNING.format(server=drive.url, id=FILE).encode()
    download(drive, FILE, page)
    download(drive, FILE, page, "&export=download&confirm=t&uuid=5b1e-%267")
    _, (error,) = fetch(drive, tmp_path, f"gdrive:{FILE}")
    assert "web page" in error.message


@pytest.mark.parametrize(("page", "hint"), [(QUOTA, "limits how often"), (SIGN_IN, "Anyone with the link")])
def test_errors_of_drive_are_explained(drive: FileServer, tmp_path: Path, page: str, hint: str) -> None:
    download(drive, FILE, page.encode(), headers={"Content-Type": "text/html; charset=utf-8"})
    _, (error,) = fetch(drive, tmp_path, f"gdrive:{FILE}")
    assert hint in error.hint
    assert [
        path for path in (tmp_path / "data").rglob("*") if path.is_file() and path.suffix in (".part", ".map")
    ] == []


def test_a_folder_with_folders(drive: FileServer, tmp_path: Path) -> None:
    ids = [f"{n}" * 28 for n in range(1, 7)]
    drive.put(
        f"/embeddedfolderview?id={FOLDER}",
        folder_page(
            "cartoon",
            (f"https://drive.google.com/file/d/{ids[0]}/view?usp=drive_web", "a.txt"),
            (f"https://drive.google.com/file/d/{ids[1]}/view?usp=drive_web", "a.txt"),
            (f"https://drive.google.com/drive/folders/{ids[2]}", "sub/../.."),
            (f"https://docs.google.com/forms/d/{ids[4]}/edit", "a form"),
        ),
    )
    drive.put(
        f"/embeddedfolderview?id={ids[2]}",
        folder_page("sub", (f"https://drive.google.com/file/d/{ids[3]}/view", "数据 &amp; more.csv")),
    )
    for n in (0, 1, 3):
        download(drive, ids[n], f"content {n}".encode())
    collection = resolve(drive, tmp_path, f"https://drive.google.com/drive/folders/{FOLDER}?usp=sharing")
    assert collection.name == "cartoon"
    files, errors = fetch(drive, tmp_path, f"https://drive.google.com/drive/folders/{FOLDER}")
    assert not errors
    content = {file.path: (tmp_path / "data" / file.path).read_text() for file in files}
    assert content == {
        "a.txt": "content 0",
        "a (222222222222).txt": "content 1",
        "sub_.._../数据 & more.csv": "content 3",
    }


def test_a_folder_that_is_not_shared(drive: FileServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        resolve(drive, tmp_path, f"https://drive.google.com/drive/folders/{FOLDER}")
    drive.put(f"/embeddedfolderview?id={FOLDER}", folder_page("empty"))
    with pytest.raises(InputError, match="has no files"):
        resolve(drive, tmp_path, f"https://drive.google.com/drive/folders/{FOLDER}")
    drive.put(f"/embeddedfolderview?id={FOLDER}", b"")
    with pytest.raises(InputError, match="no list of files"):
        resolve(drive, tmp_path, f"https://drive.google.com/drive/folders/{FOLDER}")


@pytest.mark.parametrize("link", ["https://drive.google.com/", "gdrive:x", "https://docs.google.com/forms/d/x"])
def test_wrong_links(drive: FileServer, tmp_path: Path, link: str) -> None:
    with pytest.raises(UsageError):
        resolve(drive, tmp_path, link)
