"""Editing under conditions that people meet: read-only files, a full disk, renaming, two views, cells dragged between notebooks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Request, expect
from tests_browser.conftest import _PageLog
from tests_browser.lab import CPU, Lab, wait_for
from tests_browser.notebook import LabPage, Notebook
from tests_browser.test_edits import code, in_file, shows, sources, unsaved

SHOTS = os.environ.get("OWNLAB_SHOTS", "")


def tab(page: LabPage, name: str) -> Locator:
    return page.page.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text=name)


def saved(lab: Lab, name: str, *expected: str) -> None:
    """Wait until the file has these cells."""
    wait_for(lambda: in_file(lab, name) == list(expected), f"the file has {expected}, not {in_file(lab, name)}")


def context_menu(page: LabPage, place: Locator, label: str) -> None:
    place.click(button="right")
    page.page.locator(".lm-Menu-item", has_text=label).first.click()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill a disk to the last byte."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return path


def type_at_end(page: LabPage, notebook: Notebook, number: int, text: str) -> None:
    notebook.cell(number).locator(".cm-content").click()
    page.page.keyboard.press("ControlOrMeta+End")
    page.page.keyboard.type(text)


def test_a_full_disk_while_somebody_types(context: BrowserContext, tmp_path: Path, small_disk: Path) -> None:
    """Neither the notebook nor the edit log can be written: the page says so, and nothing typed is lost."""
    lab = Lab(tmp_path / "full")
    lab.folder.rmdir()
    (small_disk / "work").mkdir()
    lab.folder = small_disk / "work"
    lab.environ["OWNLAB_HOME"] = str(small_disk / "home")
    tabs: list[_PageLog] = []
    try:
        lab.up()
        name = lab.write("full.ipynb", CPU, "first = 1", "second = 2")
        tabs.append(_PageLog(context.new_page()))
        page = LabPage(tabs[0].page, lab)
        notebook = page.notebook(name)
        type_at_end(page, notebook, 0, "1")
        wait_for(lambda: sources(lab, name) == ["first = 11", "second = 2"], "the server has the edit")
        saved(lab, name, "first = 11", "second = 2")
        filler = fill(small_disk)
        type_at_end(page, notebook, 0, "1")
        expect(page.notification.filter(has_text="disk").or_(page.notification.filter(has_text="space"))).to_have_count(
            1
        )
        type_at_end(page, notebook, 1, "2")
        page.page.wait_for_timeout(6_000)  # it tries again meanwhile, and must not add a notice for each attempt
        expect(page.notification).to_have_count(1)
        # Either the page still has them, and its tab says so, or the log has room that was kept for them.
        assert unsaved(page.page) or sources(lab, name) == ["first = 111", "second = 22"]
        shows(notebook, "first = 111", "second = 22")
        assert in_file(lab, name)[0] == "first = 11", "the file is as it was, not cut"
        filler.unlink()
        wait_for(lambda: sources(lab, name) == ["first = 111", "second = 22"], "the server has everything")
        saved(lab, name, "first = 111", "second = 22")
        wait_for(lambda: not unsaved(page.page), "the page knows that everything is saved")
        assert tabs[0].errors == []
    finally:
        for log in tabs:
            log.page.close()
        lab.clear()


def test_a_read_only_notebook(page: LabPage, lab: Lab) -> None:
    """On a disk that is mounted read-only: for root no other file is. The page says once that it cannot be saved."""
    folder = lab.folder / "read-only"
    folder.mkdir(exist_ok=True)
    name = lab.write("read-only/locked.ipynb", CPU, "first = 1", "second = 2")
    before = (lab.folder / name).read_bytes()
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], check=False).returncode:
        pytest.skip("a disk can be mounted by root only")
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
    requests: list[Request] = []
    try:
        notebook = page.notebook(name)
        page.page.on("request", lambda request: requests.append(request) if request.method in ("POST", "PUT") else None)
        type_at_end(page, notebook, 0, "1")
        notebook.panel.click(position={"x": 400, "y": 700})
        page.page.keyboard.press("ControlOrMeta+s")
        expect(page.notification.or_(page.dialog).first).to_be_visible()
        page.page.wait_for_timeout(8_000)  # it tries again meanwhile, and must not add a notice for each attempt
        if SHOTS:
            page.page.screenshot(path=Path(SHOTS) / "read-only.png")
        assert page.notification.count() + page.dialog.count() <= 2
        edits = [request.url for request in requests if "/notebooks/" in request.url or "/contents/" in request.url]
        assert len(edits) < 20, edits
        shows(notebook, "first = 11", "second = 2")
        assert (lab.folder / name).read_bytes() == before
        assert unsaved(page.page)
    finally:
        page.page.close()
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_renamed_while_it_is_edited(page: LabPage, lab: Lab) -> None:
    name = lab.write("draft.ipynb", CPU, "a = 1", "b = 2")
    notebook = page.notebook(name).ready()
    type_at_end(page, notebook, 0, "1")
    browser = page.files("Lab")
    item = browser.locator(".jp-DirListing-item", has_text="draft.ipynb")
    item.click()
    page.page.keyboard.press("F2")
    page.page.locator(".jp-DirListing-editor").fill("final.ipynb")
    page.page.keyboard.press("Enter")
    expect(tab(page, "final.ipynb")).to_have_count(1)
    # JupyterLab gives the focus to the renamed file, some time later: it would take what is typed into the cell until then.
    expect(browser.locator(".jp-DirListing-item:focus-within", has_text="final.ipynb")).to_have_count(1)
    type_at_end(page, notebook, 0, "1")
    shows(notebook, "a = 111", "b = 2")
    saved(lab, "final.ipynb", "a = 111", "b = 2")
    assert not (lab.folder / "draft.ipynb").exists()
    # The version that was opened before it was renamed, and the one that was written just now.
    history = "ownlab/api/notebooks/history?notebook=final.ipynb"
    wait_for(lambda: len(lab.get(history)["versions"]) >= 2, "the history followed")


def test_two_views_of_one_notebook(page: LabPage, lab: Lab) -> None:
    name = lab.write("views.ipynb", CPU, "one", "two")
    patches: list[str] = []
    page.page.on(
        "request",
        lambda request: patches.append(request.post_data or "") if request.url.endswith("/notebooks/edits") else None,
    )
    page.notebook(name).ready()
    page.menu("File", "New View for Notebook")
    panels = page.page.locator(".jp-NotebookPanel")
    expect(panels).to_have_count(2)
    second = panels.nth(1).locator(".jp-CodeCell").nth(0).locator(".cm-content")
    second.click()
    page.page.keyboard.press("ControlOrMeta+End")
    page.page.keyboard.type("+1")
    saved(lab, name, "one+1", "two")
    for number in (0, 1):
        expect(panels.nth(number).locator(".jp-CodeCell").nth(0).locator(".cm-content")).to_have_text("one+1")
    texts = [json.loads(patch) for patch in patches if patch]
    assert len({json.dumps(each, sort_keys=True) for each in texts}) == len(texts), "no edit was sent twice"
    panels.nth(1).locator(".jp-CodeCell").nth(1).locator(".cm-content").click()
    page.page.keyboard.press("ControlOrMeta+a")
    page.page.keyboard.insert_text("print('once')")
    page.page.keyboard.press("Shift+Enter")
    expect(panels.nth(1).locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-output")).to_have_text("once")
    expect(panels.nth(0).locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-output")).to_have_text("once")
    # The first view is closed: the other one continues.
    tab(page, "views.ipynb").nth(0).locator(".lm-TabBar-tabCloseIcon").click()
    expect(panels).to_have_count(1)
    panels.nth(0).locator(".jp-CodeCell").nth(0).locator(".cm-content").click()
    page.page.keyboard.press("ControlOrMeta+End")
    page.page.keyboard.type("+2")
    wait_for(lambda: sources(lab, name)[:2] == ["one+1+2", "print('once')"], "edits of the other view arrive")


def test_a_cell_is_dragged_into_another_notebook(page: LabPage, lab: Lab) -> None:
    lab.write("from.ipynb", CPU, "moved = 1", "stays = 2")
    lab.write("into.ipynb", CPU, "there = 3")
    page.notebook("from.ipynb")
    page.files("Lab").locator(".jp-DirListing-item", has_text="into.ipynb").dblclick()
    expect(tab(page, "into.ipynb")).to_have_count(1)
    # Side by side.
    moved = (
        page.page.evaluate(
            """() => {
          const app = window.jupyterapp ?? window.jupyterlab;
          const panels = [...app.shell.widgets('main')].filter(w => w.hasClass('jp-NotebookPanel'));
          app.shell.add(panels[1], 'main', { mode: 'split-right', ref: panels[0].id });
          return panels.length;
        }"""
        )
        if page.page.evaluate("() => Boolean(window.jupyterapp ?? window.jupyterlab)")
        else None
    )
    panels = page.page.locator(".jp-NotebookPanel")
    if moved is None:
        bar = tab(page, "into.ipynb").bounding_box()
        dock = page.page.locator("#jp-main-dock-panel").bounding_box()
        assert bar
        assert dock
        page.page.mouse.move(bar["x"] + 40, bar["y"] + 10)
        page.page.mouse.down()
        page.page.mouse.move(dock["x"] + dock["width"] * 0.9, dock["y"] + dock["height"] / 2, steps=12)
        page.page.mouse.move(dock["x"] + dock["width"] - 15, dock["y"] + dock["height"] / 2, steps=4)
        page.page.mouse.up()
    expect(page.page.locator(".jp-NotebookPanel:visible")).to_have_count(2)
    source = panels.filter(has_text="moved = 1").locator(".jp-CodeCell").nth(0).locator(".jp-InputPrompt")
    target = panels.filter(has_text="there = 3").locator(".jp-CodeCell").nth(0)
    start, end = source.bounding_box(), target.bounding_box()
    assert start
    assert end
    page.page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.page.mouse.down()
    page.page.mouse.move(start["x"] + 60, start["y"] + 40, steps=6)
    page.page.mouse.move(end["x"] + end["width"] / 2, end["y"] + end["height"] / 2, steps=15)
    page.page.mouse.up()
    wait_for(lambda: sources(lab, "into.ipynb").count("moved = 1") == 1, "the cell arrived")
    page.page.wait_for_timeout(3_000)
    assert sorted(sources(lab, "into.ipynb")) == ["moved = 1", "there = 3"]
    assert "stays = 2" in sources(lab, "from.ipynb")
    assert sources(lab, "from.ipynb").count("moved = 1") <= 1
    saved(lab, "into.ipynb", *sources(lab, "into.ipynb"))
    saved(lab, "from.ipynb", *sources(lab, "from.ipynb"))


def test_outputs_of_another_notebooks_kernel_are_saved(page: LabPage, lab: Lab) -> None:
    lab.write("owner.ipynb", CPU, "shared = 5")
    guest = lab.write("guest.ipynb", CPU, "print('shared is', shared)")
    kernel = lab.start("owner.ipynb", CPU)
    body = {"path": guest, "name": guest, "type": "notebook", "kernel": {"id": kernel}}
    lab.client.post(f"{lab.url}api/sessions", json=body).raise_for_status()
    notebook = page.notebook(guest).ready()
    notebook.write(0, "shared = 6\nprint('shared is', shared)")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("shared is 6")
    wait_for(lambda: "shared is 6" in (lab.folder / guest).read_text(), "the file has the output")
    assert "shared is 6" not in (lab.folder / "owner.ipynb").read_text()


def test_outputs_of_a_foreign_kernel_are_saved(page: LabPage, lab: Lab) -> None:
    """A kernelspec that ownlab did not make: its kernel has no journal, so the page saves the outputs."""
    import sys

    spec = lab.base / "share" / "kernels" / "foreign"
    spec.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Foreign", "language": "python"}))
    try:
        name = lab.write("foreign.ipynb", "foreign", "print('from', 'elsewhere')")
        wait_for(lambda: "foreign" in lab.get("api/kernelspecs")["kernelspecs"], "the lab lists it")
        notebook = page.notebook(name).connect()
        expect(notebook.panel.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "idle")
        notebook.run(0)
        expect(notebook.output(0)).to_have_text("from elsewhere")
        wait_for(lambda: "from elsewhere" in (lab.folder / name).read_text(), "the file has the output")
        shows(notebook, "print('from', 'elsewhere')", *code(notebook)[1:])
    finally:
        (spec / "kernel.json").unlink()
