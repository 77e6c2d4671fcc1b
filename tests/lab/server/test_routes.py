"""Our routes: what they answer, and whom they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import websocket

from ownlab.lab.runtimes.state import is_alive
from ownlab.languages import translations

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

READ = ["/ownlab/api/snapshot", "/ownlab/api/types"]
WRITE = ["/ownlab/api/runtimes/abc/stop", "/ownlab/api/runtimes/abc/extend"]


@pytest.fixture
def browser(lab: LabServer) -> Iterator[httpx.Client]:
    """A browser that has logged in and uses its cookies."""
    with httpx.Client(trust_env=False, timeout=300) as client:
        client.get(f"{lab.url}/lab", params={"token": lab.token}).raise_for_status()
        yield client


def handshake(lab: LabServer, **header: str) -> int:
    """Return the server's answer to a websocket handshake for the stream."""
    address = f"ws://127.0.0.1:{lab.port}/ownlab/api/stream"
    origin = header.pop("Origin", None)
    try:
        opened = websocket.create_connection(
            address, timeout=300, header=[f"{name}: {value}" for name, value in header.items()], origin=origin
        )
    except websocket.WebSocketBadStatusException as exc:
        return int(exc.status_code)
    opened.close()
    return 101


def test_the_token_is_required(lab: LabServer) -> None:
    with httpx.Client(trust_env=False, timeout=300) as stranger:
        assert [stranger.get(lab.url + path).status_code for path in READ] == [403, 403]
        assert [stranger.post(lab.url + path, json={}).status_code for path in WRITE] == [403, 403]
        wrong = {"Authorization": "token wrong"}
        assert [stranger.get(lab.url + path, headers=wrong).status_code for path in READ] == [403, 403]
        assert [stranger.post(lab.url + path, json={}, headers=wrong).status_code for path in WRITE] == [403, 403]
    assert handshake(lab) == 403
    assert handshake(lab, Authorization="token wrong") == 403
    assert handshake(lab, Authorization=f"token {lab.token}") == 101


def test_other_origins_are_refused(lab: LabServer, browser: httpx.Client) -> None:
    elsewhere = {"Origin": "http://evil.example", "X-XSRFToken": browser.cookies["_xsrf"]}
    assert [browser.get(lab.url + path).status_code for path in READ] == [200, 200]
    assert [browser.get(lab.url + path, headers=elsewhere).status_code for path in READ] == [404, 404]
    assert [browser.post(lab.url + path, json={}, headers=elsewhere).status_code for path in WRITE] == [404, 404]
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    assert handshake(lab, Cookie=cookies, Origin="http://evil.example") == 403
    assert handshake(lab, Cookie=cookies, Origin=lab.url) == 101


def test_actions_require_the_xsrf_cookie(lab: LabServer, browser: httpx.Client) -> None:
    assert [browser.post(lab.url + path, json={}).status_code for path in WRITE] == [403, 403]
    mark = {"X-XSRFToken": browser.cookies["_xsrf"]}
    assert [browser.post(lab.url + path, json={}, headers=mark).status_code for path in WRITE] == [409, 409]


