"""Cells as in Colab: run buttons with times, buttons between cells, long outputs, shortcuts, and when a notebook was saved."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, expect
from tests_browser.lab import CPU, Lab, wait_for
from tests_browser.notebook import LabPage, Notebook

WAITS = "import pathlib, time\nwhile not pathlib.Path('cells-go').exists():\n    time.sleep(0.05)\nprint('went')"
LOOPS = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)"
RUN, STOP, QUEUED = "Run this cell", "Interrupt this cell", "This cell waits for the kernel"
SECONDS = re.compile(r"^\d+(\.\d)? s$")


def cells_of(lab: Lab, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((lab.folder / name).read_text(encoding="utf-8"))["cells"]
    return found


def printed(lab: Lab, name: str) -> str:
    """What the first cell has printed, in the file."""
    return "".join(text for output in cells_of(lab, name)[0]["outputs"] for text in output["text"])


def sources(notebook: Notebook) -> list[str]:
    return [code.strip() for code in notebook.panel.locator(".jp-Notebook .jp-Cell .cm-content").all_inner_texts()]


def test_a_button_runs_and_interrupts_a_cell(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("buttons.ipynb", CPU, WAITS, "1 / 0", "print('second')", "")
    first = pages()
    notebook = first.notebook(name).ready()
    for number in (0, 1):
        expect(notebook.button(number)).to_have_accessible_name(RUN)
        expect(notebook.time(number)).to_have_text("")
        notebook.button(number).click()
    expect(notebook.button(0)).to_have_accessible_name(STOP)
    expect(notebook.button(1)).to_have_accessible_name(QUEUED)
    expect(notebook.button(1)).to_have_attribute("aria-disabled", "true")
    expect(notebook.time(0)).to_have_text(re.compile(r"^(0:0[1-9]|0:[1-5]\d|[1-9]\d*:\d\d)$"))
    expect(notebook.time(1)).to_have_text("")
    first.page.close()

    # Another page knows the state and the start of the cells that run.
    page = pages()
    notebook = page.notebook(name)
    expect(notebook.button(0)).to_have_accessible_name(STOP)
    expect(notebook.button(1)).to_have_accessible_name(QUEUED)
    expect(notebook.time(0)).to_have_text(re.compile(r"^(0:0[2-9]|0:[1-5]\d|[1-9]\d*:\d\d)$"))
    (lab.folder / "cells-go").touch()
    expect(notebook.prompt(1)).to_have_text("[2]:")
    (lab.folder / "cells-go").unlink()
    for number in (0, 1):
        expect(notebook.button(number)).to_have_accessible_name(RUN)
        expect(notebook.time(number)).to_have_text(re.compile(r"s$|:"))
    expect(notebook.button(0)).to_have_attribute("title", re.compile(r"You ran this cell at \d\d:\d\d\. It took "))
    expect(notebook.button(1)).to_have_attribute("title", re.compile("The last run failed. You ran this cell"))

    notebook.write(3, LOOPS)
    notebook.button(3).click()
    expect(notebook.output(3)).to_have_text("begun")
    notebook.button(3).click()
    expect(notebook.output(3).last).to_contain_text("KeyboardInterrupt")
    expect(notebook.button(3)).to_have_accessible_name(RUN)
    expect(notebook.prompt(3)).to_have_text("[3]:")


def test_durations_are_stored(page: LabPage, lab: Lab) -> None:
    name = lab.write("stored.ipynb", CPU, "import time; time.sleep(1.2)", "print(1)")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.time(0)).to_have_text(SECONDS)
    taken = notebook.time(0).inner_text()
    assert float(taken.removesuffix(" s")) >= 1.2
    wait_for(
        lambda: "shell.execute_reply" in cells_of(lab, name)[0]["metadata"].get("execution", {}), "the file has it"
    )
    lab.end_all()

    content = json.loads((lab.folder / name).read_text(encoding="utf-8"))
    person = lab.snapshot()["person"]
    assert content["cells"][0]["metadata"]["execution"]["ownlab.person"] == person
    info = {"elapsed": 65_000, "timestamp": 1_700_000_000_000, "user": {"displayName": "Ann"}}
    content["cells"][1] |= {"metadata": {"executionInfo": info}, "execution_count": 7}
    other = lab.folder / "copied.ipynb"  # a notebook that was run elsewhere
    other.write_text(json.dumps(content), encoding="utf-8")
    notebook = page.notebook(other.name)
    expect(notebook.time(0)).to_have_text(re.compile(r"^1\.\d s$"))
    expect(notebook.button(0)).to_have_attribute("title", re.compile("You ran this cell at "))
    expect(notebook.time(1)).to_have_text("1:05")
    expect(notebook.button(1)).to_have_attribute(
        "title", re.compile(r"Ann ran this cell at 2023-11-1\d \d\d:\d\d\. It took 1:05\.")
    )


def test_cells_are_inserted_between_others(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("between.ipynb", CPU, "first", "second")).ready()
    bar = notebook.panel.locator(".ownlab-InsertBar")
    expect(bar).to_be_hidden()
    _hover_end(page, notebook.cell(0))
    bar.get_by_text("+ Text").click()
    expect(notebook.panel.locator(".jp-MarkdownCell")).to_have_count(1)
    page.page.keyboard.insert_text("words")
    assert sources(notebook) == ["first", "words", "second"]
    expect(bar).to_be_hidden()

    _hover_end(page, notebook.cell(1))
    bar.get_by_text("+ Code").click()
    page.page.keyboard.insert_text("third")
    assert sources(notebook) == ["first", "words", "second", "third"]
    toolbar = notebook.panel.locator(".jp-NotebookPanel-toolbar")
    toolbar.get_by_text("+ Code").click()
    page.page.keyboard.insert_text("fourth = 4; fourth")
    toolbar.get_by_text("+ Text").click()
    page.page.keyboard.insert_text("end")
    assert sources(notebook) == ["first", "words", "second", "third", "fourth = 4; fourth", "end"]
    toolbar.get_by_text("Run all").click()
    expect(notebook.output(0)).to_contain_text("NameError")


def _hover_end(page: LabPage, cell: Locator) -> None:
    """Move the pointer to the end of a cell, beside the cell's own buttons."""
    box = cell.bounding_box()
    assert box
    page.page.mouse.move(box["x"] + 150, box["y"] + box["height"] - 2)


