"""The routes of the secrets panel: what they return, and that values are never returned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ownlab.lab.secrets.store import NotGranted, SecretNotFound, read_secret, set_secret

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


@pytest.fixture(scope="module")
def notebook(lab: LabServer) -> Path:
    """A notebook in a folder of the lab."""
    path = lab.folder / "sub folder" / "größe.ipynb"
    path.parent.mkdir()
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def ask(lab: LabServer, method: str, body: object = None, **query: str) -> httpx.Response:
    return lab.client.request(method, f"{lab.url}/ownlab/api/secrets", params=query, json=body)


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()["secrets"]]


def message(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"]["message"])


def test_add_grant_revoke_remove(lab: LabServer, notebook: Path) -> None:
    here = {"notebook": "sub folder/größe.ipynb"}
    assert names(ask(lab, "GET")) == []
    added = ask(lab, "POST", {"name": "TOKEN", "value": "the-first-value"}, **here)
    assert names(added) == ["TOKEN"]
    path = added.json()["notebook"]
    assert path == str(notebook.resolve())
    with pytest.raises(NotGranted):
        read_secret("TOKEN", [path], lab.environ)

    granted = ask(lab, "PUT", {"name": "TOKEN", "notebook": path, "granted": True}, **here).json()
    assert granted["secrets"][0]["notebooks"] == [path]
    assert read_secret("TOKEN", [path], lab.environ).value == "the-first-value"
    assert "already" in message(ask(lab, "POST", {"name": "TOKEN", "value": "other"}), 409)
    replaced = ask(lab, "POST", {"name": "TOKEN", "value": "the-second-value", "replace": True}, **here)
    assert read_secret("TOKEN", [path], lab.environ).value == "the-second-value"
    for answer in (added, replaced, ask(lab, "GET", **here)):
        assert "-value" not in answer.text

    ask(lab, "PUT", {"name": "TOKEN", "notebook": path, "granted": False}, **here).raise_for_status()
    with pytest.raises(NotGranted):
        read_secret("TOKEN", [path], lab.environ)
    assert names(ask(lab, "DELETE", name="TOKEN")) == []
    with pytest.raises(SecretNotFound):
        read_secret("TOKEN", [path], lab.environ)


def test_invalid_requests_are_refused(lab: LabServer, notebook: Path) -> None:
    set_secret("KEPT", "a-value", lab.environ)
    assert "not a valid name" in message(ask(lab, "POST", {"name": "two words", "value": "x"}), 400)
    answer = ask(lab, "POST", {"name": "NEW", "value": 3, "hidden": "a-value"})
    assert "a-value" not in answer.text
    assert "is invalid" in message(answer, 400)
    assert "no longer exists" in message(ask(lab, "POST", {"name": "GONE", "value": "x", "replace": True}), 409)
    assert "no secret" in message(ask(lab, "DELETE", name="GONE"), 404)
    absent = {"name": "KEPT", "notebook": str(notebook.with_name("absent.ipynb")), "granted": True}
    assert "no notebook" in message(ask(lab, "PUT", absent), 422)
    relative = {"name": "KEPT", "notebook": "größe.ipynb", "granted": True}
    assert "absolute" in message(ask(lab, "PUT", relative), 400)
    for path in ("../outside.ipynb", "drive:../outside.ipynb", "drive:MyDrive/../../outside.ipynb", "/etc/passwd"):
        assert ask(lab, "GET", notebook=path).json()["notebook"] is None


def test_authentication_is_required(lab: LabServer) -> None:
    address = f"{lab.url}/ownlab/api/secrets"
    body: dict[str, Any] = {"name": "STOLEN", "value": "x"}
    with httpx.Client(trust_env=False) as stranger:
        assert stranger.get(address).status_code == 403
        assert stranger.post(address, json=body).status_code == 403
    with httpx.Client(trust_env=False) as browser:
        browser.get(f"{lab.url}/lab", params={"token": lab.token}).raise_for_status()
        assert browser.post(address, json=body).status_code == 403  # without the XSRF header
        assert browser.get(address, headers={"Origin": "http://elsewhere.example"}).status_code in (403, 404)
    assert "STOLEN" not in names(ask(lab, "GET"))


def test_a_type_is_proposed(lab: LabServer, notebook: Path) -> None:
    address = f"{lab.url}/ownlab/api/proposal"
    kernel = lab.session("sub folder/größe.ipynb")["kernel"]
    metadata = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
    asked = {"metadata": metadata, "runtime": kernel["id"], "type": kernel["name"]}
    proposal = lab.client.post(address, json=asked).json()["proposal"]
    assert proposal["type"] == "ownlab-1-nvidia-geforce-gtx-1080-ti"
    assert proposal["words"].startswith("This notebook was made for a T4 GPU. Run it on")
    assert lab.client.post(address, json={**asked, "metadata": {}}).json() == {"proposal": None}
    assert lab.client.post(address, json={"metadata": 3}).status_code == 400
    assert httpx.post(address, json=asked, trust_env=False).status_code == 403
