"""Code is saved as it is typed: nothing is lost when a tab is killed, and pages and programs that edit one notebook are merged."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Error, Page, Request, expect
from tests_browser.lab import CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook

DIRTY = ".jp-mod-dirty"


def kill(page: LabPage) -> None:
    """Kill the tab: its page can do nothing any more, not even react to being closed."""
    with contextlib.suppress(Error):  # the answer never comes
        page.page.context.new_cdp_session(page.page).send("Page.crash", timeout=500)
    page.page.close()


def in_file(lab: Lab, name: str) -> list[str]:
    """Return the sources of the cells in the file."""
    return ["".join(cell["source"]) for cell in json.loads((lab.folder / name).read_text(encoding="utf-8"))["cells"]]


def on_server(lab: Lab, name: str) -> list[dict[str, Any]]:
    """Return the cells as a page gets them that opens the notebook now."""
    cells: list[dict[str, Any]] = lab.get(f"api/contents/{name}?content=1&type=notebook")["content"]["cells"]
    return cells


def sources(lab: Lab, name: str) -> list[str]:
    return ["".join(cell["source"]) for cell in on_server(lab, name)]


def code(notebook: Notebook) -> list[str]:
    """Return the code of all cells on the page."""
    return [
        "\n".join(cell.locator(".cm-line").all_text_contents())
        for cell in notebook.panel.locator(".jp-Notebook .jp-Cell").all()
    ]


def unsaved(page: Page) -> bool:
    """Return whether the tab of the notebook has the mark of unsaved changes."""
    return page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current" + DIRTY).count() > 0


def shows(notebook: Notebook, *expected: str) -> None:
    wait_for(lambda: code(notebook) == list(expected), f"the page shows {expected}, not {code(notebook)}")


def test_a_changed_cell_is_run_and_the_tab_killed_at_once(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("learning.ipynb", CPU, "lr = 0.1\nprint('lr', lr)")
    first = pages()
    notebook = first.notebook(name).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("lr 0.1")
    notebook.write(0, "lr = 0.001\nprint('lr', lr)")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("lr 0.001")
    kill(first)

    assert sources(lab, name)[0] == "lr = 0.001\nprint('lr', lr)"
    wait_for(lambda: in_file(lab, name)[0] == "lr = 0.001\nprint('lr', lr)", "the file has the code")
    notebook = pages().notebook(name)
    shows(notebook, "lr = 0.001\nprint('lr', lr)", "")
    expect(notebook.output(0)).to_have_text("lr 0.001")


def test_a_new_notebook_and_the_tab_killed(pages: Callable[[], LabPage], lab: Lab) -> None:
    first = pages()
    first.open()
    first.tile(CPU).click()
    notebook = Notebook(first.page).ready()
    notebook.write(0, "first = 1")
    notebook.run(0)
    notebook.write(1, "print(first + 1)")
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("2")
    kill(first)

    [path] = lab.folder.glob("Untitled*.ipynb")
    wait_for(lambda: in_file(lab, path.name)[:2] == ["first = 1", "print(first + 1)"], "the file has the code")
    notebook = pages().notebook(path.name)
    shows(notebook, "first = 1", "print(first + 1)", "")
    expect(notebook.output(1)).to_have_text("2")
    path.unlink()


def test_only_typing_and_the_tab_killed_two_seconds_later(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("typed.ipynb", CPU, "")
    first = pages()
    notebook = first.notebook(name)
    notebook.cell(0).locator(".cm-content").click()
    first.page.keyboard.type("first = 1\nsecond = 2", delay=20)
    first.page.wait_for_timeout(2_000)
    kill(first)
    assert sources(lab, name) == ["first = 1\nsecond = 2"]


def test_two_pages_edit_different_cells_and_different_lines(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("two.ipynb", CPU, "one", "two\nthree\nfour")
    first, second = pages(), pages()
    here, there = first.notebook(name), second.notebook(name)
    here.write(0, "ONE")
    there.write(1, "TWO\nthree\nfour")
    shows(here, "ONE", "TWO\nthree\nfour")
    shows(there, "ONE", "TWO\nthree\nfour")
    # Both have the cursor in the same cell: neither text changes under it, and the server merges them.
    here.cell(1).locator(".cm-line").nth(2).click()
    there.cell(1).locator(".cm-line").nth(0).click()
    first.page.keyboard.press("End")
    first.page.keyboard.type("!")
    second.page.keyboard.press("End")
    second.page.keyboard.type("?")
    wait_for(lambda: sources(lab, name)[1] == "TWO?\nthree\nfour!", "the server has merged both")
    assert code(here)[1] == "TWO\nthree\nfour!"
    here.cell(0).locator(".cm-content").click()
    there.cell(0).locator(".cm-content").click()
    shows(here, "ONE", "TWO?\nthree\nfour!")
    shows(there, "ONE", "TWO?\nthree\nfour!")
    wait_for(lambda: not unsaved(first.page) and not unsaved(second.page), "neither page has unsaved changes")


def test_two_pages_edit_the_same_line(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("conflict.ipynb", CPU, "lr = 0.1\ntrain(lr)")
    first, second = pages(), pages()
    here, there = first.notebook(name), second.notebook(name)
    here.cell(0).locator(".cm-line").nth(0).click()
    there.write(0, "lr = 0.2\ntrain(lr)")
    wait_for(lambda: sources(lab, name) == ["lr = 0.2\ntrain(lr)"], "the server has the text of one page")
    first.page.keyboard.press("End")
    first.page.keyboard.type("5")
    notice = first.notification.filter(has_text="Cell 1 was edited in two places at once. Your text was kept")
    expect(notice).to_be_visible()
    assert sources(lab, name) == ["lr = 0.15\ntrain(lr)"]
    there.panel.locator(".jp-Notebook-footer").focus()
    shows(there, "lr = 0.15\ntrain(lr)")
    expect(second.notification.filter(has_text="Cell 1 was edited in two places at once.")).to_be_visible()

    notice.get_by_role("button", name="Show both").click()
    expect(first.dialog.locator(".ownlab-Versions-removed", has_text="lr = 0.15")).to_be_visible()
    expect(first.dialog.locator(".ownlab-Versions-added", has_text="lr = 0.2")).to_be_visible()
    first.answer("Use the other text")
    wait_for(lambda: sources(lab, name) == ["lr = 0.2\ntrain(lr)"], "the other text is used")


def test_cells_are_moved_deleted_split_merged_and_undone(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("cells.ipynb", CPU, "a", "b", "c1\nc2")
    first, second = pages(), pages()
    here, there = first.notebook(name), second.notebook(name)
    keys = first.page.keyboard

    def command(number: int, *pressed: str) -> None:
        """Press keys in command mode, with a cell selected."""
        here.cell(number).locator(".jp-InputPrompt").click()
        for key in pressed:
            keys.press(key)

    command(0, "Control+Shift+ArrowDown")
    shows(there, "b", "a", "c1\nc2")
    command(0, "d", "d")
    shows(there, "a", "c1\nc2")
    keys.press("z")
    shows(there, "b", "a", "c1\nc2")
    here.cell(2).locator(".cm-line").nth(1).click()
    keys.press("Home")
    keys.press("Control+Shift+Minus")
    shows(there, "b", "a", "c1", "c2")
    command(0, "Shift+ArrowDown", "Shift+M")
    shows(there, "b\n\na", "c1", "c2")
    command(1, "m")
    expect(there.panel.locator(".jp-MarkdownCell")).to_have_count(1)
    wait_for(lambda: [cell["cell_type"] for cell in on_server(lab, name)] == ["code", "markdown", "code"], "its type")
    wait_for(lambda: not unsaved(first.page) and not unsaved(second.page), "neither page has unsaved changes")


def test_another_program_writes_the_file(page: LabPage, lab: Lab) -> None:
    name = lab.write("git.ipynb", CPU, "untouched", "edited\nhere")
    notebook = page.notebook(name)
    notebook.write(1, "edited\nin the page")
    wait_for(lambda: sources(lab, name)[1] == "edited\nin the page", "the server has the edit")
    changed = notebook_of(CPU, "changed by git", "EDITED\nhere", "added by git")
    (lab.folder / name).write_text(json.dumps(changed), encoding="utf-8")
    notebook.cell(0).locator(".jp-InputPrompt").click()
    shows(notebook, "changed by git", "EDITED\nin the page", "added by git")
    merged = ["changed by git", "EDITED\nin the page", "added by git"]
    wait_for(lambda: in_file(lab, name) == merged, "the file has both")
    page.page.keyboard.press("ControlOrMeta+s")
    wait_for(lambda: not unsaved(page.page), "saved")
    expect(page.dialog).to_have_count(0)


def test_cleared_outputs_stay_cleared(page: LabPage, lab: Lab) -> None:
    name = lab.write("cleared.ipynb", CPU, "print('shown')", "print('kept')")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("kept")
    notebook.cell(0).locator(".cm-content").click()
    page.menu("Edit", "Clear Cell Output")
    expect(notebook.output(0)).to_have_count(0)
    wait_for(lambda: on_server(lab, name)[0]["outputs"] == [], "the server has cleared them")
    notebook = page.notebook(name)
    expect(notebook.output(1)).to_have_text("kept")
    expect(notebook.output(0)).to_have_count(0)
    expect(notebook.prompt(0)).to_have_text("[ ]:")


def test_pasted_cells_bring_their_outputs(page: LabPage, lab: Lab) -> None:
    name = lab.write("pasted.ipynb", CPU, "print('copied')")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("copied")
    notebook.cell(0).locator(".jp-InputPrompt").click()
    page.page.keyboard.press("c")
    page.page.keyboard.press("v")
    shows(notebook, "print('copied')", "print('copied')", "")
    wait_for(lambda: len(on_server(lab, name)) == 3 and on_server(lab, name)[1]["outputs"], "the server has the copy")
    notebook = page.notebook(name)
    expect(notebook.output(1)).to_have_text("copied")
    wait_for(lambda: len(in_file(lab, name)) == 3, "the file has the copy")


def test_the_server_is_killed_while_somebody_types(page: LabPage, lab: Lab) -> None:
    name = lab.write("killed.ipynb", CPU, "")
    notebook = page.notebook(name).ready()
    notebook.cell(0).locator(".cm-content").click()
    page.page.keyboard.type("before = 1\n")
    lab.kill()
    page.page.keyboard.type("meanwhile = 2\n")
    page.page.keyboard.type("after = 3")
    wait_for(lambda: sources(lab, name) == ["before = 1\nmeanwhile = 2\nafter = 3"], "the server has everything")
    wait_for(lambda: not unsaved(page.page), "the page knows that everything is saved")
    shows(notebook, "before = 1\nmeanwhile = 2\nafter = 3")


def old_notebooks() -> dict[str, dict[str, Any]]:
    """Return notebooks of several kinds: without ids, of an old format, without cells, without a kernel's details."""
    plain = notebook_of(CPU, "print(1)", "print(2)")
    without_ids = {**plain, "nbformat_minor": 2}
    without_ids["cells"] = [{key: value for key, value in cell.items() if key != "id"} for cell in plain["cells"]]
    bare = {**plain, "metadata": {"kernelspec": {"name": CPU, "display_name": "Python 3 (old name)"}}}
    hidden = {**plain, "cells": [{**plain["cells"][0], "metadata": {"jupyter": {"outputs_hidden": True}}}]}
    return {"ids": without_ids, "bare": bare, "hidden": hidden, "empty": {**plain, "cells": []}}


