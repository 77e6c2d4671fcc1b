"""What the page says of notebooks that cannot be saved or opened now, and how it recovers: moved, read-only, no server, damaged, empty."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect
from tests_browser.lab import CPU, Lab, wait_for
from tests_browser.notebook import LabPage, Notebook
from tests_browser.test_edits import in_file, sources, unsaved

SHOTS = os.environ.get("OWNLAB_SHOTS", "")


def status(notebook: Notebook) -> Locator:
    return notebook.panel.locator(".ownlab-Saved-status")


def shot(page: LabPage, name: str) -> None:
    if SHOTS:
        page.page.screenshot(path=Path(SHOTS) / f"{name}.png")


def type_at_end(page: LabPage, notebook: Notebook, text: str) -> None:
    """Type into the first cell. While the notebook is still being opened, it may take the focus back."""
    editor = notebook.cell(0).locator(".cm-content")
    expect(editor).to_have_text(re.compile(r"\S"))  # its text is drawn a moment after the editor
    before = editor.inner_text()

    def is_typed() -> bool:
        if editor.inner_text() == before:
            editor.click()
            if editor.evaluate("element => element.contains(document.activeElement)"):
                page.page.keyboard.press("ControlOrMeta+End")
                page.page.keyboard.type(text)
        return editor.inner_text() == before + text

    wait_for(is_typed, f"the cell has {text!r} at its end, after {before!r}")


def rename(lab: Lab, old: str, new: str) -> None:
    """Rename a file or folder as another client does."""
    lab.client.patch(f"{lab.url}api/contents/{old}", json={"path": new}).raise_for_status()


@pytest.mark.parametrize("of", ["notebook", "folder"])
def test_a_notebook_that_another_client_moves(page: LabPage, lab: Lab, of: str) -> None:
    (lab.folder / f"{of}-before").mkdir()
    (lab.folder / f"{of}-other").mkdir()
    name = lab.write(f"{of}-before/moved.ipynb", CPU, "a = 1")
    notebook = page.notebook(name).ready()
    kernel = lab.kernel_of(name)
    new = f"{of}-after/moved.ipynb" if of == "folder" else f"{of}-other/renamed.ipynb"
    rename(lab, name if of == "notebook" else f"{of}-before", new if of == "notebook" else f"{of}-after")
    type_at_end(page, notebook, "1")
    wait_for(lambda: (lab.folder / new).exists() and in_file(lab, new) == ["a = 11"], "the edit is in the moved file")
    wait_for(lambda: not unsaved(page.page), "the page knows that it is saved")
    expect(status(notebook)).to_contain_text("Saved")
    tab = page.page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current")
    expect(tab).to_contain_text(Path(new).name)
    assert not (lab.folder / name).exists(), "no second copy at the old place"
    assert lab.kernel_of(new) == kernel
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")


def test_a_notebook_that_another_client_deletes_while_it_is_edited(page: LabPage, lab: Lab) -> None:
    name = lab.write("deleted.ipynb", CPU, "a = 1")
    notebook = page.notebook(name)
    expect(notebook.connect_button).to_be_visible()  # everything is loaded
    lab.client.delete(f"{lab.url}api/contents/{name}").raise_for_status()
    type_at_end(page, notebook, "1")
    expect(status(notebook)).to_have_text("Not saved")
    expect(page.notification.filter(has_text="This page keeps your edits")).to_have_count(1)
    shot(page, "deleted-elsewhere")
    page.page.keyboard.press("ControlOrMeta+s")
    wait_for(lambda: (lab.folder / name).exists() and in_file(lab, name) == ["a = 11"], "it is there again")
    expect(status(notebook)).to_contain_text("Saved")
    type_at_end(page, notebook, "2")
    wait_for(lambda: sources(lab, name) == ["a = 112"], "edits are saved as they are typed again")


@pytest.mark.kills_server
def test_nothing_is_being_saved_while_the_server_is_away(page: LabPage, lab: Lab) -> None:
    name = lab.write("away.ipynb", CPU, "a = 1")
    notebook = page.notebook(name)
    expect(status(notebook)).to_contain_text("Saved")
    assert lab.ownlab("down", str(lab.folder)).returncode == 0
    type_at_end(page, notebook, "1")
    expect(status(notebook)).to_have_text("Not saved: the server does not answer")
    assert "kept in this page" in (status(notebook).get_attribute("title") or "")
    shot(page, "server-away")
    lab.up()
    wait_for(lambda: sources(lab, name) == ["a = 11"], "the server has the edit")
    expect(status(notebook)).to_contain_text("Saved")


def test_a_server_that_hangs_is_not_said_to_save(page: LabPage, lab: Lab) -> None:
    name = lab.write("hangs.ipynb", CPU, "a = 1")
    notebook = page.notebook(name)
    expect(notebook.panel.locator(".jp-Spinner:visible")).to_have_count(0)  # the notebook is open
    server = lab.server_pid
    os.kill(server, signal.SIGSTOP)
    try:
        type_at_end(page, notebook, "1")
        expect(status(notebook)).to_contain_text("Not saved")
    finally:
        os.kill(server, signal.SIGCONT)
    wait_for(lambda: sources(lab, name) == ["a = 11"], "the server has the edit")
    expect(status(notebook)).to_contain_text("Saved")


def test_a_read_only_notebook_says_that_it_is_not_saved(page: LabPage, lab: Lab) -> None:
    folder = lab.folder / "locked"
    folder.mkdir()
    name = lab.write("locked/locked.ipynb", CPU, "a = 1")
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], check=False).returncode:
        pytest.skip("a disk can be mounted by root only")
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
    try:
        notebook = page.notebook(name)
        type_at_end(page, notebook, "1")
        expect(status(notebook)).to_have_text("Not saved")
        assert "read-only" in (status(notebook).get_attribute("title") or "")
        shot(page, "read-only-status")
        subprocess.run(["mount", "-o", "remount,bind,rw", str(folder)], check=True)
        wait_for(lambda: in_file(lab, name) == ["a = 11"], "it is saved as soon as it can be")
        expect(status(notebook)).to_contain_text("Saved")
    finally:
        page.page.close()
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_damaged_notebook_is_explained_and_restored(page: LabPage, lab: Lab) -> None:
    name = lab.write("damaged.ipynb", CPU, "a = 1")
    path = lab.folder / name
    notebook = page.notebook(name)
    type_at_end(page, notebook, "1")
    wait_for(lambda: in_file(lab, name) == ["a = 11"], "the edit is in the file and the history")
    page.open()
    damage = path.read_text().replace('"cells"', '\n<<<<<<< HEAD\n"cells"', 1)
    path.write_text(damage)

    page.page.goto(lab.page(f"lab/tree/{name}"))
    expect(page.dialog).to_contain_text("damaged.ipynb cannot be opened as a notebook")
    expect(page.dialog).to_contain_text("merge conflict of git")
    shot(page, "damaged")
    page.answer("Open as text")
    expect(page.page.locator(".jp-FileEditor:visible .cm-content")).to_contain_text("<<<<<<< HEAD")
    expect(page.page.locator(".jp-NotebookPanel")).to_have_count(0)
    assert path.read_text() == damage, "opening changes nothing"

    page.page.goto(lab.page(f"lab/tree/{name}"))
    page.answer("Earlier versions")
    history = page.page.locator(".ownlab-History:visible")
    history.get_by_text("Edited").click()
    expect(history).to_contain_text("a = 11")
    shot(page, "damaged-history")
    history.get_by_role("button", name="Restore", exact=True).click()
    wait_for(lambda: path.read_text() != damage and in_file(lab, name) == ["a = 11"], "the version is in the file")
    assert path.with_name("damaged.ipynb.damaged").read_text() == damage, "the damaged file is kept"
    notebook = page.notebook(name)
    expect(notebook.cell(0)).to_contain_text("a = 11")


def test_an_empty_file_is_a_new_notebook(page: LabPage, lab: Lab) -> None:
    path = lab.folder / "empty.ipynb"
    path.touch()
    notebook = page.notebook(path.name)
    expect(notebook.cell(0)).to_be_visible()
    expect(page.dialog).to_have_count(0)
    page.page.wait_for_timeout(3_000)  # longer than until edits would be written
    assert path.read_bytes() == b"", "opening writes nothing"
    notebook.write(0, "print('first', 'words')")
    wait_for(
        lambda: path.stat().st_size > 0 and in_file(lab, path.name) == ["print('first', 'words')"], "it is written"
    )
    notebook.connect()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("first words")
    wait_for(lambda: "first words" in path.read_text(), "the file has the output")
    assert json.loads(path.read_text())["metadata"]["kernelspec"]["name"]
