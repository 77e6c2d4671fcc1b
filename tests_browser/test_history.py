"""The history of a notebook in the page: versions are listed, compared, restored, named and deleted; deleted notebooks come back."""

from __future__ import annotations

import json
import uuid
from typing import Any

from playwright.sync_api import Locator, expect
from tests_browser.lab import CPU, Lab, wait_for
from tests_browser.notebook import LabPage

API = "ownlab/api/notebooks"
# JupyterLab runs the command of a clicked element.
RUN_COMMAND = """([command, args]) => {
    const button = document.body.appendChild(document.createElement('button'));
    button.dataset.commandlinkerCommand = command;
    button.dataset.commandlinkerArgs = JSON.stringify(args);
    button.click();
    button.remove();
}"""


def edit(lab: Lab, name: str, **texts: str) -> None:
    """Change cells as another page does, and write the file."""
    query = {"notebook": name, "version": "0"}
    state = lab.client.get(f"{lab.url}{API}/edits", params=query).raise_for_status().json()
    sources = {cell["id"]: cell["source"] for cell in state["cells"]}
    cells = [
        {"id": cell, "type": "code", "source": {"base": sources[cell], "text": text}}
        for cell, text in ((key.replace("_", "-"), text) for key, text in texts.items())
    ]
    patch = {"notebook": name, "page": uuid.uuid4().hex, "number": 1, "version": state["version"], "cells": cells}
    lab.client.post(f"{lab.url}{API}/edits", json=patch).raise_for_status()
    lab.client.post(f"{lab.url}{API}/write", json={"notebook": name}).raise_for_status()


def versions(lab: Lab, name: str) -> list[dict[str, Any]]:
    answer = lab.client.get(f"{lab.url}{API}/history", params={"notebook": name}).raise_for_status()
    found: list[dict[str, Any]] = answer.json()["versions"]
    return found


def written(lab: Lab, *cells: str) -> str:
    """Write a notebook, and open it as a page does."""
    name = lab.write(f"history-{uuid.uuid4().hex[:8]}.ipynb", CPU, *cells)
    lab.get(f"api/contents/{name}?type=notebook&content=1")
    return name


def show_history(page: LabPage, name: str) -> Locator:
    page.menu("File", "Notebook History")
    tab = page.page.get_by_role("region", name=f"History of {name}")
    expect(tab).to_be_visible()
    return tab


def sources(lab: Lab, name: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads((lab.folder / name).read_text())["cells"]]


def test_versions_are_listed_compared_and_restored(page: LabPage, lab: Lab) -> None:
    name = written(lab, "lr = 0.1\nsteps = 5", "same = 1", "print(lr)")
    edit(lab, name, cell_0="lr = 0.001\nsteps = 5")
    notebook = page.notebook(name).ready()
    tab = show_history(page, name)
    listed = tab.locator(".ownlab-History-version")
    expect(listed).to_have_count(2)
    expect(listed.nth(0)).to_contain_text("Edited1 cell changed")
    expect(listed.nth(1)).to_have_attribute("aria-current", "true")  # the newest is the notebook now

    changed = tab.locator(".ownlab-History-cell")
    expect(changed).to_have_count(1)
    expect(changed).to_contain_text("Cell 1 was edited")
    expect(changed.locator(".cm-deletedChunk")).to_have_text("lr = 0.1")
    expect(changed.locator(".cm-changedLine")).to_have_text("lr = 0.001")
    folded = tab.locator("details")
    expect(folded).to_have_text("2 unchanged cells")
    folded.locator("summary").click()
    expect(folded.locator("pre")).to_have_text(["same = 1", "print(lr)"])
    listed.nth(0).click()
    expect(tab).to_contain_text("The notebook now has the same cells as this version.")

    listed.nth(1).click()
    tab.get_by_role("button", name="Restore", exact=True).click()
    expect(page.notification).to_contain_text("Restored: Today")
    assert sources(lab, name)[0] == "lr = 0.1\nsteps = 5"
    expect(tab).to_contain_text("The notebook now has the same cells as this version.")
    expect(listed.first).to_contain_text("Restored")
    page.notification.get_by_role("button", name="Undo").click()
    wait_for(lambda: sources(lab, name)[0] == "lr = 0.001\nsteps = 5", "the undone restore")
    expect(changed.locator(".cm-changedLine")).to_have_text("lr = 0.001")
    page.page.locator(".lm-DockPanel .lm-TabBar-tab", has_text=name).first.click()
    expect(notebook.panel.locator(".jp-Cell .cm-content").first).to_contain_text("lr = 0.001")