def test_an_error_has_the_same_document_as_on_the_command_line(lab: LabServer) -> None:
    answer = lab.client.post(f"{lab.url}/ownlab/api/runtimes/abc/stop", json={})
    assert answer.status_code == 409
    assert answer.json()["error"]["kind"] == "LabError"
    assert "abc" in answer.json()["error"]["message"]
    answer = lab.client.post(f"{lab.url}/ownlab/api/runtimes/abc/stop", json={"now": "yes"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "UsageError")


def test_types_and_cards(lab: LabServer) -> None:
    types = lab.get("/ownlab/api/types").json()["types"]
    assert [kind["name"] for kind in types if kind["kind"] is None] == ["python3"]
    assert {kind["cards"] for kind in types} == {0, 1, 2, 4}
    shown = lab.get("/ownlab/api/snapshot").json()
    assert [card["free_parts"] for card in shown["cards"]] == [12, 12, 12, 12]
    assert shown["types"] == types
    assert shown["history"]


def test_stop(lab: LabServer, until: Callable[..., Any]) -> None:
    session = lab.session("stopped.ipynb")
    kernel = session["kernel"]["id"]
    page = lab.page(kernel)
    page.run("1")
    processes = lab.processes(kernel)
    assert lab.post(f"/ownlab/api/runtimes/{kernel}/stop", {"now": True}).json()["runtime"] == kernel
    page.until(lambda message: message["msg_type"] == "status" and message["content"]["execution_state"] == "dead")
    until(lambda: not any(is_alive(process) for process in processes), "no process is left")
    assert lab.get("/api/kernels").json() == [], "it is not started anew"
    assert lab.get("/api/sessions").json() == []


def test_extend(lab: LabServer) -> None:
    config = lab.home.parent / "config.toml"  # read for each runtime
    config.write_text("[limits]\nsession_hours = 0.1\n")
    try:
        kernel = lab.session("limited.ipynb")["kernel"]["id"]
    finally:
        config.unlink()
    lab.page(kernel).run("1")
    [before] = lab.get("/ownlab/api/snapshot").json()["runtimes"]
    assert before["warned"]
    assert before["may_extend"]
    extended = lab.post(f"/ownlab/api/runtimes/{kernel}/extend").json()
    assert extended["ends_at"] > before["ends_at"]


def test_errors_are_in_the_language_of_the_page(lab: LabServer) -> None:
    chinese = {"Accept-Language": "zh-CN"}
    stopped = lab.client.post(f"{lab.url}/ownlab/api/runtimes/{'0' * 32}/stop", json={"now": 1}, headers=chinese)
    assert stopped.json()["error"]["kind"] == "UsageError"
    assert "请求" in stopped.json()["error"]["message"]
    # Jupyter's own route, and an error of tornado.
    unreadable = lab.client.put(f"{lab.url}/api/contents/a.ipynb", content=b"[]", headers=chinese)
    assert unreadable.status_code == 400
    assert "请求" in unreadable.json()["message"]
    assert lab.client.put(f"{lab.url}/api/contents/a.ipynb", content=b"[]").json()["message"] == (
        "The request body is not a JSON object."
    )
    page = lab.client.get(f"{lab.url}/api/contents/{'a' * 300}", headers=chinese)
    assert page.status_code == 400
    assert "字节" in page.text


def test_the_stream_is_in_the_language_of_its_address(lab: LabServer) -> None:
    address = f"ws://127.0.0.1:{lab.port}/ownlab/api/stream?language=qps"
    opened = websocket.create_connection(address, timeout=300, header=[f"Authorization: token {lab.token}"])
    labels = {each["label"] for each in json.loads(opened.recv())["types"]}
    opened.close()
    english = {each["label"] for each in lab.client.get(f"{lab.url}/ownlab/api/types").json()["types"]}
    translate = translations("qps")
    assert translate is not None
    assert english
    assert labels in (
        {translate(label) for label in english},
        english,
    )  # a label may be a name without words of its own


def test_titles_of_settings_are_translated(lab: LabServer) -> None:
    settings = f"{lab.url}/lab/api/settings/ownlab:cells"
    assert lab.client.get(settings).json()["schema"]["title"] == "Cells"
    language = f"{lab.url}/lab/api/settings/@jupyterlab/translation-extension:plugin"
    lab.client.put(language, json={"raw": '{"locale": "zh_CN"}'}).raise_for_status()
    try:
        schema = lab.client.get(settings).json()["schema"]
        assert schema["title"] == "单元格"
        assert schema["properties"]["boxOutputs"]["title"] == "把长输出放进滚动框"
        listed = {
            each["id"]: each["schema"] for each in lab.client.get(f"{lab.url}/lab/api/settings").json()["settings"]
        }
        assert [each.get("label") for each in listed["ownlab:indicator"]["jupyter.lab.menus"]["main"]][1] == "运行时"
        catalogue = lab.client.get(f"{lab.url}/lab/api/translations/zh_CN").json()["data"]
        assert catalogue["ownlab"]["Runtimes and cards"] == ["运行时和显卡"]
        assert "jupyterlab" in catalogue
    finally:
        lab.client.put(language, json={"raw": "{}"}).raise_for_status()