def test_opening_changes_nothing(page: LabPage, lab: Lab) -> None:
    sent: list[str] = []

    def on_request(request: Request) -> None:
        if request.method in ("POST", "PUT") and re.search(
            r"/notebooks/(edits|write)|/api/contents/[^?]*ipynb(\?|$)", request.url
        ):
            sent.append(f"{request.method} {request.url} {request.post_data}")

    page.page.on("request", on_request)
    for kind, content in old_notebooks().items():
        path = lab.folder / f"old-{kind}.ipynb"
        path.write_text(json.dumps(content), encoding="utf-8")
        before = path.read_bytes()
        notebook = page.notebook(path.name).ready()
        expect(notebook.panel.locator(".jp-Toolbar-kernelName")).not_to_contain_text("No Kernel")
        page.page.wait_for_timeout(1_500)  # longer than an edit waits before it is sent
        assert not unsaved(page.page), kind
        assert path.read_bytes() == before, kind
    assert sent == []


def test_the_file_says_which_python_ran_it(page: LabPage, lab: Lab) -> None:
    path = lab.folder / "versions.ipynb"
    content = notebook_of(CPU, "import platform\nprint(platform.python_version())")
    content["metadata"]["language_info"] = {"name": "python", "version": "3.6.9"}
    path.write_text(json.dumps(content), encoding="utf-8")
    notebook = page.notebook(path.name).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_be_visible()
    ran = notebook.text(0).strip()

    def versions() -> set[str]:
        file = json.loads(path.read_text(encoding="utf-8"))
        server = lab.get(f"api/contents/{path.name}?content=1&type=notebook")["content"]
        return {each["metadata"]["language_info"]["version"] for each in (file, server)}

    wait_for(lambda: versions() == {ran}, f"the notebook names Python {ran}")
    assert ran != "3.6.9"