def test_versions_are_named_and_deleted(page: LabPage, lab: Lab) -> None:
    name = written(lab, "a = 1")
    edit(lab, name, cell_0="a = 2")
    page.notebook(name).ready()
    tab = show_history(page, name)
    listed = tab.locator(".ownlab-History-version")
    tab.get_by_role("button", name="Name this version…").click()
    page.dialog.get_by_role("textbox").fill("the first one")
    page.answer("Name")
    expect(listed.nth(1)).to_contain_text("the first one")
    tab.get_by_role("button", name="Save a named version now").click()
    page.dialog.get_by_role("textbox").fill("works")
    page.answer("Save")
    expect(listed.first).to_contain_text("worksSaved by you")
    # The unnamed version of a moment ago has the same cells, and is not kept beside it.
    assert [each["name"] for each in versions(lab, name)] == ["works", "the first one"]

    tab.get_by_role("button", name="Delete this version…").click()
    expect(page.dialog).to_contain_text("Delete this version?")
    page.answer("Delete")
    expect(listed).to_have_count(1)
    assert [each["name"] for each in versions(lab, name)] == ["the first one"]


def test_a_command_opens_the_history_at_a_version_and_a_cell(page: LabPage, lab: Lab) -> None:
    name = written(lab, *(f"line = {number}\n" * 20 for number in range(12)))
    edit(lab, name, cell_0="first", cell_11="last")
    page.notebook(name).ready()
    oldest = versions(lab, name)[-1]["id"]
    page.page.evaluate(RUN_COMMAND, ["ownlab:history", {"version": oldest, "cell": "cell-11"}])
    page.answer("Run")  # JupyterLab asks before it runs what a page's element names
    tab = page.page.get_by_role("region", name=f"History of {name}")
    expect(tab.locator(f'[data-version="{oldest}"]')).to_have_attribute("aria-current", "true")
    expect(tab.locator('[data-cell="cell-11"]')).to_be_in_viewport()


def test_a_deleted_notebook_is_restored(page: LabPage, lab: Lab) -> None:
    name = written(lab, "a = 1")
    edit(lab, name, cell_0="kept = True")
    lab.client.delete(f"{lab.url}api/contents/{name}").raise_for_status()
    assert not (lab.folder / name).exists()
    page.open()
    page.menu("File", "Restore Deleted Notebook…")
    page.dialog.get_by_role("button", name=f"Restore {name}").click()
    expect(page.dialog).to_have_count(0)
    expect(page.page.locator(".jp-NotebookPanel .cm-content").first).to_contain_text("kept = True")
    assert sources(lab, name) == ["kept = True"]


def test_restoring_reaches_the_open_page_and_keeps_what_was_typed_a_moment_ago(page: LabPage, lab: Lab) -> None:
    name = written(lab, "lr = 0.1", "print(lr)")
    edit(lab, name, cell_0="lr = 0.001")
    notebook = page.notebook(name).ready()
    loaded: list[str] = []
    page.page.on("request", lambda asked: loaded.append(asked.url) if f"contents/{name}" in asked.url else None)
    notebook.write(1, "print('typed')")
    tab = show_history(page, name)
    tab.locator(".ownlab-History-version").last.click()
    expect(tab.locator(".ownlab-History-cell")).to_have_count(2)
    tab.get_by_role("button", name="Restore", exact=True).click()
    expect(page.notification).to_contain_text("Restored: Today")
    assert sources(lab, name) == ["lr = 0.1", "print(lr)"]
    expect(tab).to_contain_text("The notebook now has the same cells as this version.")
    assert not [url for url in loaded if "content=1" in url], "the page got the version without loading the file again"
    before = next(each for each in versions(lab, name) if each["reason"] == "before-restore")
    query = {"notebook": name, "version": before["id"]}
    content = lab.client.get(f"{lab.url}{API}/history", params=query).raise_for_status().json()["notebook"]
    assert [cell["source"] for cell in content["cells"]] == ["lr = 0.001", "print('typed')"]


def test_undo_after_restoring_shows_whole_versions(page: LabPage, lab: Lab) -> None:
    """Not a mixture of what was typed and what was restored around it."""
    name = written(lab, "lr = 1")
    notebook = page.notebook(name).ready()
    notebook.write(0, "lr = 2")
    wait_for(lambda: sources(lab, name) == ["lr = 2"], "it is written")
    tab = show_history(page, name)
    tab.locator(".ownlab-History-version").last.click()
    tab.get_by_role("button", name="Restore", exact=True).click()
    expect(page.notification).to_contain_text("Restored: ")
    page.page.locator(".lm-DockPanel .lm-TabBar-tab", has_text=name).first.click()
    code = notebook.cell(0).locator(".cm-content")
    expect(code).to_have_text("lr = 1")
    code.click()
    for shown in ("lr = 2", "lr = 1"):
        page.page.keyboard.press("ControlOrMeta+z")
        expect(code).to_have_text(shown)
    page.page.keyboard.press("ControlOrMeta+Shift+z")
    expect(code).to_have_text("lr = 2")
    wait_for(lambda: sources(lab, name) == ["lr = 2"], "what is shown is saved")
