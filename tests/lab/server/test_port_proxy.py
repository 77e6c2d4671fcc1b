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

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


class EchoHandler(BaseHTTPRequestHandler):
    """Answers with the path and the headers of the request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"path": self.path, "headers": dict(self.headers)}).encode())

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
    with httpx.Client(trust_env=False, timeout=30) as browser:
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


def test_ports_require_access_to_the_lab(
    lab: LabServer, port: int, other_port: int, free_port: Callable[[], int]
) -> None:
    assert httpx.get(f"{lab.url}/proxy/{port}/", trust_env=False).status_code in (302, 403)
    wrong = {"Authorization": "token wrong"}
    assert httpx.get(f"{lab.url}/proxy/{port}/", trust_env=False, headers=wrong).status_code in (302, 403)
    assert lab.client.get(f"{lab.url}/proxy/{other_port}/").status_code == 403
    assert lab.client.get(f"{lab.url}/proxy/{free_port()}/").status_code == 502
    assert lab.client.get(f"{lab.url}/proxy/127.0.0.1:{port}/", follow_redirects=True).status_code == 404
