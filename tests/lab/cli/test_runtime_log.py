"""`ownlab runtimes log`: the output of notebooks, from journals without a server, and from a running runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from tests.lab.server.journal_maker import PIXEL, JournalMaker, notebook_of
from tests.lab.server.stream_page import StreamPage

from ownlab.lab.notebooks.edits.base import read_base
from ownlab.lab.notebooks.edits.edit_log import EditLog
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.edits.records import CellPatch, Patch, SourcePatch
from ownlab.lab.notebooks.history.recorder import version_store
from ownlab.lab.notebooks.identity import identity_folder, make_identity

if TYPE_CHECKING:
    from tests.command_line import World

Valid = Callable[[str, str], Any]


@pytest.fixture
def journal(world: World) -> JournalMaker:
    """A runtime of work/train.ipynb that has ended."""
    notebook = world.folder / "train.ipynb"
    notebook.write_text(json.dumps(notebook_of("first", "second")))
    runtime = JournalMaker(world.root / "home", notebook)
    request = runtime.request("first", "for epoch in range(2):\n    train()")
    runtime.begin(request)
    runtime.print(request, "epoch 1\nepoch")
    runtime.print(request, " 2\n  0%\r100%\n")
    runtime.send(request, "display_data", data={"image/png": PIXEL, "text/plain": "<Figure>"}, metadata={})
    runtime.send(request, "execute_result", data={"text/plain": "42"}, metadata={}, execution_count=3)
    runtime.end(request, 3)
    request = runtime.request("second", "1 / 0")
    runtime.begin(request)
    trace = ["\x1b[31mZeroDivisionError\x1b[0m", "division by zero \x07"]
    runtime.send(request, "error", ename="ZeroDivisionError", evalue="division by zero", traceback=trace)
    runtime.end(request, 4)
    runtime.end_runtime()
    return runtime


SHOWN = """\
── [3] for epoch in range(2): (cell first)
epoch 1
epoch 2
100%
[image/png, 72 B]
42
── [4] 1 / 0 (cell second)
ZeroDivisionError
division by zero \ufffd
"""


def damage(journal: JournalMaker, text: bytes) -> None:
    """Change one byte on disk."""
    [path] = journal.folder.glob("*.log")
    data = bytearray(path.read_bytes())
    data[data.index(text)] ^= 1
    path.write_bytes(data)


def test_damage_is_reported_where_it_is(world: World, journal: JournalMaker) -> None:
    damage(journal, b"epoch 1")
    printed = world.run("runtimes", "log", "train").stdout
    assert "[ownlab: Part of this output was damaged on disk and could not be read (" in printed
    assert "100%\n" in printed
    assert printed.endswith(SHOWN[SHOWN.index("42") :])


def test_a_truncated_journal_says_so(world: World, journal: JournalMaker) -> None:
    [path] = journal.folder.glob("*.log")
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"<Figure>")])
    printed = world.run("runtimes", "log", "train").stdout
    assert "epoch 1\nepoch 2\n100%\n[ownlab: Part of this output was damaged on disk and could not be read (" in printed


def test_the_output_of_the_notebook_is_printed(world: World, journal: JournalMaker) -> None:
    for name in (journal.runtime, journal.runtime[:6], "train", "train.ipynb", "work/train.ipynb"):
        ran = world.run("runtimes", "log", name)
        assert (ran.stdout, ran.stderr) == (SHOWN, ""), name


def test_the_output_of_one_cell(world: World, journal: JournalMaker) -> None:
    assert world.run("runtimes", "log", "train", "--cell", "second").stdout.startswith("ZeroDivisionError\n")


def test_json_output(world: World, journal: JournalMaker, valid: Valid) -> None:
    document = valid(world.run("runtimes", "log", "train", "--json").stdout, "runtimes-log")
    assert document["runtime"] == journal.runtime
    assert document["ended"] == "it was stopped"
    assert [cell["execution_count"] for cell in document["cells"]] == [3, 4]
    assert document["cells"][0]["outputs"][1]["data"]["image/png"] == PIXEL


def test_notebook_output(world: World, journal: JournalMaker) -> None:
    target = world.root / "out.ipynb"
    assert world.run("runtimes", "log", "train", "--notebook", str(target)).stdout == f"Written to {target}.\n"
    written = read(target)
    nbformat.validate(written)
    assert [cell.id for cell in written.cells] == ["first", "second"]
    assert written.cells[0].execution_count == 3
    assert json.loads((world.folder / "train.ipynb").read_text())["cells"][0]["outputs"] == [], "that stays as it is"
    target.write_text("mine")
    refused = world.run("runtimes", "log", "train", "--notebook", str(target))
    assert (refused.returncode, target.read_text()) == (2, "mine")
    assert "--force" in refused.stderr
    assert world.run("runtimes", "log", "train", "--notebook", str(target), "--force").returncode == 0
    assert len(read(target).cells) == 2
    nowhere = world.run("runtimes", "log", "train", "--notebook", "no/such/folder/x.ipynb")
    assert (nowhere.returncode, "Traceback" in nowhere.stderr) == (3, False)


def test_outputs_are_written_with_the_code_that_ran(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page was killed, and the server too, before the file had what was typed."""
    monkeypatch.setenv("OWNLAB_HOME", world.env["OWNLAB_HOME"])
    home, target = world.root / "home", world.root / "out.ipynb"
    for name, typed in (("ran.ipynb", None), ("typed.ipynb", "lr = 0.01"), ("ran-typed.ipynb", "lr = 0.001")):
        path = world.folder / name
        cell: dict[str, Any] = {
            "cell_type": "code",
            "id": "a",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": "lr = 0.1",
        }
        path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        if typed is not None:
            log = EditLog(
                identity_folder(make_identity(str(path)).id) / "edits" / "lab.log",
                EditedNotebook.from_base(read_base(json.loads(path.read_text()), None)),
            )
            log.write_snapshot()
            log.apply(Patch(name, "page", 1, 1, cells=(CellPatch("a", "code", SourcePatch(typed, "lr = 0.1")),)))
        if name != "typed.ipynb":
            runtime = JournalMaker(home, path)
            runtime.run_cell("a", "lr 0.001\n", code="lr = 0.001")
            runtime.end_runtime()
            written = world.run("runtimes", "log", name.removesuffix(".ipynb"), "--notebook", str(target), "--force")
            assert written.returncode == 0, written.stderr
            [shown] = read(target).cells
            assert (shown.source, shown.outputs[0].text) == ("lr = 0.001", "lr 0.001\n")
        saved = world.run("history", f"work/{name}", "--save", "now")
        assert saved.returncode == 0, saved.stderr
        store = version_store(make_identity(str(path)).id)
        [version] = [each for each in store.versions() if each.name == "now"]
        [kept] = store.load(version)["cells"]
        assert "".join(kept["source"]) == ("lr = 0.01" if name == "typed.ipynb" else "lr = 0.001")
        assert "".join(json.loads(path.read_text())["cells"][0]["source"]) == "lr = 0.1", "the file stays as it is"


