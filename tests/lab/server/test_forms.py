"""POST /ownlab/api/forms: the page uses the same grammar."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

PATH = "/ownlab/api/forms"


def ask(lab: LabServer, *sources: str, view: str | None = None) -> list[Any]:
    cells = [{"source": source, "view": view} for source in sources]
    answer = lab.client.post(lab.url + PATH, content=json.dumps({"cells": cells}))  # as JavaScript: halves are escapes
    assert answer.status_code == 200, answer.text
    forms: list[Any] = answer.json()["forms"]
    return forms


def test_forms_come_in_the_order_of_their_cells(lab: LabServer) -> None:
    none, form, title = ask(lab, "1", 'x = 5 #@param {type:"slider", max:10}\n#@markdown *a*', "#@title T {run:'auto'}")
    assert none is None
    assert form == {
        "title": None,
        "parts": [
            {
                "part": "field", "name": "x", "type": "slider", "value": "5", "line": 0, "start": 4, "end": 5,
                "choices": None, "value_type": "number", "allow_input": False, "min": 0, "max": 10, "step": 1,
                "placeholder": None,
            },
            {"part": "markdown", "text": "*a*", "line": 1},
        ],
        "hidden": False, "auto": False, "vertical": False, "width": None,
    }  # fmt: skip
    assert (title["title"], title["auto"]) == ("T", True)


def test_the_cell_view(lab: LabServer) -> None:
    assert ask(lab, "#@title T", view="form")[0]["hidden"]
    assert not ask(lab, "#@title T {display-mode: 'form'}", view="both")[0]["hidden"]
    assert ask(lab, "1", view="form") == [
        {"title": None, "parts": [], "hidden": True, "auto": False, "vertical": False, "width": None}
    ]


def test_offsets_count_utf16_code_units(lab: LabServer) -> None:
    source = "# 😀\nx = '😀a' #@param\n#@markdown 😀\ny = 2 #@param"
    (form,) = ask(lab, source)
    units = source.encode("utf-16-le")
    for field in (part for part in form["parts"] if part["part"] == "field"):
        assert units[2 * field["start"] : 2 * field["end"]].decode("utf-16-le") == field["value"]


def test_lone_surrogates_are_accepted(lab: LabServer) -> None:
    (form,) = ask(lab, "#@title \ud83d\nx = '\ud83d' #@param\ny = '\U0001f600' #@param")
    assert form["title"] == "\ud83d"
    assert [(part["value"], part["start"]) for part in form["parts"]] == [("'\ud83d'", 14), ("'😀'", 30)]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"cells": [1]}', b'{"cells": [{"source": 1}]}', b"\xff", b"[" * 100_000]
)
def test_an_invalid_body_is_refused(lab: LabServer, body: bytes) -> None:
    answer = lab.client.post(lab.url + PATH, content=body)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "UsageError")


def test_limits(lab: LabServer) -> None:
    assert len(ask(lab, *["#@title A"] * 2_000)) == 2_000
    for cells in ([{"source": ""}] * 2_001, [{"source": " " * (16 << 20)}]):
        answer = lab.client.post(lab.url + PATH, json={"cells": cells})
        assert answer.status_code == 400
        assert "limit: " in answer.json()["error"]["message"]


def test_authentication_is_required(lab: LabServer) -> None:
    body = {"cells": [{"source": "#@title A"}]}
    with httpx.Client(trust_env=False, timeout=300) as browser:
        assert browser.post(lab.url + PATH, json=body).status_code == 403
        browser.get(f"{lab.url}/lab", params={"token": lab.token}).raise_for_status()
        assert browser.post(lab.url + PATH, json=body).status_code == 403, "without the mark against forgery"
        mark = {"X-XSRFToken": browser.cookies["_xsrf"]}
        assert browser.post(lab.url + PATH, json=body, headers=mark).status_code == 200
        elsewhere = {**mark, "Origin": "http://evil.example"}
        assert browser.post(lab.url + PATH, json=body, headers=elsewhere).status_code == 404