def test_long_output_scrolls_in_a_box(page: LabPage, lab: Lab) -> None:
    lines = "for number in range(300):\n    print('line', number)"
    notebook = page.notebook(lab.write("long.ipynb", CPU, lines, "print('short')")).ready()
    for number in (0, 1):
        notebook.button(number).click()
    expect(notebook.output(1)).to_have_text("short")
    area = notebook.cell(0).locator(".jp-Cell-outputArea")

    def height() -> float:
        box = area.bounding_box()
        return box["height"] if box else 0

    assert 300 < height() < 800
    assert area.evaluate("area => area.scrollHeight") > 3000
    assert area.evaluate("area => area.scrollTop") == 0
    notebook.output(1).hover()
    expand = notebook.panel.get_by_role("button", name="Show all output")
    expect(expand).to_have_count(0)
    notebook.output(0).hover()
    expand.click()
    assert height() > 3000
    notebook.save()
    assert cells_of(lab, "long.ipynb")[0]["metadata"]["ownlab"] == {"box_output": False}
    notebook = page.notebook("long.ipynb")
    expect(notebook.output(1)).to_have_text("short")
    assert height() > 3000
    notebook.output(0).hover(position={"x": 60, "y": 20})
    notebook.panel.get_by_role("button", name="Scroll output").click()
    assert height() < 800


