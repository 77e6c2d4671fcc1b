"""proxy/PORT/: servers of notebooks, only for users of the lab, and without the lab's credentials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import websocket

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


class EchoHandler(BaseHTTPRequestHandler):
    """Answers with the path and the headers of the request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"path": self.path, "headers": dict(self.headers)}).encode())

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *args: Any) -> None:
        """Nothing is logged."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server of this user."""
    with ThreadingHTTPServer(("127.0.0.1", 0), EchoHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def other_port(free_port: Callable[[], int], until: Callable[..., Any]) -> Iterator[int]:
    """The port of a server of another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another person")
    port = free_port()
    code = f"import os, socket\nos.setuid(65534)\nkept = socket.create_server(('127.0.0.1', {port}))\nprint('there', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        yield port
        process.kill()


def test_a_port_is_proxied_without_the_credentials_of_the_lab(
    lab: LabServer, port: int, until: Callable[..., Any]
) -> None:
    address = f"{lab.url}/proxy/{port}"
    until(lambda: lab.client.get(f"{address}/").status_code == 200, "the server has its door to ports")
    with httpx.Client(trust_env=False, timeout=300) as browser:
        browser.get(f"{lab.url}/lab", params={"token": lab.token}).raise_for_status()
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        assert "username-" in cookies
        headers = {"Cookie": f"{cookies}; app=its own", "Referer": f"{lab.url}/lab?token={lab.token}"}
        got = httpx.get(f"{address}/a/b?c=1", headers=headers, trust_env=False)
        assert got.json()["path"] == "/a/b?c=1"
        assert got.json()["headers"]["Cookie"] == "app=its own"
        assert got.json()["headers"]["Referer"] == f"{lab.url}/lab"
        for value in browser.cookies.values():
            assert value not in got.text
    for got in (lab.client.get(f"{address}/x"), httpx.get(f"{address}/x?token={lab.token}&d=2", trust_env=False)):
        assert got.json()["path"] in ("/x", "/x?d=2")
        assert lab.token not in got.text
    own = lab.client.get(f"{address}/x?token={lab.token}", headers={"Authorization": "Bearer of the app"})
    assert own.json()["headers"]["Authorization"] == "Bearer of the app"


@pytest.fixture
def browser(lab: LabServer, port: int, until: Callable[..., Any]) -> Iterator[httpx.Client]:
    """A browser that has logged in, once the server forwards to ports."""
    until(lambda: lab.client.get(f"{lab.url}/proxy/{port}/").status_code == 200, "the server has its door to ports")
    with httpx.Client(trust_env=False, timeout=300) as client:
        client.get(f"{lab.url}/lab", params={"token": lab.token}).raise_for_status()
        yield client


OTHER_SITES: list[dict[str, str]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
]
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("headers", OTHER_SITES)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_requests_of_other_websites_are_refused(
    lab: LabServer, browser: httpx.Client, port: int, method: str, headers: dict[str, str]
) -> None:
    address = f"{lab.url}/proxy/{port}/delete-everything"
    assert browser.request(method, address, headers=headers).status_code == 403
    assert lab.client.request(method, address, headers=headers).status_code == 200, "the token is proof enough"


def test_the_lab_itself_and_links_of_others_reach_a_port(lab: LabServer, browser: httpx.Client, port: int) -> None:
    address = f"{lab.url}/proxy/{port}/"
    own = {"Origin": lab.url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert [browser.request(method, address, headers=own).status_code for method in ("GET", "POST")] == [200, 200]
    assert browser.post(address).status_code == 200, "a script with a cookie sends neither header"
    assert browser.get(address, headers=LINK).status_code == 200
    assert browser.post(address, headers=LINK).status_code == 403, "a form of another website"


@pytest.mark.parametrize("headers", [OTHER_SITES[0], {**OTHER_SITES[5], "Sec-Fetch-Mode": "websocket"}])
def test_websockets_of_other_websites_are_refused(
    lab: LabServer, browser: httpx.Client, port: int, headers: dict[str, str]
) -> None:
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    given = {"Origin": lab.url, **headers}
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        websocket.create_connection(
            f"ws://127.0.0.1:{lab.port}/proxy/{port}/",
            timeout=300,
            origin=given.pop("Origin"),
            header=[f"Cookie: {cookies}", *(f"{name}: {value}" for name, value in given.items())],
        )
    assert refused.value.status_code == 403


def test_ports_require_access_to_the_lab(
    lab: LabServer, port: int, other_port: int, free_port: Callable[[], int]
) -> None:
    assert httpx.get(f"{lab.url}/proxy/{port}/", trust_env=False).status_code in (302, 403)
    wrong = {"Authorization": "token wrong"}
    assert httpx.get(f"{lab.url}/proxy/{port}/", trust_env=False, headers=wrong).status_code in (302, 403)
    assert lab.client.get(f"{lab.url}/proxy/{other_port}/").status_code == 403
    assert lab.client.get(f"{lab.url}/proxy/{free_port()}/").status_code == 502
    assert lab.client.get(f"{lab.url}/proxy/127.0.0.1:{port}/", follow_redirects=True).status_code == 404
