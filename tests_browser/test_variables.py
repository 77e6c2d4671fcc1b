"""The panel with the variables of a notebook, and Mount Drive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from playwright.sync_api import Locator, expect
from tests_browser.lab import CPU, Lab, notebook_of
from tests_browser.notebook import LabPage

VARIABLES = """\
losses = [2.3, 1.81]
name = "run 1"
class Odd:
    def __repr__(self): raise SystemExit
    __len__ = __repr__
odd = Odd()"""
WAITS = "import pathlib, time\nlosses.append(1.44)\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.05)"


def row(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("row").filter(has=panel.page.get_by_role("cell", name=name, exact=True))


def test_variables_are_listed_between_cells(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("variables.ipynb", CPU, VARIABLES, WAITS, "del name; 1")
    page = pages()
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    panel = page.side_panel("Variables")
    expect(row(panel, "losses")).to_have_text(re.compile(r"^losseslist2 items\[2\.3, 1\.81\]$"))
    expect(row(panel, "name")).to_have_text("namestr5 characters'run 1'")
    expect(row(panel, "odd")).to_have_text("oddOdd")
    panel.get_by_label("Filter by name or type").fill("str")
    expect(panel.locator("tbody tr")).to_have_count(1)
    panel.get_by_label("Filter by name or type").fill("")

    # While a cell runs, the kernel is left alone; also by a page that is opened then.
    notebook.run(1)
    expect(panel.get_by_role("status")).to_have_text("A cell is running. These are the variables before it.")
    expect(row(panel, "losses")).to_contain_text("2 items")
    page.page.close()
    page = pages()
    notebook = page.notebook(name)
    panel = page.side_panel("Variables")
    expect(panel.get_by_role("status")).to_have_text("The variables are listed when no cell is running.")
    (lab.folder / "go").touch()
    expect(row(panel, "losses")).to_contain_text("3 items")
    (lab.folder / "go").unlink()
    notebook.run(2)
    expect(row(panel, "name")).to_have_count(0)
    # Its requests leave no trace: the next cell has the next number.
    notebook.run(2)
    expect(notebook.prompt(2)).to_have_text("[4]:")

    # Nothing is asked while the panel is hidden.
    page.panel()
    sent: list[str | bytes] = []
    page.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.page.reload()
    notebook = page.notebook(name).ready()
    page.panel()
    notebook.run(2)
    expect(notebook.prompt(2)).to_have_text("[5]:")
    assert sent
    assert not [frame for frame in sent if b"list_variables" in (frame if isinstance(frame, bytes) else frame.encode())]


def test_mount_drive_inserts_and_runs_the_code(page: LabPage, lab: Lab) -> None:
    made = notebook_of(CPU, "print('mine')")
    made["metadata"]["ownlab"] = {"colab": True}
    (lab.folder / "mount.ipynb").write_text(json.dumps(made), encoding="utf-8")
    notebook = page.notebook("mount.ipynb").ready()
    page.files("Drive").get_by_text("Mount Drive").click()
    expect(notebook.cell(0).locator(".cm-content")).to_contain_text("drive.mount('/content/drive')")
    expect(notebook.output(0)).to_contain_text("Mounted at /content/drive")
    page.files("Drive").get_by_text("Mount Drive").click()  # once more: the same cell
    expect(notebook.prompt(0)).to_have_text("[2]:")
    expect(notebook.panel.locator(".jp-CodeCell")).to_have_count(2)