def test_a_box_follows_the_newest_output(page: LabPage, lab: Lab) -> None:
    code = "import time\nfor number in range(10_000):\n    print('line', number, flush=True)\n    time.sleep(0.01)"
    notebook = page.notebook(lab.write("follows.ipynb", CPU, code)).ready()
    notebook.button(0).click()
    area = notebook.cell(0).locator(".jp-Cell-outputArea")
    wait_for(lambda: area.evaluate("area => area.scrollTop") > 200, "the box follows")
    area.evaluate("area => (area.scrollTop = 0)")
    height = area.evaluate("area => area.scrollHeight")
    wait_for(lambda: area.evaluate("area => area.scrollHeight") > height + 1000, "more is printed")
    assert area.evaluate("area => area.scrollTop") == 0  # the user reads something
    notebook.button(0).click()
    expect(notebook.button(0)).to_have_accessible_name(RUN)


def test_shortcuts_of_colab(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("keys.ipynb", CPU, "one = 1", "two = 2", "one + two")).ready()
    keyboard = page.page.keyboard

    def chord(key: str) -> None:
        keyboard.press("Control+m")
        keyboard.press(key)

    notebook.cell(0).locator(".cm-content").click()
    chord("b")
    expect(notebook.cell(3)).to_be_visible()
    assert sources(notebook) == ["one = 1", "", "two = 2", "one + two"]
    chord("m")
    expect(notebook.panel.locator(".jp-MarkdownCell")).to_have_count(1)
    chord("y")
    expect(notebook.panel.locator(".jp-MarkdownCell")).to_have_count(0)
    chord("j")
    assert sources(notebook) == ["one = 1", "two = 2", "", "one + two"]
    chord("k")
    assert sources(notebook) == ["one = 1", "", "two = 2", "one + two"]
    chord("d")
    assert sources(notebook) == ["one = 1", "two = 2", "one + two"]
    chord("p")
    expect(notebook.cell(0)).to_have_class(re.compile("jp-mod-active"))
    chord("n")
    expect(notebook.cell(1)).to_have_class(re.compile("jp-mod-active"))
    keyboard.press("Control+F9")
    expect(notebook.output(2)).to_have_text("3")
    keyboard.press("Control+F10")  # in the last cell
    expect(notebook.prompt(2)).to_have_text("[4]:")
    keyboard.press("Control+F8")
    expect(notebook.prompt(1)).to_have_text("[6]:")
    chord("p")
    keyboard.press("Control+F10")
    expect(notebook.prompt(2)).to_have_text("[8]:")
    notebook.write(2, LOOPS)
    keyboard.press("Control+Enter")
    expect(notebook.output(2)).to_have_text("begun")
    chord("i")
    expect(notebook.output(2).last).to_contain_text("KeyboardInterrupt")
    cells = notebook.panel.locator(".jp-Notebook .jp-Cell")
    chord("d")
    expect(cells).to_have_count(2)
    chord("z")
    expect(cells).to_have_count(3)

    page.menu("Help", "Keyboard Shortcuts")
    rows = page.dialog.locator("tbody tr")
    expect(rows.filter(has_text="Insert a cell below")).to_contain_text("Ctrl+M, B")
    expect(rows.filter(has_text="Run all cells")).to_contain_text("Ctrl+F9")
    page.dialog.get_by_label("Filter the shortcuts").fill("interrupt")
    expect(rows.first).to_contain_text("Ctrl+M, I")
    expect(rows.filter(has_text="Insert a cell below")).to_have_count(0)
    page.answer("Close")
    keyboard.press("Control+Shift+P")
    expect(page.page.locator(".lm-CommandPalette-input")).to_be_focused()
    keyboard.press("Escape")


def test_the_toolbar_says_when_a_notebook_was_saved(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("saved.ipynb", CPU, "old")).ready()
    status = notebook.panel.locator(".ownlab-Saved-status")
    expect(status).to_have_text(re.compile(r"^Saved "))
    page.page.route(re.compile("/ownlab/api/notebooks/edits"), lambda route: None)  # never answered
    notebook.write(0, "new")
    expect(status).to_have_text("Saving…")
    page.page.unroute_all()
    notebook = page.notebook("saved.ipynb").ready()
    notebook.write(0, "newer")
    expect(status).to_have_text(re.compile(r"^Saved (just now|\d+ s ago)$"))
    notebook.panel.get_by_role("button", name="History", exact=True).click()
    expect(page.page.locator(".lm-TabBar-tab.lm-mod-current", has_text="saved.ipynb")).to_be_visible()
    expect(page.page.locator(".ownlab-History")).to_be_visible()


