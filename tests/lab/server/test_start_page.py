"""The start page's routes on a real server: recent notebooks, addresses, examples, the doctor."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.lab.server.journal_maker import JournalMaker, notebook_of
from tests.web_server import Web, serve_web

from ownlab.instruments.data.data_sets import DataSetEntry, remember
from ownlab.lab.journal.death import Death
from ownlab.lab.journal.records import event
from ownlab.lab.service.labs import lab_id

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

API = "/ownlab/api"
NOTEBOOK = json.dumps(notebook_of("a") | {"metadata": {"colab": {}}}).encode()


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as server:
        yield server


@pytest.fixture
def fresh(new_lab: Any) -> LabServer:
    """A running lab with an empty folder."""
    lab: LabServer = new_lab("work").start()
    return lab


def write(path: Path, *, hours_ago: float = 0.0) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(notebook_of("a", "b")))
    at = time.time() - 3600 * hours_ago
    os.utime(path, (at, at))
    return path


def journal_of(lab: LabServer, path: Path, *, run: bool = False) -> JournalMaker:
    return JournalMaker(lab.home, path, "" if run else lab_id(str(lab.folder)))


def fail_cell(journal: JournalMaker, cell: str) -> None:
    request = journal.request(cell)
    journal.begin(request)
    parent = {"msg_id": request, "msg_type": "execute_request"}
    content = {"status": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
    journal._message("shell", False, "execute_reply", content, parent)
    journal.send(request, "status", execution_state="idle")


def die(journal: JournalMaker, death: Death) -> None:
    ended = event(journal.position + 1, time.time(), "kernel-ended", why="it died", death=death.dump())
    journal._record(ended)
    journal.end_runtime()


def recent(lab: LabServer) -> dict[str, dict[str, Any]]:
    notebooks = lab.get(f"{API}/start").json()["recent"]
    return {each["path"]: each for each in notebooks}


def test_recent_notebooks_say_what_happened_to_them(fresh: LabServer) -> None:
    folder = fresh.folder
    write(folder / "old.ipynb", hours_ago=50)
    write(folder / "below" / "newer.ipynb", hours_ago=1)
    write(folder / ".hidden" / "no.ipynb")
    (folder / "text.txt").write_text("not a notebook")
    good, bad, dead = (write(folder / f"{name}.ipynb", hours_ago=2) for name in ("good", "bad", "dead"))
    cut = write(folder / "cut.ipynb", hours_ago=2)
    ran = journal_of(fresh, good, run=True)
    ran.run_cell("a", "fine")
    ran.end_runtime()
    failed = journal_of(fresh, bad)
    failed.run_cell("a", "fine")
    fail_cell(failed, "b")
    failed.end_runtime()
    die(journal_of(fresh, dead), Death("kernel", signal=9, out_of_memory="cgroup"))
    stopped = journal_of(fresh, cut, run=True)
    stopped.run_cell("a", "fine")
    stopped.begin(stopped.request("b"))
    stopped._record(event(stopped.position + 1, time.time(), "kernel-ended", why="it was stopped"))
    stopped.end_runtime()
    found = recent(fresh)
    assert set(found) == {
        "old.ipynb",
        "below/newer.ipynb",
        *(f"{name}.ipynb" for name in ("good", "bad", "dead", "cut")),
    }
    assert list(found)[-2:] == ["below/newer.ipynb", "old.ipynb"], "the newest first; a journal counts, too"
    assert (found["good.ipynb"]["failed_cells"], found["good.ipynb"]["died_at"]) == (0, None)
    assert {path for path, each in found.items() if each["stopped"]} == {"cut.ipynb"}
    assert time.time() - found["good.ipynb"]["ran_at"] < 600
    assert found["good.ipynb"]["run_seconds"] is not None
    assert (found["bad.ipynb"]["failed_cells"], found["bad.ipynb"]["run_seconds"]) == (1, None)
    assert found["dead.ipynb"]["died_of"] == "out of memory"
    assert (found["old.ipynb"]["ran_at"], found["old.ipynb"]["edited_at"]) == (None, None)
    assert found["below/newer.ipynb"]["file"] == str(folder / "below" / "newer.ipynb")


def test_an_edited_notebook_counts_its_versions_and_a_deleted_one_is_gone(fresh: LabServer) -> None:
    write(fresh.folder / "a.ipynb", hours_ago=3)
    fresh.get("/api/contents/a.ipynb")
    for number in range(2):
        patch = {"notebook": "a.ipynb", "page": "p", "version": 0, "cells": [{"id": "a", "source": f"{number}"}]}
        fresh.client.post(f"{fresh.url}{API}/notebooks/edits", json=patch)
        named = {"notebook": "a.ipynb", "name": f"version {number}"}
        fresh.post(f"{API}/notebooks/history/name", named)
    edited = recent(fresh)["a.ipynb"]
    assert edited["versions_today"] >= 2
    assert time.time() - edited["edited_at"] < 600
    fresh.client.delete(f"{fresh.url}/api/contents/a.ipynb").raise_for_status()
    assert recent(fresh) == {}


def test_a_notebook_from_an_address_is_saved_and_nothing_is_overwritten(lab: LabServer, web: Web) -> None:
    address = web.answer("/n%20b.ipynb", NOTEBOOK)
    (lab.folder / "sub").mkdir(exist_ok=True)
    opened = [lab.post(f"{API}/notebooks/open", {"address": address, "folder": "sub"}).json() for _ in range(2)]
    assert opened == [{"path": "sub/n b.ipynb", "colab": True}, {"path": "sub/n b (1).ipynb", "colab": True}]
    assert (lab.folder / "sub" / "n b (1).ipynb").read_bytes() == NOTEBOOK


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("train.ipynb", "This is not a web address."),
        ("", "This is not a web address."),
        ("file:///etc/passwd", "This is not a web address."),
        ("https://colab.research.google.com/drive/1abc", "requires signing in"),
        ("https://github.com/owner/repository", "a folder on GitHub"),
        ("WEB/page", "is a web page, not a notebook"),
        ("WEB/missing", "404"),
    ],
)
def test_an_address_that_cannot_be_opened_is_explained(lab: LabServer, web: Web, address: str, message: str) -> None:
    web.answer("/page", b"<!doctype html><title>Sign in</title>")
    web.answer("/missing", b"no", 404)
    before = sorted(os.listdir(lab.folder))
    body = {"address": address.replace("WEB", web.url)}
    answer = lab.client.post(f"{lab.url}{API}/notebooks/open", json=body)
    assert answer.status_code in (400, 422)
    assert message in answer.json()["error"]["message"]
    assert sorted(os.listdir(lab.folder)) == before


@pytest.mark.parametrize("folder", ["..", "sub/../..", "no", ".hidden", "link", "a.txt"])
def test_a_notebook_is_saved_inside_the_lab_only(lab: LabServer, web: Web, tmp_path: Path, folder: str) -> None:
    (lab.folder / ".hidden").mkdir(exist_ok=True)
    (lab.folder / "a.txt").write_text("")
    if not (lab.folder / "link").is_symlink():
        (lab.folder / "link").symlink_to(tmp_path)
    address = web.answer("/n.ipynb", NOTEBOOK)
    answer = lab.client.post(f"{lab.url}{API}/notebooks/open", json={"address": address, "folder": folder})
    assert answer.status_code in (404, 422)
    assert not list(tmp_path.glob("*.ipynb"))
    assert not list((lab.folder / ".hidden").iterdir())
    assert web.requested == []


def test_an_example_is_copied_once(lab: LabServer) -> None:
    example = lab.get(f"{API}/start").json()["examples"][0]
    assert (example["name"], example["minutes"]) == ("welcome", 1)
    path = lab.post(f"{API}/examples", {"name": "welcome"}).json()["path"]
    file = lab.folder / path
    assert json.loads(file.read_text())["cells"]
    file.write_text("mine")
    assert lab.post(f"{API}/examples", {"name": "welcome"}).json()["path"] == path
    assert file.read_text() == "mine"
    assert lab.client.post(f"{lab.url}{API}/examples", json={"name": "../welcome"}).status_code == 400


def test_an_example_is_in_the_language_of_the_page(lab: LabServer) -> None:
    chinese = {"Accept-Language": "zh-CN,en;q=0.5"}
    answer = lab.client.post(f"{lab.url}{API}/examples", json={"name": "will-it-fit"}, headers=chinese)
    assert answer.json()["path"] == "examples/will-it-fit.ipynb"
    assert "放得下吗？" in (lab.folder / "examples" / "will-it-fit.ipynb").read_text("utf-8")
    lab.post(f"{API}/examples", {"name": "gpu-check"})
    assert "can this notebook use a GPU" in (lab.folder / "examples" / "gpu-check.ipynb").read_text("utf-8")


def test_the_doctor_is_asked_once_and_again_if_wanted(lab: LabServer) -> None:
    first = lab.get(f"{API}/doctor").json()
    assert first["gpu_work"] == "yes"
    assert first["sentence"].startswith("GPU work will run: 4 × NVIDIA GeForce GTX 1080 Ti")
    assert first["environment"] == "default"
    assert first["findings"][0]["fix"]
    assert lab.get(f"{API}/doctor").json() == first
    assert lab.get(f"{API}/start").json()["doctor"] == first
    assert lab.get(f"{API}/doctor?again=1").json()["checked_at"] > first["checked_at"]


@pytest.mark.parametrize(
    ("method", "route"), [("GET", "start"), ("GET", "doctor"), ("POST", "notebooks/open"), ("POST", "examples")]
)
def test_the_routes_require_the_token(lab: LabServer, method: str, route: str) -> None:
    answer = httpx.request(method, f"{lab.url}{API}/{route}", json={}, trust_env=False)
    assert answer.status_code == 403


def test_the_product_has_its_own_name_and_icons(lab: LabServer) -> None:
    page = lab.get("/lab").text
    assert '"appName": "ownlab"' in page
    for name in ("favicon.ico", "favicons/favicon.ico", "favicons/favicon-busy-1.ico", "logo/logo.png"):
        served = lab.get(f"/static/{name}").content
        ours = Path(__file__).parents[3] / "src" / "ownlab" / "lab" / "server" / "static" / name
        assert served == ours.read_bytes()


def test_data_sets_are_listed_with_size_place_and_last_use(fresh: LabServer) -> None:
    inside, outside = fresh.folder / "sets" / "cats", fresh.folder.parent / "dogs"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
    remember(
        DataSetEntry(str(outside), "downloaded", "https://example.org/dogs.zip", size=5000, files=2), fresh.environ
    )
    remember(DataSetEntry(str(inside), "packed", "/data/cats.zip", size=7000, files=3), fresh.environ)
    first, second = fresh.get(f"{API}/start").json()["data_sets"]
    assert (first["place"], first["kind"], first["size"], first["state"]) == ("sets/cats", "packed", 7000, "complete")
    assert time.time() - first["last_used"] < 600
    assert (second["path"], second["place"]) == (str(outside), None)
    outside.rmdir()
    assert fresh.get(f"{API}/start").json()["data_sets"][1]["state"] == "missing"
