"""Notebooks opened and saved through a real server, with journals of runtimes that have ended."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest
from tests.lab.server.journal_maker import PIXEL, JournalMaker, notebook_of

from ownlab.lab.service.labs import lab_id

LONG_AGO = 1_000_000_000.0


@pytest.fixture
def nb(lab: Any, request: pytest.FixtureRequest) -> Notebook:
    return Notebook(lab, re.sub(r"\W", "-", request.node.name) + ".ipynb")


class Notebook:
    """A notebook in the lab's folder, as a page sees it."""

    def __init__(self, lab: Any, name: str) -> None:
        self.lab, self.name = lab, name
        self.path: Path = lab.folder / name
        self.put(notebook_of("a", "b"))

    @property
    def url(self) -> str:
        return f"{self.lab.url}/api/contents/{self.name}"

    def put(self, content: dict[str, Any], seen: str = "", **more: Any) -> httpx.Response:
        headers = {"Content-Type": "application/json"} | ({"X-Ownlab-Seen": seen} if seen else {})
        body = {"type": "notebook", "format": "json", "content": content, **more}
        answer: httpx.Response = self.lab.client.put(
            self.url, content=json.dumps(body), headers=headers
        ).raise_for_status()
        return answer

    def get(self, **params: Any) -> dict[str, Any]:
        contents: dict[str, Any] = self.lab.client.get(self.url, params=params).raise_for_status().json()
        return contents

    def cells(self) -> dict[str, dict[str, Any]]:
        return {cell["id"]: cell for cell in self.get(type="notebook")["content"]["cells"]}

    def on_disk(self) -> dict[str, dict[str, Any]]:
        return {cell["id"]: cell for cell in self.valid().cells}

    def valid(self) -> nbformat.NotebookNode:
        notebook: nbformat.NotebookNode = nbformat.read(self.path, 4)  # type: ignore[no-untyped-call]
        return notebook

    def runtime(self, started_at: float | None = None, lab: str = "elsewhere") -> JournalMaker:
        """A runtime of another lab: the autosave of this one leaves it alone."""
        return JournalMaker(self.lab.home, self.path, lab, started_at)


def text_of(cell: dict[str, Any]) -> str:
    return "".join(output.get("text", "") for output in cell["outputs"])


