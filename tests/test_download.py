"""Downloads from a real server that misbehaves: limits, redirects, and errors that name neither tokens nor passwords."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from tests.web_server import Responder, Web, serve_web

from ownlab.download import download, without_secrets
from ownlab.errors import DeadlineError, InputError


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as server:
        yield server


def test_a_file_arrives_unchanged(web: Web) -> None:
    address = web.answer("/a/n%20b.txt", b"data\n\n")
    assert download(address) == (b"data\n\n", address, None)


def test_redirects_are_followed(web: Web) -> None:
    target = web.answer("/files/real.txt", b"data")
    first = web.answer("/raw", b"", 302, Location="/files/real.txt")
    assert download(first) == (b"data", target, None)


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/n.txt", "gopher://x/n.txt"])
def test_redirects_to_other_schemes_are_refused(web: Web, target: str) -> None:
    with pytest.raises(InputError, match="not safe"):
        download(web.answer("/n.txt", b"", 302, Location=target))


def test_redirects_in_a_circle_end(web: Web) -> None:
    with pytest.raises(InputError, match="in a circle"):
        download(web.answer("/n.txt", b"", 302, Location="/n.txt"))


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.org/n.txt", "n.txt"])
def test_other_schemes_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="not an http or https address"):
        download(address)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "There is nothing at"),
        (403, "is not public"),
        (401, "is not public"),
        (429, "too many requests"),
        (500, "status 500"),
    ],
)
def test_an_error_status_is_explained_without_the_token(web: Web, status: int, message: str) -> None:
    address = web.answer("/n.txt?token=geheim", b"no", status)
    with pytest.raises(InputError, match=message) as refused:
        download(address)
    assert refused.value.hint
    assert "geheim" not in refused.value.message
    assert web.requested == ["/n.txt?token=geheim"]


def test_a_file_above_the_size_limit_is_refused(web: Web) -> None:
    address = web.answer("/n.txt", b"x" * 300_000)
    with pytest.raises(InputError, match="larger than"):
        download(address, max_bytes=200_000)


def test_a_truncated_answer_is_an_error(web: Web) -> None:
    address = web.answer("/n.txt", b"data", Content_Length="100000")
    with pytest.raises(InputError, match="cut off"):
        download(address)


def drip_headers(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    drip(request)


def drip_body(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    drip(request)


def drip(request: BaseHTTPRequestHandler) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        request.wfile.write(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize("responder", [drip_headers, drip_body])
def test_a_server_that_drips_bytes_hits_the_deadline(web: Web, responder: Responder) -> None:
    with pytest.raises(DeadlineError):
        download(web.respond_with("/n.txt", responder), seconds=0.5)


def test_a_refused_connection_is_explained_without_the_token() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/n.txt?token=geheim"
        with pytest.raises(InputError, match=r"Cannot reach .*: Connection refused") as refused:
            download(address)
    assert "geheim" not in refused.value.message


def test_an_answer_that_is_not_http_is_an_error(web: Web) -> None:
    def chat(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"hello\r\n\r\n")

    with pytest.raises(InputError, match="Cannot reach"):
        download(web.respond_with("/n.txt", chat))


@pytest.mark.parametrize(
    ("header", "filename"),
    [
        ('attachment; filename="My work.ipynb"', "My work.ipynb"),
        ("attachment; filename*=UTF-8''na%C3%AFve.ipynb", "naïve.ipynb"),
        ("attachment", None),
    ],
)
def test_the_server_may_name_the_file(header: str, filename: str | None, web: Web) -> None:
    assert download(web.answer("/download?id=3", b"data", Content_Disposition=header)).filename == filename


def test_a_file_name_in_a_wrong_encoding_is_survived(web: Web) -> None:
    header = "attachment; filename*=nonsense''%FF.ipynb"
    assert download(web.answer("/download", b"data", Content_Disposition=header)).data == b"data"


def test_addresses_are_shown_without_secrets() -> None:
    shown = without_secrets("https://ann:geheim@example.org/n.ipynb?token=geheim#geheim")
    assert shown == "https://example.org/n.ipynb"
    assert "geheim" not in without_secrets("https://[geheim/n")