def test_saving_sends_no_outputs(page: LabPage, lab: Lab) -> None:
    name = lab.write("large.ipynb", CPU, "print('x' * 2_000_000)", "")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.output(0)).to_be_visible()
    sent: list[int] = []
    page.page.on("request", lambda request: sent.append(len(request.post_data or "")))
    notebook.write(1, "typed = True")
    with page.page.expect_response(lambda answer: "/notebooks/write" in answer.url) as answered:
        page.page.keyboard.press("ControlOrMeta+s")
    assert answered.value.ok
    wait_for(lambda: not unsaved(page.page), "saved")
    assert in_file(lab, name)[1] == "typed = True"
    assert (lab.folder / name).stat().st_size > 2_000_000
    assert 0 < sum(sent) < 5_000


def test_closing_a_notebook_right_after_typing(page: LabPage, lab: Lab) -> None:
    name = lab.write("closing.ipynb", CPU, "")
    notebook = page.notebook(name)
    notebook.cell(0).locator(".cm-content").click()
    page.page.keyboard.insert_text("last = 'word'")
    page.page.keyboard.press("Alt+w")
    expect(page.page.locator(".jp-NotebookPanel")).to_have_count(0)
    expect(page.dialog).to_have_count(0)
    assert sources(lab, name) == ["last = 'word'"]
    wait_for(lambda: in_file(lab, name) == ["last = 'word'"], "the file has the code")


