"""Code as it is typed, through a real server: patches, other pages, other programs, kills."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import nbformat
import pytest
import websocket
from tests.lab.server.journal_maker import JournalMaker, notebook_of

from ownlab.lab.notebooks.edits.records import CellPatch, Patch, SourcePatch
from ownlab.lab.notebooks.files import read_notebook
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.service.labs import lab_id

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

Until = Callable[..., Any]


class EditingPage:
    """A page that has a notebook open, as the protocol sees it."""

    def __init__(self, lab: LabServer, name: str) -> None:
        self.lab, self.name, self.page, self.number = lab, name, uuid.uuid4().hex, 0
        self.open()

    def open(self) -> None:
        answer = self.lab.get(f"/api/contents/{self.name}?type=notebook&content=1")
        self.version = int(answer.headers["X-Ownlab-Version"])
        self.cells = {cell["id"]: cell for cell in answer.json()["content"]["cells"]}

    def try_send(self, *cells: dict[str, Any], **rest: Any) -> httpx.Response:
        self.number += 1
        body = {"notebook": self.name, "page": self.page, "number": self.number, "version": self.version}
        return self.lab.client.post(f"{self.lab.url}/ownlab/api/notebooks/edits", json=body | {"cells": cells} | rest)

    def send(self, *cells: dict[str, Any], **rest: Any) -> dict[str, Any]:
        changes: dict[str, Any] = self.try_send(*cells, **rest).raise_for_status().json()
        self.version = changes["version"]
        return changes

    def type_text(self, cell: str, text: str) -> dict[str, Any]:
        source = {"text": text, "base": self.cells[cell]["source"]}
        self.cells[cell]["source"] = text
        return self.send({"id": cell, "type": "code", "source": source})

    def changes(self) -> dict[str, Any]:
        query: dict[str, str | int] = {"notebook": self.name, "version": self.version}
        changes: dict[str, Any] = (
            self.lab.client.get(f"{self.lab.url}/ownlab/api/notebooks/edits", params=query).raise_for_status().json()
        )
        self.version = changes["version"]
        return changes

    def write(self) -> dict[str, Any]:
        model: dict[str, Any] = self.lab.post("/ownlab/api/notebooks/write", {"notebook": self.name}).json()
        return model


@pytest.fixture
def path(lab: LabServer) -> Path:
    path = lab.folder / f"{uuid.uuid4().hex[:8]}.ipynb"
    path.write_text(json.dumps(notebook_of("a", "b")))
    return path


@pytest.fixture
def page(lab: LabServer, path: Path) -> EditingPage:
    return EditingPage(lab, path.name)


def sources(path: Path) -> dict[str, str]:
    return {cell["id"]: cell["source"] for cell in nbformat.read(path, 4).cells}  # type: ignore[no-untyped-call]


def test_code_is_in_the_file_when_editing_rests(page: EditingPage, path: Path, until: Until) -> None:
    page.type_text("a", "lr = 0.001")
    until(lambda: sources(path)["a"] == "lr = 0.001", "the file has it", seconds=15)
    assert sources(path)["b"] == "run('b')"
    assert page.changes()["cells"] == []


def test_half_a_surrogate_pair_keeps_nothing_from_being_saved(page: EditingPage, path: Path) -> None:
    """Pages send it as an escape sequence, in outputs that were pasted, for example. No file can hold it."""
    typed = {"id": "a", "type": "code", "source": {"base": "run('a')", "text": "print('\ud83d')  # 😀"}}
    pasted = {"outputs": [{"output_type": "stream", "name": "stdout", "text": "\ud83d\n"}], "execution_count": 1}
    patch = {"notebook": page.name, "page": page.page, "number": 1, "version": page.version}
    body = json.dumps({**patch, "cells": [typed, {"id": "b", "type": "code", "outputs": pasted}]})
    answer = page.lab.client.post(f"{page.lab.url}/ownlab/api/notebooks/edits", content=body)
    assert answer.status_code == 200, answer.text
    page.number = 1
    page.cells["a"]["source"] = "print('\ufffd')  # 😀"
    page.type_text("b", "after = 1")
    page.write()
    assert sources(path) == {"a": "print('\ufffd')  # 😀", "b": "after = 1"}
    assert nbformat.read(path, 4).cells[1].outputs[0].text == "\ufffd\n"  # type: ignore[no-untyped-call]


@pytest.fixture
def full_state_disk(page: EditingPage) -> Iterator[None]:
    """The edit log of the page's notebook is on a disk that is full but for the rest of the log's last block."""
    page.type_text("a", "before = 1")
    page.write()
    log = max(page.lab.home.rglob("edits/*.log"), key=lambda each: each.stat().st_mtime_ns)
    data = log.read_bytes()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(log.parent)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    try:
        log.write_bytes(data)
        with suppress(OSError), (log.parent / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        yield
    finally:
        subprocess.run(["umount", "-l", str(log.parent)], check=True)


@pytest.mark.usefixtures("full_state_disk")
def test_the_file_is_written_while_the_disk_of_the_state_folder_is_full(page: EditingPage, path: Path) -> None:
    page.type_text("a", "after = 1")
    page.write()
    assert sources(path)["a"] == "after = 1"


def test_a_killed_server_loses_nothing_that_it_acknowledged(page: EditingPage, path: Path, until: Until) -> None:
    for number in range(30):
        page.type_text("a", f"x = {number}")
    page.send(
        {"id": "new", "type": "markdown", "source": {"text": "# Title"}},
        order={"base": ["a", "b"], "now": ["new", "a", "b"]},
    )
    page.lab.end(signal.SIGKILL)
    assert sources(path)["a"] == "run('a')", "the file is older, which makes this a test"
    page.lab.start()
    page.number -= 1  # the answer to the last patch was lost, say: it is sent again
    page.send(
        {"id": "new", "type": "markdown", "source": {"text": "# Title"}},
        order={"base": ["a", "b"], "now": ["new", "a", "b"]},
    )
    again = EditingPage(page.lab, page.name)
    assert [cell["source"] for cell in again.cells.values()] == ["# Title", "x = 29", "run('b')"]
    until(lambda: list(sources(path).values()) == ["# Title", "x = 29", "run('b')"], "the file has it")


def test_what_a_killed_server_did_not_write_is_written_by_the_next(page: EditingPage, path: Path, until: Until) -> None:
    page.type_text("a", "typed")
    page.lab.end(signal.SIGKILL)
    page.lab.start()
    until(lambda: sources(path)["a"] == "typed", "the file has it, although nobody opened it")


def test_a_server_that_stops_writes_what_is_unsaved(page: EditingPage, path: Path) -> None:
    page.type_text("a", "typed")
    page.lab.end(signal.SIGTERM)
    assert sources(path)["a"] == "typed"
    page.lab.start()


def test_save_writes_at_once_and_answers_as_jupyter_does(page: EditingPage, path: Path) -> None:
    page.type_text("a", "typed")
    model = page.write()
    assert sources(path)["a"] == "typed"
    assert (model["name"], model["type"], model["content"]) == (page.name, "notebook", None)


def test_two_pages_see_each_others_edits(page: EditingPage) -> None:
    other = EditingPage(page.lab, page.name)
    page.type_text("a", "from the first")
    changes = other.changes()
    assert [(cell["id"], cell["source"]) for cell in changes["cells"]] == [("a", "from the first")]
    other.send(deleted={"b": "run('b')"}, order={"base": ["a", "b"], "now": ["a"]})
    changes = page.changes()
    assert (changes["deleted"], changes["order"]) == (["b"], ["a"])


def test_pages_are_told_of_new_versions(page: EditingPage, path: Path) -> None:
    socket = websocket.create_connection(
        f"ws://127.0.0.1:{page.lab.port}/ownlab/api/notebooks/changes",
        header=[f"Authorization: token {page.lab.token}"],
        timeout=300,
    )
    try:
        page.type_text("a", "typed")
        assert json.loads(socket.recv()) == {"notebook": page.name, "version": page.version}
        page.write()
        content = json.loads(path.read_text())
        content["cells"][1]["source"] = ["changed by another program"]
        path.write_text(json.dumps(content))
        assert json.loads(socket.recv())["version"] > page.version
        assert [cell["source"] for cell in page.changes()["cells"]] == ["changed by another program"]
    finally:
        socket.close()


def test_pages_are_told_that_a_notebook_was_renamed(page: EditingPage, path: Path) -> None:
    """Those that listen, and those that listen later; unless there is a new file of the old name."""

    def listen() -> websocket.WebSocket:
        address = f"ws://127.0.0.1:{page.lab.port}/ownlab/api/notebooks/changes"
        return websocket.create_connection(address, header=[f"Authorization: token {page.lab.token}"], timeout=300)

    old, new = page.name, f"new-{page.name}"
    moved = {"renamed": old, "path": new}
    early = listen()
    page.lab.client.patch(f"{page.lab.url}/api/contents/{old}", json={"path": new}).raise_for_status()
    late = listen()
    try:
        assert json.loads(early.recv()) == moved
        assert moved in iter(lambda: json.loads(late.recv()), None)
    finally:
        early.close()
        late.close()
    path.write_text(json.dumps(notebook_of("a")))
    page.open()
    last = listen()
    try:
        page.type_text("a", "typed")
        received = list(iter(lambda: json.loads(last.recv()), {"notebook": old, "version": page.version}))
        assert moved not in received, "the old name belongs to another notebook now"
    finally:
        last.close()


def test_a_file_that_another_program_empties_does_not_empty_the_notebook(page: EditingPage, path: Path) -> None:
    page.type_text("a", "typed")
    page.write()
    path.write_bytes(b"")
    answer = page.lab.client.get(f"{page.lab.url}/api/contents/{page.name}?type=notebook")
    assert answer.status_code == 422
    assert "is empty" in answer.json()["message"]
    path.write_text(json.dumps(notebook_of("a", "b")))
    page.open()
    assert set(page.cells) == {"a", "b"}


def test_a_file_changed_by_another_program_while_it_is_edited(page: EditingPage, path: Path, until: Until) -> None:
    page.type_text("a", "typed here")
    content = json.loads(path.read_text())
    content["cells"][1]["source"] = ["changed there"]
    path.write_text(json.dumps(content))
    until(lambda: sources(path) == {"a": "typed here", "b": "changed there"}, "both are in the file")
    assert {cell["id"]: cell["source"] for cell in page.changes()["cells"]}["b"] == "changed there"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_file_changed_by_another_program_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    for name in ("OWNLAB_HOME", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "work").mkdir()
    path = tmp_path / "work" / "n.ipynb"
    path.write_text(json.dumps(notebook_of("a", "b")))
    contents = OwnlabContents(root_dir=str(tmp_path / "work"), lab="lab")
    written: list[str] = []

    def change_once(**_: Any) -> None:
        """Jupyter calls this just before it writes, or just after."""
        if not written:
            content = json.loads(path.read_text())
            content["cells"][1]["source"] = ["changed there"]
            path.write_text(json.dumps(content))
        written.append("once more")

    register: Any = contents.register_pre_save_hook if moment == "before" else contents.register_post_save_hook
    register(change_once)

    async def edit() -> None:
        source = SourcePatch("typed here", "run('a')")
        await contents.apply_patch(str(path), Patch("n.ipynb", "page", 1, cells=(CellPatch("a", "code", source),)))
        assert await contents.update_file(str(path))
        source = SourcePatch("typed again", "typed here")
        await contents.apply_patch(str(path), Patch("n.ipynb", "page", 2, cells=(CellPatch("a", "code", source),)))
        assert await contents.update_file(str(path))

    asyncio.run(edit())
    assert sources(path) == {"a": "typed again", "b": "changed there"}
    assert len(written) >= 2


def test_a_full_save_by_a_client_that_sends_no_edits(page: EditingPage, path: Path, until: Until) -> None:
    page.type_text("a", "typed here")
    content = notebook_of("a", "b")
    content["cells"][1]["source"] = "saved by another client"
    page.lab.client.put(
        f"{page.lab.url}/api/contents/{page.name}", json={"type": "notebook", "content": content}
    ).raise_for_status()
    until(lambda: sources(path) == {"a": "typed here", "b": "saved by another client"}, "both are in the file")


def test_a_file_that_another_program_removed_is_written_again(page: EditingPage, path: Path, until: Until) -> None:
    page.type_text("a", "typed")
    page.write()
    path.unlink()
    page.type_text("a", "typed again")
    until(lambda: path.exists() and sources(path)["a"] == "typed again", "the file is there again")


def test_an_edited_notebook_can_be_renamed_and_deleted(page: EditingPage, path: Path, until: Until) -> None:
    page.type_text("a", "typed")
    new = path.with_name(f"new-{path.name}")
    url = f"{page.lab.url}/api/contents/{page.name}"
    page.lab.client.patch(url, json={"path": new.name}).raise_for_status()
    page.name = new.name
    page.type_text("b", "typed under the new name")
    until(lambda: sources(new) == {"a": "typed", "b": "typed under the new name"}, "the file has both")
    assert not path.exists()
    page.lab.client.delete(f"{page.lab.url}/api/contents/{new.name}").raise_for_status()
    new.write_text(json.dumps(notebook_of("a", "b")))
    again = EditingPage(page.lab, new.name)
    assert again.cells["a"]["source"] == "run('a')", "a new notebook of that name has no edits"


def test_what_was_typed_just_before_renaming_reaches_the_file(page: EditingPage, path: Path, until: Until) -> None:
    """Nobody types under the new name, so nothing but the earlier edit asks for the file to be written."""
    page.type_text("a", "typed")
    new = path.with_name(f"new-{path.name}")
    url = f"{page.lab.url}/api/contents/{page.name}"
    page.lab.client.patch(url, json={"path": new.name}).raise_for_status()
    until(lambda: sources(new)["a"] == "typed", "the renamed file has it")
    assert not path.exists()


def test_a_restored_checkpoint_is_what_pages_get(page: EditingPage, path: Path) -> None:
    url = f"{page.lab.url}/api/contents/{page.name}/checkpoints"
    checkpoint = page.lab.client.post(url).raise_for_status().json()["id"]
    page.type_text("a", "typed later")
    page.lab.client.post(f"{url}/{checkpoint}").raise_for_status()
    assert sources(path)["a"] == "run('a')"
    assert {cell["id"]: cell["source"] for cell in page.changes()["cells"]}["a"] == "run('a')"


def test_code_that_ran_unsaved_is_recovered(lab: LabServer, path: Path, until: Until) -> None:
    journal = JournalMaker(lab.home, path, lab_id(str(lab.folder)))
    request = journal.request("a", "lr = 0.001\nprint(lr)")
    journal.begin(request)
    journal.print(request, "0.001\n")
    journal.end(request, 1)
    journal.end_runtime()
    page = EditingPage(lab, path.name)
    assert page.cells["a"]["source"] == "lr = 0.001\nprint(lr)"
    assert page.cells["a"]["outputs"][0]["text"] == "0.001\n"
    assert [(each["cell"], each["other"]) for each in page.changes()["recovered"]] == [("a", "run('a')")]
    until(lambda: sources(path)["a"] == "lr = 0.001\nprint(lr)", "the file has it, too")
    assert page.changes()["recovered"] != []
    lab.post("/ownlab/api/notebooks/recovered", {"notebook": path.name, "cell": "a"})
    assert page.changes()["recovered"] == []


def test_code_that_was_edited_after_it_ran_stays_edited(page: EditingPage, path: Path) -> None:
    journal = JournalMaker(page.lab.home, path, lab_id(str(page.lab.folder)))
    journal.run_cell("a", "output")
    page.type_text("a", "edited after the run")
    journal.end_runtime()
    again = EditingPage(page.lab, page.name)
    assert again.cells["a"]["source"] == "edited after the run"
    assert again.cells["a"]["outputs"][0]["text"] == "output"
    assert again.changes()["recovered"] == []


def test_cleared_outputs_stay_cleared_and_a_new_run_shows(page: EditingPage, path: Path) -> None:
    journal = JournalMaker(page.lab.home, path, lab_id(str(page.lab.folder)))
    journal.run_cell("a", "first")
    cleared = {"id": "a", "type": "code", "outputs": {"outputs": [], "execution_count": None}}
    page.send(cleared, seen=f"{journal.runtime}/{journal.position}")
    assert EditingPage(page.lab, page.name).cells["a"]["outputs"] == []
    other = EditingPage(page.lab, page.name)
    other.version = page.version - 1
    assert [cell["outputs"]["outputs"] for cell in other.changes()["cells"]] == [[]]
    journal.run_cell("a", "second", 2)
    assert EditingPage(page.lab, page.name).cells["a"]["outputs"][0]["text"] == "second"
    other.version = page.version - 1
    assert [cell.get("outputs") for cell in other.changes()["cells"]] == [None], "the newer output stays"
    journal.end_runtime()


def test_a_run_has_the_latest_code(page: EditingPage, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(page.lab.home))
    page.type_text("a", "typed just now")
    assert read_notebook(str(path))["cells"][0]["source"] == "typed just now"
    assert sources(path)["a"] == "run('a')", "the file is older, which makes this a test"


def test_a_download_has_the_latest_code(page: EditingPage) -> None:
    page.type_text("a", "typed just now")
    answer = page.lab.get(f"/files/{page.name}")
    assert json.loads(answer.text)["cells"][0]["source"] == ["typed just now"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ("[" * 100_000, 400),
        ('{"notebook": "../../etc/passwd.ipynb", "page": "p", "number": 1}', 404),
        ('{"notebook": "nowhere.ipynb", "page": "p", "number": 1}', 404),
        ('{"notebook": "notes.txt", "page": "p", "number": 1}', 404),
        ('{"notebook": ".hidden.ipynb", "page": "p", "number": 1}', 404),
        ('{"notebook": "n.ipynb", "page": "p", "number": "one"}', 400),
        ('{"notebook": "n.ipynb", "page": "p", "number": 1, "unknown": 1}', 400),
    ],
)
def test_bad_requests_are_refused(lab: LabServer, body: str, status: int) -> None:
    answer = lab.client.post(f"{lab.url}/ownlab/api/notebooks/edits", content=body)
    assert answer.status_code == status


def test_the_routes_require_the_token(page: EditingPage) -> None:
    base = f"{page.lab.url}/ownlab/api/notebooks"
    with httpx.Client(trust_env=False) as stranger:
        body = {"notebook": page.name, "page": "p", "number": 1}
        assert stranger.post(f"{base}/edits", json=body).status_code == 403
        assert stranger.get(f"{base}/edits", params={"notebook": page.name}).status_code in (302, 403)
        assert stranger.post(f"{base}/write", json={"notebook": page.name}).status_code == 403
        assert stranger.get(f"{base}/changes").status_code == 403