def test_the_executed_cells_of_a_deleted_notebook_are_written(world: World, journal: JournalMaker) -> None:
    (world.folder / "train.ipynb").unlink()
    target = world.root / "out.ipynb"
    world.run("runtimes", "log", "train", "--notebook", str(target))
    written = read(target)
    nbformat.validate(written)
    assert [cell.source for cell in written.cells] == ["for epoch in range(2):\n    train()", "1 / 0"]


def test_unknown_and_ambiguous_names_are_refused(world: World, journal: JournalMaker) -> None:
    unknown = world.run("runtimes", "log", "nothing")
    assert (unknown.returncode, "no journal" in unknown.stderr) == (3, True)
    (world.folder / "deep").mkdir()
    JournalMaker(world.root / "home", world.folder / "deep" / "train.ipynb").end_runtime()
    ambiguous = world.run("runtimes", "log", "train")
    assert ambiguous.returncode == 3
    assert "matches several runtimes" in ambiguous.stderr
    newer = JournalMaker(world.root / "home", world.folder / "deep" / "train.ipynb")
    newer.run_cell("x", "the newest\n")
    newer.end_runtime()
    assert "the newest" in world.run("runtimes", "log", "deep/train").stdout, "of one notebook the newest runtime"
    assert world.run("runtimes", "log", "train", "--follow", "--json").returncode == 2


def test_a_closed_pipe_is_not_an_error(world: World, journal: JournalMaker) -> None:
    line = f"{sys.executable} -m ownlab runtimes log train | head -n 1"
    ran = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=world.env, cwd=world.root, check=False
    )
    assert (ran.stdout, ran.stderr) == (SHOWN.partition("\n")[0] + "\n", "")


def test_following_a_runtime_until_it_ends(running_lab: World) -> None:
    lab = running_lab.lab()
    notebook = running_lab.folder / "followed.ipynb"
    notebook.write_text(json.dumps(notebook_of("a", "b")))
    body = {"path": notebook.name, "type": "notebook", "name": notebook.name, "kernel": {"name": "ownlab-cpu"}}
    runtime = running_lab.ask("POST", "api/sessions", lab, body)["kernel"]["id"]
    page = StreamPage(f"ws://127.0.0.1:{lab['port']}/api/kernels/{runtime}/channels", lab["token"])
    page.until_idle(page.execute("print('before')", cell="a"))
    log = running_lab.start("runtimes", "log", runtime[:8], "--follow")
    assert log.stdout is not None
    assert [log.stdout.readline() for _ in range(2)] == ["── [1] print('before') (cell a)\n", "before\n"]
    page.execute("print('one', flush=True); input('? ')", cell="b", allow_stdin=True)
    page.until_kind("input_request")
    assert log.stdout.readline() == "── [*] print('one', flush=True); input('? ') (cell b)\n"
    assert log.stdout.readline() == "one\n"
    page.close()
    running_lab.run("runtimes", "stop", runtime, "--now")
    rest, trouble = log.communicate(timeout=300)
    assert (log.returncode, trouble) == (0, ""), rest


def read(path: Path) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    return notebook
