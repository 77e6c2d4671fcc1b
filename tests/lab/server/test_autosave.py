"""Notebook files contain the outputs of kernels even if no page was open to save them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.server.journal_maker import JournalMaker, notebook_of
from tests.lab.server.stream_page import StreamPage

from ownlab.lab.server.recent_writes import RecentWrites, Version
from ownlab.lab.service.labs import lab_id

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

Until = Callable[..., Any]
WEEK = 7 * 86400


class Opened:
    """A notebook with a kernel, and a page that streams it."""

    def __init__(self, lab: LabServer, name: str) -> None:
        self.lab, self.path = lab, lab.folder / name
        self.path.write_text(json.dumps(notebook_of("a", "b")))
        self.kernel: str = lab.session(name)["kernel"]["id"]
        self.page = StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{self.kernel}/channels", lab.token)
        self.url = f"{lab.url}/api/contents/{name}"

    def model(self, **params: Any) -> dict[str, Any]:
        contents: dict[str, Any] = self.lab.client.get(self.url, params=params).raise_for_status().json()
        return contents

    def execute(self, code: str, cell: str) -> str:
        """Run code that the notebook's file has in this cell, and return the id of the request."""
        notebook = json.loads(self.path.read_text())
        next(each for each in notebook["cells"] if each["id"] == cell)["source"] = code
        self.path.write_text(json.dumps(notebook))
        request: str = self.page.execute(code, cell=cell)
        return request

    def saved_position(self) -> int:
        path = self.lab.home / "journals" / self.kernel / "held.json"
        position: int = json.loads(path.read_text())["position"] if path.exists() else 0
        return position


@pytest.fixture
def opened(lab: LabServer) -> Iterator[Opened]:
    made = Opened(lab, f"{os.urandom(4).hex()}.ipynb")
    yield made
    made.page.close()
    lab.client.delete(f"{lab.url}/api/kernels/{made.kernel}")


def printed(path: Path, cell: int = 0) -> str:
    outputs = json.loads(path.read_text())["cells"][cell]["outputs"]
    return "".join("".join(output.get("text", "")) for output in outputs)


def test_a_cell_that_ends_without_a_page_is_saved(opened: Opened, until: Until) -> None:
    os.chmod(opened.path, 0o640)
    request = opened.execute("import time; print('one', flush=True); time.sleep(1.5); print('two')", cell="a")
    opened.page.until_kind("stream")
    opened.page.close()
    until(lambda: printed(opened.path) == "one\ntwo\n", "the file holds it")
    assert stat.S_IMODE(opened.path.stat().st_mode) == 0o640
    assert json.loads(opened.path.read_text())["cells"][0]["execution_count"] == 1
    until(lambda: opened.saved_position() > 0, "it is known that the file holds it")
    assert request


def test_outputs_are_saved_while_a_page_is_open(opened: Opened, until: Until) -> None:
    opened.page.until_idle(opened.execute("print('one')", cell="a"))
    until(lambda: printed(opened.path) == "one\n", "the file holds it")


def test_an_open_page_sees_no_file_change_for_outputs_it_received(opened: Opened, until: Until) -> None:
    opened.execute("import time; time.sleep(0.5); print('one')", cell="a")
    before = opened.model(type="notebook", hash=1)
    opened.page.until_kind("execute_input")
    opened.page.drop()  # it loses its connection and reconnects later
    until(lambda: printed(opened.path) == "one\n", "the file holds it")
    after = opened.model(content=0, hash=1)
    assert (after["hash"], after["last_modified"]) == (before["hash"], before["last_modified"])
    again = opened.model(type="notebook", hash=1)  # a second page opens it
    assert (again["hash"], again["last_modified"]) == (before["hash"], before["last_modified"])
    opened.path.write_text(opened.path.read_text() + "\n")  # another program writes it: that must be reported
    assert opened.model(content=0, hash=1)["hash"] != before["hash"]


def test_a_page_that_reconnects_can_save_over_an_autosave(opened: Opened, until: Until) -> None:
    seen = opened.page.position
    request = opened.execute("print('one')", cell="a")
    body = opened.model(type="notebook")["content"]
    body["cells"][0]["outputs"] = []
    opened.page.until_idle(request)
    opened.page.drop()
    until(lambda: printed(opened.path) == "one\n", "the file holds it")
    body["cells"][1]["source"] = "typed meanwhile"
    headers = {"X-Ownlab-Seen": f"{opened.kernel}/{seen}"}
    opened.lab.client.put(opened.url, json={"type": "notebook", "content": body}, headers=headers).raise_for_status()
    assert printed(opened.path) == "one\n"
    assert json.loads(opened.path.read_text())["cells"][1]["source"] == ["typed meanwhile"]
    model = opened.model(content=0, hash=1)
    assert model["hash"] == opened.model(type="notebook", hash=1)["hash"]


def test_the_position_of_a_running_runtime_matches_the_notebook(opened: Opened) -> None:
    opened.page.until_idle(opened.execute("print('one')", cell="a"))
    answer = opened.lab.client.get(opened.url, params={"type": "notebook"})
    runtime, _, number = answer.headers["X-Ownlab-Position"].partition("/")
    assert runtime == opened.kernel
    assert int(number) >= int(opened.page.position)
    assert answer.json()["content"]["cells"][0]["outputs"][0]["text"] == "one\n"