def test_a_cell_that_asks_is_not_run_again(page: LabPage, lab: Lab) -> None:
    """A reflex: its box stays, and has the keyboard."""
    name = lab.write("reflex.ipynb", CPU, "name = input('Name: ')\nprint('Hello', name)", "print('after')")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.box(0)).to_be_focused()
    notebook.run(0)
    expect(page.notification).to_contain_text("This cell waits for your answer")
    expect(page.dialog).to_have_count(0)
    expect(notebook.box(0)).to_be_focused()
    notebook.run(1)  # JupyterLab refuses it
    page.answer("Ok")
    notebook.box(0).fill("Ada")
    notebook.box(0).press("Enter")
    expect(notebook.output(0).last).to_contain_text("Hello Ada")
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("after")


def test_of_long_text_the_end_is_drawn(page: LabPage, lab: Lab) -> None:
    """The rest is saved, and drawn when somebody asks for it."""
    name = lab.write("long.ipynb", CPU, "for i in range(20_000):\n    print('line', i, 'x' * 60)")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    for _ in range(2):  # live, and when it is opened again
        expect(notebook.output(0)).to_contain_text("line 19999 ")
        shown = int(re.findall(r"line (\d+) ", notebook.text(0))[0])
        assert shown > 10_000
        note = notebook.output(0).locator(".ownlab-LongText")
        expect(note).to_contain_text(f"{shown} lines before this are saved, but not drawn.")
        wait_for(lambda: len(printed(lab, name)) > 1_400_000, "all of it is saved")
        notebook = page.notebook(name)
    note.get_by_role("button", name="Show all").click()
    expect(note).to_have_count(0)
    assert notebook.text(0).startswith("line 0 ")
    assert "line 19999 " in notebook.text(0)


def test_an_interrupted_input_leaves_no_box(page: LabPage, lab: Lab) -> None:
    name = lab.write("asks.ipynb", CPU, "name = input('Name: ')\nprint('Hello', name)", "print('after')")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.box(0)).to_be_focused()
    lab.client.post(f"{lab.url}api/kernels/{lab.kernel_of(name)}/interrupt").raise_for_status()
    expect(notebook.output(0).last).to_contain_text("KeyboardInterrupt")
    expect(notebook.box(0)).to_have_count(0)
    notebook.save()  # the keyboard is in the notebook, and not in a box that is gone

    notebook.run(0)
    notebook.box(0).fill("Ada")
    notebook.box(0).press("Enter")
    expect(notebook.output(0).last).to_contain_text("Hello Ada")
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("after")


def test_a_cell_of_a_stopped_run_has_a_mark(page: LabPage, lab: Lab) -> None:
    lab.write("unfinished.ipynb", CPU, LOOPS, "print('after')")
    started = lab.ownlab("run", "unfinished.ipynb", "--detach", "--json")
    assert started.returncode == 0, started.stdout + started.stderr
    wait_for(lambda: printed(lab, "unfinished-run.ipynb") == "begun\n", "the output of the run is in its copy")
    assert lab.ownlab("runtimes", "stop", "unfinished.ipynb").returncode == 0
    wait_for(lambda: not lab.snapshot()["runtimes"], "the run has ended")
    notebook = page.notebook("unfinished-run.ipynb")
    expect(notebook.time(0)).to_have_text("stopped")
    expect(notebook.button(0)).to_have_attribute("title", re.compile("It did not finish"))
    expect(notebook.time(1)).to_have_text("")
    notebook.write(0, "print('done')")
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.time(0)).to_have_text(re.compile(r"\d s$"))
