"""The history of notebooks through a real server: recorded as people work, restored, named, purged; deleted notebooks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.lab.server.journal_maker import JournalMaker, notebook_of
from tests.lab.server.test_edits import EditingPage, sources

from ownlab.lab.service.labs import lab_id

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

Until = Callable[..., Any]
API = "/ownlab/api/notebooks"


@pytest.fixture
def path(lab: LabServer) -> Path:
    path = lab.folder / f"{uuid.uuid4().hex[:8]}.ipynb"
    path.write_text(json.dumps(notebook_of("a", "b")))
    return path


@pytest.fixture
def page(lab: LabServer, path: Path) -> EditingPage:
    return EditingPage(lab, path.name)


def versions(page: EditingPage) -> list[dict[str, Any]]:
    answer = page.lab.client.get(f"{page.lab.url}{API}/history", params={"notebook": page.name}).raise_for_status()
    found: list[dict[str, Any]] = answer.json()["versions"]
    return found


def content(page: EditingPage, version: str) -> dict[str, dict[str, Any]]:
    params = {"notebook": page.name, "version": version}
    answer = page.lab.client.get(f"{page.lab.url}{API}/history", params=params).raise_for_status()
    return {cell["id"]: cell for cell in answer.json()["notebook"]["cells"]}


def test_the_notebook_before_the_first_edit_and_after_it_are_versions(page: EditingPage) -> None:
    page.type_text("a", "typed")
    page.write()
    newest, oldest = versions(page)
    assert (oldest["reason"], newest["reason"], newest["changed"]) == ("opened", "edited", 1)
    assert content(page, oldest["id"])["a"]["source"] == "run('a')"
    assert content(page, newest["id"])["a"]["source"] == "typed"


def test_a_restored_version_is_a_new_change_and_pages_get_it(page: EditingPage, path: Path) -> None:
    journal = JournalMaker(page.lab.home, path, lab_id(str(page.lab.folder)))
    journal.run_cell("a", "output")
    journal.end_runtime()
    page.open()
    page.type_text("a", "typed")
    page.write()
    page.type_text("b", "typed later, and not in the file yet")
    opened = versions(page)[-1]
    restored = page.lab.post(f"{API}/history/restore", {"notebook": page.name, "version": opened["id"]}).json()
    assert sources(path) == {"a": "run('a')", "b": "run('b')"}
    assert [each["reason"] for each in restored["versions"]][:2] == ["restored", "before-restore"]
    before = content(page, restored["versions"][1]["id"])
    assert before["b"]["source"] == "typed later, and not in the file yet"
    assert before["a"]["outputs"][0]["text"] == "output"
    changes = page.changes()
    assert {cell["id"]: cell["source"] for cell in changes["cells"]} == {"a": "run('a')", "b": "run('b')"}
    again = EditingPage(page.lab, page.name)
    assert again.cells["a"]["outputs"] == [], "the version before the run had none"


def test_versions_have_names(page: EditingPage) -> None:
    page.type_text("a", "good")
    page.lab.post(f"{API}/history/name", {"notebook": page.name, "name": "works"})
    page.type_text("a", "bad")
    page.write()
    named = next(each for each in versions(page) if each["name"] == "works")
    assert content(page, "works")["a"]["source"] == "good"
    page.lab.post(f"{API}/history/name", {"notebook": page.name, "version": named["id"], "name": None})
    assert all(each["name"] is None for each in versions(page))


def test_a_purged_history_is_gone(page: EditingPage) -> None:
    page.type_text("a", "password = 'hunter2'")
    page.write()
    newest = versions(page)[0]
    page.lab.post(f"{API}/history/purge", {"notebook": page.name, "version": newest["id"]})
    assert newest["id"] not in [each["id"] for each in versions(page)]
    page.lab.post(f"{API}/history/purge", {"notebook": page.name})
    assert versions(page) == []


def test_the_text_that_a_conflict_did_not_keep_is_in_the_history(page: EditingPage) -> None:
    other = EditingPage(page.lab, page.name)
    other.type_text("a", "from the other page")
    changes = page.type_text("a", "from this page")
    assert changes["conflicts"][0]["other"] == "from the other page"
    conflict = next(each for each in versions(page) if each["reason"] == "conflict")
    assert content(page, conflict["id"])["a"]["source"] == "from the other page"


def test_the_history_follows_a_renamed_notebook(page: EditingPage, path: Path) -> None:
    page.type_text("a", "typed")
    page.write()
    before = versions(page)
    page.lab.client.patch(
        f"{page.lab.url}/api/contents/{page.name}", json={"path": f"new-{page.name}"}
    ).raise_for_status()
    page.name = f"new-{page.name}"
    assert versions(page) == before
    moved = path.with_name(f"moved-{page.name}")
    path.with_name(page.name).rename(moved)  # by another program
    page.name = moved.name
    assert versions(page) == before


def test_a_version_replaces_a_damaged_file_which_is_kept(page: EditingPage, path: Path) -> None:
    page.type_text("a", "typed")
    page.write()
    version = versions(page)[0]["id"]
    for number in ("", "2"):
        path.write_text(f"<<<<<<< HEAD {number}")
        page.lab.post(f"{API}/history/restore", {"notebook": page.name, "version": version}).raise_for_status()
        assert sources(path)["a"] == "typed"
        assert path.with_name(f"{path.name}.damaged{number}").read_text() == f"<<<<<<< HEAD {number}"


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_deleted_notebook_can_be_restored(lab: LabServer, in_folder: bool) -> None:
    folder = lab.folder / f"folder-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    path = folder / "train.ipynb"
    path.write_text(json.dumps(notebook_of("a", "b")))
    name = f"{folder.name}/train.ipynb"
    page = EditingPage(lab, name)
    page.type_text("a", "typed, and not in the file yet")
    lab.client.delete(f"{lab.url}/api/contents/{folder.name if in_folder else name}").raise_for_status()
    assert not path.exists()
    deleted = next(each for each in lab.get(f"{API}/deleted").json()["notebooks"] if each["path"] == name)
    if not in_folder:
        path.write_text(json.dumps(notebook_of("c")))  # meanwhile there is another of that name
    model = lab.post(f"{API}/deleted", {"id": deleted["id"]}).json()
    assert model["path"] == (name if in_folder else f"{folder.name}/train-restored.ipynb")
    assert sources(lab.folder / model["path"])["a"] == "typed, and not in the file yet"
    assert deleted["id"] not in [each["id"] for each in lab.get(f"{API}/deleted").json()["notebooks"]]
    page.name = model["path"]
    assert versions(page)[0]["reason"] == "deleted"


def test_bad_requests(page: EditingPage) -> None:
    lab = page.lab

    def status(method: str, where: str, **kwargs: Any) -> int:
        return lab.client.request(method, f"{lab.url}{API}/{where}", **kwargs).status_code

    assert status("GET", "history", params={"notebook": "nowhere.ipynb"}) == 404
    assert status("GET", "history", params={"notebook": "../x.ipynb"}) == 404
    assert status("GET", "history", params={"notebook": page.name, "version": "nothing"}) == 404
    assert status("GET", "history", params={"notebook": page.name, "version": "../../about"}) == 404
    assert status("POST", "history/restore", json={"notebook": page.name, "version": ""}) == 404
    assert status("POST", "history/restore", content="[" * 10_000) == 400
    assert status("POST", "deleted", json={"id": "../../.."}) == 404
    with httpx.Client(trust_env=False) as stranger:
        assert stranger.post(f"{lab.url}{API}/history/purge", json={"notebook": page.name}).status_code == 403
