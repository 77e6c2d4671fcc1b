"""`ownlab history` as a process: without a lab, and with one that has the notebook open."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from ownlab.errors import LabError
from ownlab.lab.notebooks.edits.base import read_base
from ownlab.lab.notebooks.edits.edit_log import EditLog
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.edits.records import CellPatch, Patch, SourcePatch
from ownlab.lab.notebooks.files import read_notebook
from ownlab.lab.notebooks.history import deleted
from ownlab.lab.notebooks.history.recorder import version_store
from ownlab.lab.notebooks.history.version_store import VersionStore
from ownlab.lab.notebooks.identity import all_identities, forget_identities, identity_folder, make_identity
from ownlab.lab.service import history as service_history

if TYPE_CHECKING:
    from tests.command_line import World

Valid = Callable[[str, str], Any]


def notebook(**sources: str) -> dict[str, Any]:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": name, "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for name, source in sources.items()
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


class History:
    """A notebook with three versions, and the command."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.path = world.folder / "train.ipynb"
        self.path.write_text(json.dumps(notebook(a="lr = 0.001\nsteps = 5", b="train()", d="plot()")))
        self.store: VersionStore = version_store(make_identity(str(self.path)).id)
        self.at = time.time() - 7200
        self.store.record(notebook(a="lr = 0.1\nsteps = 5", b="train()", c="save()"), "opened", at=self.at)
        self.store.record(notebook(a="lr = 0.01\nsteps = 5", b="train()"), "edited", at=self.at + 1200, name="works")
        self.store.record(read_notebook(str(self.path)), "edited", at=self.at + 2400)
        self.old, self.works, self.new = [each.id for each in self.store.versions()]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.world.run("history", *arguments)

    def done(self, *arguments: str) -> str:
        ran = self(*arguments)
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout

    def sources(self) -> dict[str, str]:
        return {cell["id"]: "".join(cell["source"]) for cell in json.loads(self.path.read_text())["cells"]}

    def reasons(self) -> list[str]:
        return [each.reason for each in self.store.versions()]

    def type_into_page(self, cell: str, base: str, text: str) -> None:
        """Leave an edit that no server has written to the file."""
        state = EditedNotebook.from_base(read_base(read_notebook(str(self.path)), None), version=1)
        log = EditLog(self.store.folder.parent / "edits" / "lab.log", state)
        log.write_snapshot()
        log.apply(Patch("train.ipynb", "page", 1, 1, cells=(CellPatch(cell, "code", SourcePatch(text, base)),)))