def test_outputs_of_a_stopped_runtime_are_saved(opened: Opened, until: Until) -> None:
    opened.execute("print('one', flush=True); import time; time.sleep(600)", cell="a")
    opened.page.until_kind("stream")
    opened.page.close()
    opened.lab.client.delete(f"{opened.lab.url}/api/kernels/{opened.kernel}").raise_for_status()
    until(lambda: printed(opened.path).startswith("one\n"), "the file holds it")
    assert json.loads(opened.path.read_text())["cells"][0]["execution_count"] is None


def test_a_notebook_that_is_renamed_keeps_its_runtime(opened: Opened, until: Until) -> None:
    opened.execute("import time; time.sleep(1); print('one')", cell="a")
    opened.page.until_kind("execute_input")
    opened.page.close()
    new = opened.path.with_name(f"new-{opened.path.name}")
    opened.lab.client.patch(opened.url, json={"path": new.name}).raise_for_status()
    until(lambda: printed(new) == "one\n", "the file holds it under its new name")
    assert not opened.path.exists()


def test_recent_writes_survive_a_restart_of_the_server(tmp_path: Path) -> None:
    table, file = tmp_path / "table", tmp_path / "folder" / "x.ipynb"
    file.parent.mkdir()
    file.write_text("written by autosave")
    known = Version(12.5, "sha256", "abc")
    writing = RecentWrites(str(table))
    with writing.record_write(str(file), known):
        file.write_text("what autosave adds")
        assert writing.published_version(str(file)) == known  # also for a page that asks during the write
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    again = RecentWrites(str(table))
    assert again.published_version(str(file)) == known
    file.parent.rename(tmp_path / "new")
    again.rename(str(file.parent), str(tmp_path / "new"))
    moved = tmp_path / "new" / "x.ipynb"
    assert RecentWrites(str(table)).published_version(str(moved)) == known
    assert again.published_version(str(file)) is None
    again.forget(str(tmp_path / "new"))
    assert RecentWrites(str(table)).published_version(str(moved)) is None
    table.write_text("[3]")
    assert RecentWrites(str(table)).published_version(str(moved)) is None


def test_outputs_are_saved_after_a_killed_server_restarts(new_lab: Callable[[str], LabServer], until: Until) -> None:
    lab = new_lab("work").start()
    opened = Opened(lab, "train.ipynb")
    opened.execute("import time; print('one', flush=True); time.sleep(1); print('two')", cell="a")
    opened.page.until_kind("stream")
    opened.page.drop()
    lab.end(signal.SIGKILL)
    lab.start()
    until(lambda: printed(opened.path) == "one\ntwo\n", "the file holds it")


def test_old_journals_are_removed(new_lab: Callable[[str], LabServer], until: Until) -> None:
    """Of runtimes that ended without a server: saved if possible, kept if not, removed when old."""
    lab = new_lab("work")
    mine = lab_id(str(lab.folder))

    def ended(name: str, notebook: str | None = None, age: float = 0.0, of_lab: str = mine) -> JournalMaker:
        path = lab.folder / f"{name}.ipynb"
        if notebook is not None:
            path.write_text(notebook)
        runtime = JournalMaker(lab.home, path, of_lab)
        runtime.run_cell("a", "one\n")
        runtime.end_runtime()
        for file in runtime.folder.iterdir():
            os.utime(file, (time.time() - age, time.time() - age))
        return runtime

    good = json.dumps(notebook_of("a", "b"))
    whole, gone, damaged = ended("whole", good), ended("gone"), ended("damaged", "{")
    old = ended("old", good, 2 * WEEK)
    foreign = ended("foreign", good, of_lab="another")
    outside = JournalMaker(lab.home, lab.folder.parent / "outside.ipynb", mine)
    outside.run_cell("a", "one\n")
    outside.end_runtime()
    (lab.folder.parent / "outside.ipynb").write_text(good)
    forgotten = ended("forgotten", None, 2 * WEEK)
    about = json.loads((forgotten.folder / "about.json").read_text())
    (forgotten.folder / "about.json").write_text(json.dumps({**about, "notebook": ""}))
    os.utime(forgotten.folder / "about.json", (0, 0))
    lab.start()

    until(lambda: printed(lab.folder / "whole.ipynb") == "one\n", "the file of a runtime that ended is written")
    until(lambda: whole.saved_position() == whole.position, "and that is known")
    until(lambda: not old.folder.exists(), "an old one is removed, once its notebook holds it")
    assert printed(lab.folder / "old.ipynb") == "one\n"
    until(lambda: not forgotten.folder.exists(), "one without a notebook too")
    assert whole.folder.exists(), "a new one is kept"
    assert gone.folder.exists(), "one whose notebook is gone is kept"
    assert not (lab.folder / "gone.ipynb").exists()
    assert damaged.folder.exists()
    assert (lab.folder / "damaged.ipynb").read_text() == "{"
    assert foreign.saved_position() == 0, "another lab's is left to its own server"
    assert (lab.folder.parent / "outside.ipynb").read_text() == good, "nothing is written outside the lab's folder"
    shutil.rmtree(whole.folder)  # removed by hand
    assert lab.get("/api/contents/whole.ipynb?type=notebook").json()["content"]["cells"][0]["outputs"]
