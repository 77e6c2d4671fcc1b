"""Fetching and saving notebooks: a real server that misbehaves, real folders with traps in them."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import DeadlineError, InputError
from ownlab.lab.remote_notebooks.addresses import Download, download_of
from ownlab.lab.remote_notebooks.download import fetch, notebook_in, safe_name, save_new
from ownlab.lab.remote_notebooks.placement import place
from ownlab.lab.secrets.store import grant, list_secrets, set_secret

NOTEBOOK = json.dumps({"cells": [], "metadata": {"colab": {}}, "nbformat": 4, "nbformat_minor": 5}).encode()


class Web(ThreadingHTTPServer):
    """Answers each path as it was told to."""

    daemon_threads = True

    def __init__(self) -> None:
        self.ways: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def answers(self, path: str, data: bytes, status: int = 200, **headers: str) -> str:
        def way(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name.replace("_", "-"), value)
            if "Content_Length" not in headers:
                request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)

        return self.does(path, way)

    def does(self, path: str, way: Callable[[BaseHTTPRequestHandler], None]) -> str:
        self.ways[path] = way
        return self.url + path

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who has heard enough hangs up."""


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        web = self.server
        assert isinstance(web, Web)
        web.seen.append(self.path)
        web.ways[self.path](self)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as made:
        threading.Thread(target=made.serve_forever, args=(0.01,)).start()
        yield made
        made.shutdown()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- fetching ---------------------------------------------------------------------------------------------------------


def test_a_notebook_comes_as_it_is(web: Web) -> None:
    data = NOTEBOOK + b"\n\n"
    assert fetch(download_of(web.answers("/a/n%20b.ipynb", data))) == (data, "n b.ipynb")


def test_redirects_are_followed_and_may_name_the_file(web: Web) -> None:
    web.answers("/files/real.ipynb", NOTEBOOK)
    first = web.answers("/gist/raw", b"", 302, Location="/files/real.ipynb")
    assert fetch(download_of(first)) == (NOTEBOOK, "real.ipynb")


@pytest.mark.parametrize("there", ["file:///etc/passwd", "ftp://127.0.0.1/n.ipynb", "gopher://x/n.ipynb"])
def test_redirects_that_leave_the_web_are_not(web: Web, there: str) -> None:
    with pytest.raises(InputError, match="not safe"):
        fetch(download_of(web.answers("/n.ipynb", b"", 302, Location=there)))


def test_redirects_in_a_circle_end(web: Web) -> None:
    with pytest.raises(InputError, match="in a circle"):
        fetch(download_of(web.answers("/n.ipynb", b"", 302, Location="/n.ipynb")))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "there is nothing at"),
        (403, "not given out"),
        (401, "not given out"),
        (429, "too often"),
        (500, "status 500"),
    ],
)
def test_a_refusal_is_explained_without_the_token(web: Web, status: int, words: str) -> None:
    address = web.answers("/n.ipynb?token=geheim", b"no", status)
    with pytest.raises(InputError, match=words) as refused:
        fetch(download_of(address))
    assert refused.value.hint
    assert "geheim" not in refused.value.message
    assert web.seen == ["/n.ipynb?token=geheim"]


def test_what_is_too_large_is_not_taken_in(web: Web) -> None:
    address = web.answers("/n.ipynb", b"x" * 300_000)
    with pytest.raises(InputError, match="larger than"):
        fetch(download_of(address), largest=200_000)


def test_a_server_that_breaks_off_is_no_end_of_the_file(web: Web) -> None:
    address = web.answers("/n.ipynb", NOTEBOOK, Content_Length="100000")
    with pytest.raises(InputError, match="broke off"):
        fetch(download_of(address))