@pytest.fixture
def history(world: World, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("OWNLAB_HOME", world.env["OWNLAB_HOME"])
    monkeypatch.setenv("OWNLAB_CONFIG", world.env["OWNLAB_CONFIG"])
    return History(world)


def test_versions_are_listed_newest_first(history: History, valid: Valid) -> None:
    lines = history.done("work/train.ipynb").splitlines()
    assert [line.split()[0] for line in lines[:3]] == [history.new, history.works, history.old]
    assert lines[1].endswith("edited          works")
    assert "1 h 40 min ago  2 cells changed  edited" in lines[1]  # one of them was deleted
    assert "3 cells" in lines[2]
    assert "before editing" in lines[2]
    assert lines[-1].startswith("3 versions, ")
    document = valid(history.done("work/train.ipynb", "--json"), "history")
    assert document["notebook"] == str(history.path)
    assert [each["name"] for each in document["versions"]] == [None, "works", None]
    few = history.done("work/train.ipynb", "-n", "1").splitlines()
    assert (few[0].split()[0], len(few)) == (history.new, 3)
    assert few[-1].startswith("1 of 3 versions, ")


def test_a_diff_against_the_present_notebook_contains_what_pages_typed(history: History, valid: Valid) -> None:
    history.type_into_page("b", "train()", "train(fast=True)")
    lines = history.done("work/train.ipynb", "--diff", history.old).splitlines()
    assert lines[0].startswith(f"--- work/train.ipynb  {history.old}, ")
    assert lines[1] == "+++ work/train.ipynb  now"
    assert lines[3:] == [
        "Cell 1 (code) was edited", "@@ -1,2 +1,2 @@", "-lr = 0.1", "+lr = 0.001", " steps = 5", "",
        "Cell 2 (code) was edited", "@@ -1 +1 @@", "-train()", "+train(fast=True)", "",
        "Cell 3 (code) was added", "@@ -0,0 +1 @@", "+plot()", "",
        "Cell 3 (code) was removed", "@@ -1 +0,0 @@", "-save()", "",
    ]  # fmt: skip
    document = valid(history.done("work/train.ipynb", "--diff", history.old, "--json"), "history-diff")
    assert document["after"] is None
    assert [each["change"] for each in document["cells"]] == ["edited", "edited", "added", "removed"]


def test_a_diff_of_two_versions(history: History) -> None:
    shown = history.done("work/train.ipynb", "--diff", history.old, "--to", "works")
    assert "+lr = 0.01\n" in shown
    assert "plot" not in shown
    assert shown.endswith("1 cell is the same.\n")
    same = history.done("work/train.ipynb", "--diff", history.new)
    assert same.endswith("No cell differs.\n")


def test_a_changed_type_is_a_difference(history: History) -> None:
    changed = notebook(a="text")
    history.store.record(changed, "edited")
    changed["cells"][0]["cell_type"] = "markdown"
    history.path.write_text(json.dumps(changed))
    newest = history.store.versions()[-1].id
    assert "Cell 1 was code and is markdown\n" in history.done("work/train.ipynb", "--diff", newest)


def test_a_diff_is_coloured_in_a_terminal(history: History) -> None:
    shown = history.world.run("history", str(history.path), "--diff", history.old, env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[32m+lr = 0.001" in shown
    assert "\x1b[31m-lr = 0.1" in shown


def test_control_characters_do_not_reach_the_terminal(history: History) -> None:
    history.store.record(notebook(a="print('\x1b]0;title\x07')"), "edited")
    newest = history.store.versions()[-1].id
    for shown in (history.done(str(history.path), "--show", newest), history.done(str(history.path), "--diff", newest)):
        assert "title" in shown
        assert "\x1b" not in shown


def test_a_version_is_shown_and_written(history: History, valid: Valid) -> None:
    shown = history.done("work/train.ipynb", "--show", "works")
    assert "Cell 1, code\nlr = 0.01\nsteps = 5\n\nCell 2, code\ntrain()\n" in shown
    document = valid(history.done("work/train.ipynb", "--show", "works", "--json"), "history-version")
    assert document["notebook"]["cells"][0]["source"] == "lr = 0.01\nsteps = 5"
    target = history.world.root / "copy.ipynb"
    assert history.done("work/train.ipynb", "--show", "works", "-o", "copy.ipynb") == "Written to copy.ipynb.\n"
    assert "".join(read_notebook(str(target))["cells"][1]["source"]) == "train()"
    again = history("work/train.ipynb", "--show", "works", "-o", "copy.ipynb")
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert history("work/train.ipynb", "--show", "works", "-o", "no/copy.ipynb").returncode == 3


def test_restoring_without_a_lab_loses_nothing(history: History, valid: Valid) -> None:
    history.type_into_page("b", "train()", "typed, and not in the file yet")
    mode = history.path.stat().st_mode
    assert history.done("work/train.ipynb", "--restore", "works").startswith(f"Restored version {history.works} of ")
    assert history.sources() == {"a": "lr = 0.01\nsteps = 5", "b": "train()"}
    present = read_notebook(str(history.path))
    assert ["".join(cell["source"]) for cell in present["cells"]] == ["lr = 0.01\nsteps = 5", "train()"], (
        "nor does the edit come back"
    )
    assert history.reasons()[-2:] == ["before-restore", "restored"]
    assert history.store.versions()[-2].changed == 1
    before = history.store.load(history.store.versions()[-2])
    assert before["cells"][1]["source"] == "typed, and not in the file yet"
    assert history.path.stat().st_mode == mode
    undone = valid(history.done("work/train.ipynb", "--restore", history.store.versions()[-2].id, "--json"), "history")
    assert undone["versions"][0]["reason"] == "restored"
    assert history.sources()["b"] == "typed, and not in the file yet"


def test_restoring_a_file_that_another_program_removed(history: History) -> None:
    history.path.unlink()
    assert history("work/train.ipynb", "--diff", "works").returncode == 3
    history.done("work/train.ipynb", "--restore", "works")
    assert history.sources() == {"a": "lr = 0.01\nsteps = 5", "b": "train()"}


def test_names(history: History) -> None:
    assert "is now first" in history.done("work/train.ipynb", "--name", history.old, " first ")
    assert "first" in history.done("work/train.ipynb").splitlines()[2]
    history.done("work/train.ipynb", "--name", "first", "")
    assert history.store.find(history.old).name is None
    history.type_into_page("b", "train()", "typed")
    history.done("work/train.ipynb", "--save", "today")
    assert history.store.load(history.store.find("today"))["cells"][1]["source"] == "typed"
    for name in ("", " ", "x" * 201, "a\nb"):
        assert history("work/train.ipynb", "--save", name).returncode == 2


def test_removing_versions(history: History, valid: Valid) -> None:
    ran = history("work/train.ipynb", "--purge", "works")
    assert (ran.returncode, "--yes" in ran.stderr) == (2, True), "nobody can be asked"
    assert history.done("work/train.ipynb", "--purge", "works", "--yes") == f"Removed version {history.works}.\n"
    document = valid(history.done("work/train.ipynb", "--purge-all", "--yes", "--json"), "history")
    assert (document["versions"], document["bytes"]) == ([], 0)
    assert "There are no versions" in history.done("work/train.ipynb")
    assert history.sources()["b"] == "train()", "the notebook itself stays"


@pytest.mark.parametrize(("answer", "left"), [("n\n", 3), ("y\n", 0)])
def test_removing_asks_in_a_terminal(history: History, answer: str, left: int) -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ownlab", "history", str(history.path), "--purge-all"],
        stdin=child, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=history.world.env,
    )  # fmt: skip
    os.close(child)
    os.write(parent, answer.encode())
    _, asked = process.communicate(timeout=300)
    os.close(parent)
    assert b"Remove all 3 versions" in asked
    assert process.returncode == (0 if left == 0 else 130)
    assert len(history.store.versions()) == left


def test_a_notebook_without_versions(history: History) -> None:
    path = history.world.folder / "new.ipynb"
    path.write_text(json.dumps(notebook(a="1")))
    assert history.done("work/new.ipynb").startswith("There are no versions of work/new.ipynb.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["work/nowhere.ipynb"], 3, "There is no notebook work/nowhere.ipynb."),
        (["work/train.ipynb", "--diff", "nothing"], 3, "There is no version nothing."),
        (["work/train.ipynb", "--show", "2"], 3, "is the beginning of several versions"),
        (["work/train.ipynb", "--restore", ""], 3, "There is no version"),
        (["work/train.ipynb", "--diff", "works", "--show", "works"], 2, "cannot be combined"),
        (["work/train.ipynb", "--to", "works"], 2, "--to needs --diff"),
        (["work/train.ipynb", "-o", "x"], 2, "--output needs --show"),
        (["work/train.ipynb", "--deleted"], 2, "--deleted takes no notebook"),
        (["--deleted", "--restore", "nothing.ipynb"], 3, "No deleted notebook nothing.ipynb"),
        ([], 2, "Name a notebook."),
        (["config.toml"], 3, "config.toml"),
    ],
)
def test_wrong_usage(history: History, arguments: list[str], code: int, said: str) -> None:
    (history.world.root / "config.toml").write_text("")
    ran = history(*arguments)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_damaged_version_is_reported(history: History) -> None:
    for blob in (history.store.folder / "blobs").iterdir():
        blob.write_bytes(b"damaged")
    ran = history("work/train.ipynb", "--restore", "works")
    assert (ran.returncode, "missing or damaged" in ran.stderr) == (3, True)
    assert history.sources()["b"] == "train()"


def test_versions_are_completed_by_the_shell(history: History) -> None:
    def complete(words: str, count: int) -> str:
        env = {"_OWNLAB_COMPLETE": "zsh_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
        return history.world.run(env=env).stdout

    shown = complete(f"ownlab history {history.path} --diff ", 4)
    assert history.old in shown
    assert "before editing" in shown
    assert "works" in complete(f"ownlab history {history.path} --diff wo", 4)
    assert complete("ownlab history nowhere --diff ", 4).strip() == ""


def test_deleted_notebooks(history: History, valid: Valid) -> None:
    assert history.done("--deleted") == "No deleted notebook can be restored.\n"
    history.path.unlink()
    forget_identities(str(history.path))
    ran = history("work/train.ipynb")
    assert (ran.returncode, "--deleted --restore work/train.ipynb" in ran.stderr) == (3, True)
    identity = history.store.folder.parent.name
    assert f"{identity[:8]}  " in history.done("--deleted")
    assert str(history.path) in history.done("--deleted")
    (listed,) = valid(history.done("--deleted", "--json"), "history-deleted")["notebooks"]
    assert (listed["id"], listed["path"]) == (identity, str(history.path))
    history.path.write_text(json.dumps(notebook(z="another")))
    restored = valid(history.done("--deleted", "--restore", "train.ipynb", "--json"), "history-restored")
    assert restored["notebook"] == str(history.path.with_name("train-restored.ipynb"))
    assert history.sources() == {"z": "another"}
    assert "works" in history.done(restored["notebook"]), "its history comes back, too"


def test_a_deleted_notebook_is_removed_for_good(history: History) -> None:
    history.path.unlink()
    forget_identities(str(history.path))
    identity = history.store.folder.parent.name
    assert history("--deleted", "--purge", identity[:8]).returncode == 2
    history.done("--deleted", "--purge", identity[:8], "--yes")
    assert not identity_folder(identity).exists()


def test_deleted_notebooks_are_removed_with_time(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_identities(str(history.path))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 91 * 86400)
    assert deleted.remove_expired() == [], "it has a named version"
    history.store.rename(history.store.find("works"), None)
    assert deleted.remove_expired() == [str(history.path)]
    assert list(all_identities()) == []


def test_a_version_is_restored_through_a_lab_that_has_the_notebook_open(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = history.world
    assert world.run("up", "work", "--detach").returncode == 0
    lab = world.lab()
    changes = world.ask("GET", f"ownlab/api/notebooks/edits?notebook={quote('train.ipynb')}&version=0", lab)
    patch = {"id": "b", "type": "code", "source": {"base": "train()", "text": "typed in the page"}}
    request = {"notebook": "train.ipynb", "page": "p", "number": 1, "version": changes["version"], "cells": [patch]}
    version = world.ask("POST", "ownlab/api/notebooks/edits", lab, request)["version"]
    assert "+typed in the page" in history.done("work/train.ipynb", "--diff", history.new)

    history.done("work/train.ipynb", "--restore", "works")
    got = world.ask("GET", f"ownlab/api/notebooks/edits?notebook=train.ipynb&version={version}", lab)
    assert {cell["id"]: cell["source"] for cell in got["cells"]} == {"a": "lr = 0.01\nsteps = 5", "b": "train()"}
    assert got["deleted"] == ["d"]
    assert history.sources() == {"a": "lr = 0.01\nsteps = 5", "b": "train()"}
    assert history.reasons()[-2:] == ["before-restore", "restored"]
    assert history.store.load(history.store.versions()[-2])["cells"][1]["source"] == "typed in the page"

    monkeypatch.setattr(service_history, "_RESTORE_SECONDS", 1.0)
    os.kill(lab["pid"], signal.SIGSTOP)
    try:
        with pytest.raises(LabError, match="does not answer"):
            service_history.restore_version(str(history.path), history.store, history.store.find(history.old))
    finally:
        os.kill(lab["pid"], signal.SIGCONT)
    assert history.sources() == {"a": "lr = 0.01\nsteps = 5", "b": "train()"}
