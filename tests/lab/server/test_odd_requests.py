"""Odd ids, paths, parameters and bodies on every route: always an answer of the 400s, never a fault of the server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import websocket

from ownlab.lab.server.routes import handlers

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

NAMES = [
    "a" * 300,
    "a" * 5000,
    "a" * 128,
    "..",
    "../../etc",
    "..\\..",
    ".",
    "a/../b",
    "a\0b",
    "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    "ünïcode",
    "日本語",
    "a b",
    "-rf",
    "%2e%2e%2f",
    "'; drop table runtimes; --",
    "00000000-0000-4000-8000-000000000000",
    "nul\n",
    "٣",
]
BODIES = [
    b"",
    b"[]",
    b"null",
    b"{",
    b"[" * 100_000,
    b"\xff\xfe",
    b'{"now": 1e999}',
    b'{"metadata": ' + b'{"a": ' * 50_000,
    b'{"metadata": {}, "runtime": "", "type": ""}',
    b'{"key": "\\ud800"}',
    b'{"name": "' + b"x" * 100_000 + b'", "value": "y"}',
    b'{"type": "notebook", "content": 5}',
    b'{"type": "notebook", "content": {"cells": 7}}',
    b'{"path": 7, "name": [], "type": "notebook", "kernel": []}',
    b'{"path": "../../x", "name": "n", "type": "notebook", "kernel": {"id": "x", "name": "../.."}}',
]
QUERIES = [
    "",
    "after=-1",
    "after=" + "9" * 5000,
    "after=٣",
    "after=%00",
    "path=%00",
    "path=/" + "a" * 5000,
    "path=/" + "a/" * 2500,
    "path=%ff%fe",
    "path=/../../etc/passwd",
    "folder=%00&number=1&offset=1",
    "folder=/" + "a" * 300 + "&number=0&offset=999999999999999",
    "key=" + "k" * 5000,
    "key=%00",
    "name=%00",
    "name=" + "n" * 5000,
    "notebook=%00",
    "notebook=" + "n" * 5000,
    "notebook=../../../etc/passwd",
    "content=1&type=notebook",
    "content=x&type=directory&format=y",
]
JUPYTERS_OWN = [
    "/api/kernels/NAME",
    "/api/kernels/NAME/interrupt",
    "/api/kernels/NAME/restart",
    "/api/sessions",
    "/api/sessions/NAME",
    "/api/contents/NAME",
    "/api/contents/NAME/checkpoints",
    "/api/contents/NAME.ipynb",
    "/api/kernelspecs/NAME",
    "/files/NAME",
    "/proxy/99999/NAME",
    "/proxy/0/",
]


def routes() -> Iterator[str]:
    for pattern, _ in handlers():
        yield pattern.partition("(?P<runtime>")[0] + (
            "NAME/" + pattern.rpartition("/")[2] if "(?P<runtime>" in pattern else ""
        )
    yield from JUPYTERS_OWN


@pytest.mark.parametrize("route", [each for each in routes() if not each.endswith("/stream")])
def test_no_request_is_a_fault_of_the_server(lab: LabServer, route: str) -> None:
    dice = random.Random(route)
    faults = []
    tries = [("GET", name, query, b"") for name in NAMES for query in QUERIES[:2]]
    tries += [("GET", "abc", query, b"") for query in QUERIES]
    tries += [
        (method, dice.choice(NAMES), dice.choice(QUERIES), body)
        for method in ("POST", "PUT", "PATCH", "DELETE")
        for body in BODIES
    ]
    for method, name, query, body in tries:
        address = lab.url + route.replace("NAME", quote(name, safe="")) + (f"?{query}" if query else "")
        answer = lab.client.request(method, address, content=body, follow_redirects=False)
        if answer.status_code >= 500 and answer.status_code not in (501, 502):
            faults.append((answer.status_code, method, name[:40], len(name), query[:60], body[:60]))
    assert not faults


@pytest.mark.parametrize("name", [quote(each, safe="") for each in NAMES])
def test_websockets_of_odd_kernels_are_refused(lab: LabServer, name: str) -> None:
    for after in ("", "&ownlab_after=" + "9" * 5000, "&ownlab_after=٣"):
        with pytest.raises((websocket.WebSocketBadStatusException, ConnectionError)) as refused:
            websocket.create_connection(
                f"ws://127.0.0.1:{lab.port}/api/kernels/{name}/channels?session_id=x{quote(after, safe='&=')}",
                header=[f"Authorization: token {lab.token}"],
                timeout=300,
            )
        if isinstance(refused.value, websocket.WebSocketBadStatusException):
            assert refused.value.status_code < 500