def drip_headers(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    drip(request)


def drip_body(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    drip(request)


def drip(request: BaseHTTPRequestHandler) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        request.wfile.write(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize("way", [drip_headers, drip_body])
def test_a_server_that_says_a_byte_now_and_then_is_left(
    web: Web, way: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    with pytest.raises(DeadlineError):
        fetch(download_of(web.does("/n.ipynb", way)), seconds=0.5)


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/n.ipynb?token=geheim"
        with pytest.raises(InputError, match="cannot be reached: Connection refused") as refused:
            fetch(download_of(address))
    assert "geheim" not in refused.value.message


def test_what_is_no_http(web: Web) -> None:
    def chat(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"hello\r\n\r\n")

    address = web.does("/n.ipynb", chat)
    with pytest.raises(InputError, match="cannot be reached"):
        fetch(download_of(address))


# --- is it a notebook? ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\n <!DOCTYPE html><html>Sign in</html>", "is a web page"),
        (b"\xef\xbb\xbf<html>", "is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
        (b"", "not JSON"),
        (b"404: Not Found", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "another kind"),
        (b'{"cells": []}', "another kind"),
        (b'{"nbformat": true, "cells": []}', "another kind"),
        (b'{"nbformat": 4, "cells": {}}', "another kind"),
    ],
)
def test_what_is_no_notebook_is_called_what_it_is(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        notebook_in(data, "it")


@pytest.mark.parametrize(
    "data",
    [NOTEBOOK, b"\xef\xbb\xbf" + NOTEBOOK, b'{"nbformat": 3, "worksheets": []}', b'{"nbformat": 4, "cells": [NaN]}'],
)
def test_notebooks_of_all_kinds_are_taken(data: bytes) -> None:
    assert notebook_in(data, "it")["nbformat"] in (3, 4)


# --- names ------------------------------------------------------------------------------------------------------------

EVIL = [
    "../../evil.ipynb",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/b/../../../c.ipynb",
    "..\\..\\evil.ipynb",
    "C:\\evil.ipynb",
    ".bashrc",
    ".ipynb",
    ".../.ssh/authorized_keys",
    "n\0.ipynb",
    "n\n\x1b[2J.ipynb",
    "-rf.ipynb",
    "~/.bashrc",
    "\u202egpj.ipynb",
    "ü" * 300 + ".ipynb",
    "n\udcff.ipynb",
    "con.ipynb/",
]


@pytest.mark.parametrize("evil", EVIL)
def test_no_name_leads_out_of_the_folder(evil: str, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er" / "lab"
    folder.mkdir(parents=True)
    saved = save_new(str(folder), evil, NOTEBOOK)
    assert os.path.dirname(os.path.realpath(saved)) == os.path.realpath(folder)
    (name,) = names(folder)
    assert name == safe_name(evil) == safe_name(name)
    assert name.endswith(".ipynb")
    assert name.isprintable()
    assert name[0] not in ".-~ "
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / name]


@pytest.mark.parametrize("evil", [name for name in EVIL if name.isascii() and name.isprintable()])
def test_no_header_leads_out_of_the_folder(evil: str, web: Web, tmp_path: Path) -> None:
    quoted = evil.replace("\\", "\\\\")
    address = web.answers("/download", NOTEBOOK, Content_Disposition=f'attachment; filename="{quoted}"')
    folder = tmp_path / "lab"
    folder.mkdir()
    assert os.path.dirname(place(address, str(folder), str(folder)).path) == str(folder)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / names(folder)[0]]


@pytest.mark.parametrize(
    "path", ["/..%2F..%2Fevil.ipynb", "/%2Fetc%2Fevil.ipynb", "/a/..%5C..%5Cevil.ipynb", "/%00.ipynb"]
)
def test_no_address_leads_out_of_the_folder(path: str, web: Web, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    place(web.answers(path, NOTEBOOK), str(folder), str(folder))
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == [folder / names(folder)[0]]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="My work.ipynb"', "My work.ipynb"),
        ("attachment; filename*=UTF-8''na%C3%AFve.ipynb", "naïve.ipynb"),
        ("attachment; filename*=nonsense''%FF.ipynb", None),
        ("attachment", "download.ipynb"),
    ],
)
def test_a_server_may_name_what_the_address_does_not(header: str, name: str | None, web: Web) -> None:
    fetched = fetch(download_of(web.answers("/download?id=3", NOTEBOOK, Content_Disposition=header)))
    assert name in (fetched.name, None)


def test_the_name_in_the_address_goes_before_the_servers(web: Web) -> None:
    address = web.answers("/n.ipynb", NOTEBOOK, Content_Disposition='attachment; filename="other.ipynb"')
    assert fetch(Download(address, "n.ipynb")).name == "n.ipynb"


# --- saving -----------------------------------------------------------------------------------------------------------


def test_nothing_is_overwritten_or_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "lab", tmp_path / "outside.ipynb"
    folder.mkdir()
    (folder / "n.ipynb").write_text("mine")
    (folder / "n (1).ipynb").symlink_to(outside)  # leads nowhere, yet
    (folder / "n (2).ipynb").mkdir()
    assert save_new(str(folder), "n.ipynb", NOTEBOOK) == str(folder / "n (3).ipynb")
    assert (folder / "n.ipynb").read_text() == "mine"
    assert not outside.exists()


def test_what_comes_to_an_old_path_has_no_grants(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    old = save_new(str(folder), "n.ipynb", NOTEBOOK)
    set_secret("A", "x")
    grant("A", old)
    os.unlink(old)
    assert save_new(str(folder), "n.ipynb", NOTEBOOK) == old
    assert list_secrets()[0].notebooks == ()


def test_a_file_in_the_labs_folder_stays_where_it_is(tmp_path: Path) -> None:
    root = tmp_path / "lab"
    (root / "sub" / ".hidden").mkdir(parents=True)
    inside, hidden, outside = root / "sub" / "n.ipynb", root / "sub" / ".hidden" / "h.ipynb", tmp_path / "o.ipynb"
    for path in (inside, hidden, outside):
        path.write_bytes(NOTEBOOK)
    found = place(str(inside), str(root), str(root))
    assert (found.path, found.copied, found.colab) == (str(inside), False, True)
    for path in (hidden, outside):
        found = place(str(path), str(root), str(root))
        assert (found.path, found.copied, found.source) == (str(root / path.name), True, str(path))
    assert place(str(outside), str(root), str(root)).path == str(root / "o (1).ipynb")


def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "text.ipynb").write_text("print(1)")
    for name, words in (
        ("none.ipynb", "not there"),
        (".", "no file"),
        ("pipe.ipynb", "no file"),
        ("text.ipynb", "not JSON"),
    ):
        with pytest.raises(InputError, match=words):
            place(str(tmp_path / name), str(tmp_path), str(tmp_path))