def run_unsaved(page: LabPage, name: str, source: str) -> None:
    """Run changed code in a page whose edits do not reach the server, and kill the page."""
    notebook = page.notebook(name).ready()
    page.page.route(
        "**/notebooks/edits**", lambda route: route.abort() if route.request.method == "POST" else route.continue_()
    )
    notebook.write(0, source)
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    kill(page)


def test_a_cell_shows_the_code_that_ran(pages: Callable[[], LabPage], lab: Lab) -> None:
    before, ran = "lr = 0.1\nprint('lr', lr)", "lr = 0.001\nprint('lr', lr)"
    name = lab.write("recovered.ipynb", CPU, before)
    run_unsaved(pages(), name, ran)

    page = pages()
    notebook = page.notebook(name)
    shows(notebook, ran)
    expect(notebook.output(0)).to_have_text("lr 0.001")
    banner = notebook.cell(0).locator(".ownlab-Recovered")
    expect(banner).to_contain_text("This cell shows the code that ran. The notebook file had another version.")
    assert not unsaved(page.page)
    banner.get_by_role("button", name="Show the other version").click()
    expect(page.dialog.locator(".ownlab-Versions-added", has_text="lr = 0.1")).to_be_visible()
    page.answer("Use the other version")
    shows(notebook, before)
    expect(banner).to_have_count(0)
    wait_for(lambda: sources(lab, name)[0] == before, "the server has the other version")
    notebook = page.notebook(name)
    shows(notebook, before)
    expect(notebook.cell(0).locator(".ownlab-Recovered")).to_have_count(0)