def test_an_opened_notebook_contains_the_outputs_of_its_runtime(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n", 7)
    runtime.end_runtime()
    cells = nb.cells()
    assert text_of(cells["a"]) == "one\n"
    assert cells["a"]["execution_count"] == 7
    assert cells["a"]["metadata"]["execution"]["iopub.status.busy"] == "2026-01-02T03:04:05Z"
    assert cells["b"]["outputs"] == []
    assert text_of(nb.on_disk()["a"]) == ""  # reading writes nothing
    assert runtime.saved_position() == 0


def test_an_interrupted_cell_is_marked(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.begin(request := runtime.request("a"))
    runtime.print(request, "half\n")
    cell = nb.cells()["a"]
    assert text_of(cell) == "half\n"
    assert cell["outputs"][-1]["ename"] == "KernelDied"


def test_only_a_running_runtime_has_a_position(nb: Notebook) -> None:
    nb.runtime().run_cell("a", "one\n")
    assert "X-Ownlab-Position" not in nb.lab.get(f"/api/contents/{nb.name}?type=notebook").headers


def test_saving_adds_outputs_that_the_page_has_not_seen(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    seen = runtime.position
    runtime.run_cell("b", "two\n", 2)
    runtime.end_runtime()
    page = notebook_of("a", "b")  # the user cleared the outputs of "a"; the page has not received those of "b"
    page["cells"][0]["source"] = "edited"
    nb.put(page, f"{runtime.runtime}/{seen}")
    saved = nb.on_disk()
    assert (text_of(saved["a"]), text_of(saved["b"])) == ("", "two\n")
    assert saved["a"]["source"] == "edited"
    assert runtime.saved_position() == runtime.position
    nbformat.validate(nb.valid())


def test_cleared_outputs_stay_cleared_after_saving(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    runtime.end_runtime()
    nb.put(notebook_of("a", "b"), f"{runtime.runtime}/{runtime.position}")
    assert text_of(nb.cells()["a"]) == ""
    nb.put(notebook_of("a", "b"))  # from a client without positions
    assert text_of(nb.cells()["a"]) == ""


@pytest.mark.parametrize("header", ["nonsense", "a/b", "../../x/1", "r/-1", "r/99999999999999999999999"])
def test_an_invalid_header_is_ignored(nb: Notebook, header: str) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    nb.put(notebook_of("a", "b"), header)
    assert text_of(nb.on_disk()["a"]) == "one\n"


def test_the_newest_of_several_runtimes_counts(nb: Notebook) -> None:
    old, new = nb.runtime(LONG_AGO), nb.runtime(LONG_AGO + 1)
    old.run_cell("a", "old\n")
    old.run_cell("b", "only here\n", 2)
    old.end_runtime()
    new.run_cell("a", "new\n", 1)
    new.end_runtime()
    cells = nb.cells()
    assert (text_of(cells["a"]), text_of(cells["b"])) == ("new\n", "only here\n")
    # A page has seen everything of the new runtime and cleared it: the output of the old one must not come back.
    nb.put(notebook_of("a", "b"), f"{new.runtime}/{new.position}")
    saved = nb.on_disk()
    assert (text_of(saved["a"]), text_of(saved["b"])) == ("", "only here\n")
    assert (old.saved_position(), new.saved_position()) == (old.position, new.position)


def test_packages_of_several_runtimes_are_recorded_in_order(nb: Notebook) -> None:
    old, new = nb.runtime(LONG_AGO), nb.runtime(LONG_AGO + 1)
    old.send(old.request("a"), "ownlab_packages", pip={"one": "one==1", "two": "two==1"}, apt={})
    old.end_runtime()
    new.send(new.request("a"), "ownlab_packages", pip={"one": "one==2"}, apt={"ffmpeg": "ffmpeg"})
    new.end_runtime()
    both = {"packages": {"pip": ["one==2", "two==1"], "apt": ["ffmpeg"]}}
    assert nb.get(type="notebook")["content"]["metadata"]["ownlab"] == both
    # A page knew the packages of the new runtime, and its user removed them: only those that it did not know are added.
    nb.put(notebook_of("a", "b"), f"{new.runtime}/{new.position}")
    assert nb.valid().metadata["ownlab"] == {"packages": {"pip": ["one==1", "two==1"]}}
    nb.put(notebook_of("a", "b"))
    assert "ownlab" not in nb.valid().metadata


def test_a_package_removed_from_the_list_does_not_come_back(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.send(runtime.request("a"), "ownlab_packages", pip={"struck": "struck==1"}, apt={})
    nb.put(notebook_of("a", "b"), f"{runtime.runtime}/{runtime.position}")
    runtime.send(runtime.request("b"), "ownlab_packages", pip={"other": "other==1"}, apt={})
    assert nb.get(type="notebook")["content"]["metadata"]["ownlab"] == {"packages": {"pip": ["other==1"]}}


def test_outputs_of_deleted_cells_are_dropped(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("gone", "one\n")
    nb.put(notebook_of("b"), f"{runtime.runtime}/0")
    assert list(nb.on_disk()) == ["b"]


def test_old_formats_get_stable_cell_ids(nb: Notebook) -> None:
    nb.path.write_text(json.dumps(notebook_of("a", "b", minor=2)))
    first, second = nb.get(type="notebook")["content"], nb.get(type="notebook")["content"]
    assert first == second
    assert first["nbformat_minor"] == 5
    ids = [cell["id"] for cell in first["cells"]]
    assert len(set(ids)) == 2
    runtime = nb.runtime()
    runtime.run_cell(ids[0], "found\n")
    assert text_of(nb.cells()[ids[0]]) == "found\n"


def test_missing_and_duplicate_ids_are_fixed_deterministically(nb: Notebook) -> None:
    content = notebook_of("same", "same", "other")
    del content["cells"][2]["id"]
    nb.path.write_text(json.dumps(content))
    ids = list(nb.cells())
    assert len(ids) == 3
    assert ids == list(nb.cells())


def test_rich_outputs_of_code_that_ran_here_are_trusted(nb: Notebook) -> None:
    foreign = notebook_of("a", "b")
    html = {"output_type": "display_data", "metadata": {}, "data": {"text/html": "<b>bold</b>"}}
    foreign["cells"][1]["outputs"] = [html]
    nb.path.write_text(json.dumps(foreign))  # as received from somebody else
    runtime = nb.runtime()
    runtime.send(runtime.request("a"), "display_data", data={"text/html": "<i>ours</i>"}, metadata={})
    cells = nb.cells()
    assert cells["a"]["metadata"]["trusted"] is True
    assert cells["b"]["metadata"]["trusted"] is False


def test_a_save_signs_what_was_merged(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.send(runtime.request("a"), "display_data", data={"image/png": PIXEL, "text/html": "<i>x</i>"}, metadata={})
    nb.put(notebook_of("a", "b"), f"{runtime.runtime}/0")
    cells = nb.cells()
    assert cells["a"]["outputs"][0]["data"]["image/png"] == PIXEL
    assert all(cell["metadata"]["trusted"] for cell in cells.values())


def test_a_rename_moves_the_journal_immediately(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    (nb.lab.folder / f"to-{nb.path.stem}").mkdir()
    moved = f"to-{nb.path.stem}/new.ipynb"
    nb.lab.client.patch(nb.url, json={"path": moved}).raise_for_status()
    nb.name = moved
    assert text_of(nb.cells()["a"]) == "one\n"
    renamed = f"then-{nb.path.stem}"
    nb.lab.client.patch(f"{nb.lab.url}/api/contents/to-{nb.path.stem}", json={"path": renamed}).raise_for_status()
    nb.name = f"{renamed}/new.ipynb"
    assert text_of(nb.cells()["a"]) == "one\n"


def test_a_new_notebook_of_the_same_name_inherits_no_journal(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    nb.lab.client.delete(nb.url).raise_for_status()
    nb.put(notebook_of("a", "b"))
    assert text_of(nb.cells()["a"]) == ""


def test_a_copy_has_the_outputs_but_a_restored_checkpoint_does_not(nb: Notebook) -> None:
    nb.lab.post(f"/api/contents/{nb.name}/checkpoints")
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    copy = nb.lab.post("/api/contents", {"copy_from": nb.name}).json()["name"]
    saved = json.loads((nb.lab.folder / copy).read_text())
    assert saved["cells"][0]["outputs"][0]["text"] == ["one\n"]
    nb.lab.post(f"/api/contents/{nb.name}/checkpoints/checkpoint")
    assert text_of(nb.cells()["a"]) == ""


def test_a_symbolic_link_is_the_same_notebook(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    link = nb.path.with_name(f"link-{nb.name}")
    link.symlink_to(nb.path)
    nb.name = link.name
    assert text_of(nb.cells()["a"]) == "one\n"


def test_values_that_json_cannot_represent(nb: Notebook) -> None:
    content = notebook_of("a", "b")
    content["metadata"]["x"] = float("nan")
    content["cells"][0]["source"] = "half \ud83d of a character"
    nb.path.write_text(json.dumps(content))
    source = nb.cells()["a"]["source"]
    assert source == "half \ufffd of a character"
    runtime = nb.runtime()
    runtime.run_cell("a", "\ud83d\n", code=source)
    nb.cells()
    nb.put(content | {"metadata": {}})
    assert text_of(nb.on_disk()["a"]) == "\ufffd\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"cells": [', "ends in the middle, in line 1"),
        ('{"cells": [\n{"source": "half of a te', "ends in the middle, in line 2"),
        ('{"cells": [],\n"nbformat" 4}', "line 2, column 12"),
        ('{\n<<<<<<< HEAD\n "cells": 1\n=======\n}\n>>>>>>> other\n', "merge conflict of git, the first in line 2"),
        ('{"a": 1}', "JSON of another kind"),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 3}', "its cells are not a list"),
        ("\udcff\udcfe", "not text in UTF-8"),
        ("\n<!DOCTYPE html>\n<html><body>n.ipynb</body></html>", "is a web page, not a notebook"),
    ],
)
def test_a_damaged_file_is_reported_and_not_changed(nb: Notebook, content: str, reason: str) -> None:
    nb.path.write_bytes(content.encode("utf-8", "surrogateescape"))
    before = nb.path.read_bytes()
    answer = nb.lab.client.get(nb.url, params={"type": "notebook"})
    assert answer.status_code == 422
    assert nb.path.name in answer.json()["message"]
    assert reason in answer.json()["message"]
    assert nb.path.read_bytes() == before


def test_an_empty_file_is_a_new_notebook_and_written_when_it_is_edited(nb: Notebook) -> None:
    path = nb.path.with_name(f"empty-{nb.name}")
    path.touch()
    nb.name = path.name
    assert nb.cells() == {}
    assert path.read_bytes() == b"", "opening writes nothing"
    nb.put(notebook_of("only"))
    assert [cell["id"] for cell in json.loads(path.read_text())["cells"]] == ["only"]
    path.write_bytes(b"")
    answer = nb.lab.client.get(nb.url, params={"type": "notebook"})
    assert answer.status_code == 200, "never edited here: nothing is known of what it had"


def test_an_interrupted_write_is_repaired(nb: Notebook) -> None:
    whole = nb.path.read_text()
    nb.path.with_name(f".~{nb.name}").write_text(whole)
    nb.path.write_text(whole[:50])
    assert list(nb.cells()) == ["a", "b"]


def test_a_file_is_replaced_atomically_and_keeps_its_attributes(nb: Notebook) -> None:
    os.chmod(nb.path, 0o604)
    before = nb.path.stat()
    link = nb.path.with_name(f"link-{nb.name}")
    link.symlink_to(nb.path.name)
    nb.name = link.name
    nb.put(notebook_of("a"))
    after = nb.path.stat()
    assert after.st_ino != before.st_ino, "who reads it meanwhile has the old one, whole"
    assert stat.S_IMODE(after.st_mode) == 0o604
    assert link.is_symlink()
    other = nb.path.with_name(f"other-{nb.path.name}")
    os.link(nb.path, other)
    nb.put(notebook_of("a", "b", "c"))
    assert other.samefile(nb.path), "a file with two names keeps both"
    assert list(nb.on_disk()) == ["a", "b", "c"]
    assert not [name for name in os.listdir(nb.lab.folder) if name.startswith(".~")]


def test_large_files_and_other_types_are_left_to_jupyter(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    half = json.dumps(notebook_of("a", "b"))
    for chunk, piece in ((1, half[:40]), (-1, half[40:])):
        body = {"type": "file", "format": "text", "content": piece, "chunk": chunk}
        nb.lab.client.put(nb.url, json=body).raise_for_status()
    assert nb.path.read_text() == half
    assert nb.get(type="file")["content"] == half
    assert runtime.saved_position() == 0
    assert nb.get(type="notebook", content=0)["content"] is None


def test_an_invalid_notebook_is_refused(nb: Notebook) -> None:
    bodies: list[object] = [None, [], {"cells": 3}]
    for content in bodies:
        answer = nb.lab.client.put(nb.url, json={"type": "notebook", "content": content})
        assert answer.status_code in (400, 500), content


def test_an_unreadable_journal_does_not_prevent_opening_the_notebook(nb: Notebook) -> None:
    runtime = nb.runtime()
    runtime.run_cell("a", "one\n")
    (log,) = runtime.folder.glob("*.log")
    log.rename(runtime.folder / "aside")
    log.mkdir()
    assert text_of(nb.cells()["a"]) == ""
    nb.put(notebook_of("a", "b"))
    assert runtime.saved_position() == 0
    log.rmdir()
    (runtime.folder / "aside").rename(log)
    assert text_of(nb.cells()["a"]) == "one\n"


def test_the_files_of_a_lab_are_readable_by_its_owner_only(nb: Notebook) -> None:
    made = JournalMaker(nb.lab.home, nb.path, lab_id(str(nb.lab.folder)))
    made.run_cell("a", "one\n")
    nb.put(notebook_of("a", "b"))
    for path in (made.folder, *made.folder.iterdir()):
        assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("path", ["..%2F..%2Fetc%2Fpasswd", "%2e%2e/x.ipynb"])
def test_nothing_outside_the_folder_is_served(nb: Notebook, path: str) -> None:
    assert nb.lab.client.get(f"{nb.lab.url}/api/contents/{path}").status_code in (400, 404)
