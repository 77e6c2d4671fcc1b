"""After failures of the page, the network or the server, the notebook shows all output once, in order, and continues."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests_browser.lab import CPU, Lab, wait_for
from tests_browser.network import Network
from tests_browser.notebook import LabPage, Notebook

# Runs until the file exists, however long a page or a server takes.
STREAM = """
import pathlib, time
for number in range(6000):
    print("line", number, flush=True)
    time.sleep(0.1)
    if pathlib.Path("stop").exists():
        break
print("done")
"""

WIDGET = """
import ipywidgets, pathlib, time
bar, label, out = ipywidgets.IntProgress(max=10), ipywidgets.Label("begins"), ipywidgets.Output()
display(ipywidgets.VBox([bar, label, out]))
for number in range(6000):
    bar.value, label.value = number % 10, f"step {number}"
    with out:
        print("inside", number)
    time.sleep(0.1)
    if pathlib.Path("stop").exists():
        break
label.value = "all steps done"
"""

CAPTURED = """
import ipywidgets, pathlib, time
out = ipywidgets.Output()
display(out)
with out:
    for number in range(6000):
        print("inside", number)
        time.sleep(0.1)
        if pathlib.Path("stop").exists():
            break
print("outside")
"""

LARGE_OUTPUT = """
import pathlib, time
from IPython.display import HTML, display
shown = display(HTML("first picture"), display_id=True)
while not pathlib.Path("much").exists():
    time.sleep(0.05)
for number in range(100):
    shown.update(HTML("<!--" + "x" * 1_000_000 + "-->"))
shown.update(HTML("last picture"))
print("all shown")
while not pathlib.Path("stop").exists():
    time.sleep(0.05)
print("over")
"""

INPUT = """
import getpass
name = input("who? ")
print("hello", name)
print(len(getpass.getpass("secret? ")), "letters")
"""


@pytest.fixture
def stop(lab: Lab) -> Iterator[Path]:
    """The file that ends the cells above."""
    path = lab.folder / "stop"
    yield path
    path.unlink(missing_ok=True)


def test_a_tab_is_closed_while_a_cell_prints(pages: Callable[[], LabPage], lab: Lab, stop: Path) -> None:
    name = lab.write("closed.ipynb", CPU, STREAM, "print('queued', number)", "1 / 0", "print('never')")
    first = pages()
    notebook = first.notebook(name).ready()
    for number in range(4):
        notebook.run(number)
    expect(notebook.output(0)).to_contain_text("line 3")
    before = last_line(notebook)
    first.page.close()

    notebook = pages().notebook(name)
    wait_for(lambda: last_line(notebook) > before + 5, "lines appear that were printed after the tab was closed")
    for number in range(4):
        expect(notebook.prompt(number)).to_have_text("[*]:")
    expect(notebook.time(0)).to_have_text(re.compile(r"^0:\d\d$"))
    expect(notebook.button(0)).to_have_accessible_name("Interrupt this cell")
    expect(notebook.button(1)).to_have_accessible_name("This cell waits for the kernel")
    stop.touch()
    expect(notebook.prompt(2)).to_have_text("[3]:")
    assert_complete(notebook)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.output(1)).to_have_text(f"queued {last_line(notebook)}")
    expect(notebook.output(2)).to_contain_text("ZeroDivisionError")
    expect(notebook.prompt(3)).to_have_text("[ ]:")
    expect(notebook.output(3)).to_have_count(0)
    expect(notebook.time(0)).to_have_text(re.compile(r"^(\d+(\.\d)? s|\d:\d\d)$"))
    expect(notebook.time(3)).to_have_text("")


def test_a_reload_with_widgets(page: LabPage, lab: Lab, stop: Path) -> None:
    name = lab.write("widgets.ipynb", CPU, WIDGET)
    notebook = page.notebook(name).ready()
    notebook.run(0)
    label = notebook.cell(0).locator("div.widget-label")
    expect(label).to_have_text(re.compile(r"step [3-9]"))

    notebook = page.notebook(name)
    label = notebook.cell(0).locator("div.widget-label")
    expect(label).to_have_text(re.compile(r"step \d+"))
    seen = step(label.inner_text())
    wait_for(lambda: step(label.inner_text()) > seen + 5, "the widget is updated")
    expect(notebook.cell(0).locator(".widget-hprogress")).to_be_visible()
    stop.touch()
    expect(label).to_have_text("all steps done")
    expect(notebook.prompt(0)).to_have_text("[1]:")
    inside = numbers_in(notebook.output(0).first.inner_text())
    assert inside == list(range(len(inside)))
    assert len(inside) > seen


def test_a_reload_while_an_output_widget_captures(page: LabPage, lab: Lab, stop: Path) -> None:
    name = lab.write("captured.ipynb", CPU, CAPTURED)
    notebook = page.notebook(name).ready()
    notebook.run(0)
    widget = notebook.cell(0).locator(".widget-output")
    expect(widget).to_contain_text("inside 3")

    notebook = page.notebook(name)
    widget = notebook.cell(0).locator(".widget-output")
    expect(widget).to_contain_text("inside 4")
    seen = numbers_in(widget.inner_text())[-1]
    wait_for(lambda: numbers_in(widget.inner_text())[-1] > seen + 5, "the widget is updated")
    stop.touch()
    expect(notebook.prompt(0)).to_have_text("[1]:")
    printed = numbers_in(widget.inner_text())
    assert printed == list(range(len(printed)))
    notebook.save()
    outputs = json.loads((lab.folder / name).read_text())["cells"][0]["outputs"]
    assert [output["output_type"] for output in outputs] == ["display_data", "stream"]
    assert outputs[1]["text"] == ["outside\n"]


def test_an_input_box_survives_its_page_and_is_answered_in_another(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = lab.write("question.ipynb", CPU, INPUT)
    first = pages()
    notebook = first.notebook(name).ready()
    notebook.run(0)
    expect(notebook.box(0)).to_be_visible()
    first.page.close()

    first_page, second_page = pages(), pages()
    here, there = first_page.notebook(name), second_page.notebook(name)
    expect(here.box(0)).to_be_visible()
    there.box(0).fill("Ada")
    there.box(0).press("Enter")
    for notebook in here, there:
        expect(notebook.output(0).first).to_have_text("who?  Ada")
        expect(notebook.cell(0)).to_contain_text("hello Ada")
        expect(notebook.cell(0).locator('.jp-Stdin-input[type="password"]')).to_be_visible()
        expect(notebook.box(0)).to_have_count(1)  # the first one is closed
    here.box(0).fill("four")
    here.box(0).press("Enter")
    for notebook in here, there:
        expect(notebook.prompt(0)).to_have_text("[1]:")
        expect(notebook.box(0)).to_have_count(0)
        assert " ".join(notebook.text(0).split()) == "who? Ada hello Ada secret? ········ 4 letters"


def test_two_browsers_show_the_same(pages: Callable[[], LabPage], lab: Lab, stop: Path) -> None:
    name = lab.write("two.ipynb", CPU, STREAM, "print('from the other')")
    here = pages().notebook(name).ready()
    there = pages().notebook(name).ready()
    here.run(0)
    expect(there.prompt(0)).to_have_text("[*]:")
    expect(there.output(0)).to_contain_text("line 3")
    there.run(1)
    stop.touch()
    for notebook in here, there:
        expect(notebook.output(1)).to_have_text("from the other")
        expect(notebook.prompt(1)).to_have_text("[2]:")
        expect(notebook.prompt(0)).to_have_text("[1]:")
        assert_complete(notebook)
    here.save()
    cells = lab.get(f"api/contents/{name}")["content"]["cells"]
    assert [cell["execution_count"] for cell in cells] == [1, 2, None]  # the last one was added by Shift+Enter
    assert cells[1]["outputs"][0]["text"] == "from the other\n"


def test_the_server_is_killed_and_nothing_is_missing(page: LabPage, lab: Lab, stop: Path) -> None:
    name = lab.write("killed.ipynb", CPU, STREAM)
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_contain_text("line 3")
    lab.kill()
    before = last_line(notebook)
    wait_for(lambda: last_line(notebook) > before + 5, "later lines appear")
    assert_complete(notebook, ended=False)

    page.page.goto("about:blank")
    lab.kill()
    notebook = page.notebook(name)
    expect(notebook.prompt(0)).to_have_text("[*]:")
    before = last_line(notebook)
    wait_for(lambda: last_line(notebook) > before + 5, "later lines appear")
    stop.touch()
    expect(notebook.prompt(0)).to_have_text("[1]:")
    assert_complete(notebook)


def test_the_network_is_cut(page: LabPage, lab: Lab, stop: Path) -> None:
    name = lab.write("cut.ipynb", CPU, STREAM, "print('printed meanwhile')")
    with Network(int(lab.state["port"])) as network:
        notebook = page.notebook(name, network.url).ready()
        notebook.run(0)
        expect(notebook.output(0)).to_contain_text("line 3")
        network.cut()
        notebook.run(1)  # kept until the server is reachable
        expect(page.page.get_by_text("does not answer")).to_be_visible()
        before = last_line(notebook)
        network.restore()
        wait_for(lambda: last_line(notebook) > before + 5, "later lines appear")
        stop.touch()
        expect(notebook.prompt(1)).to_have_text("[2]:")
        expect(notebook.output(1)).to_have_text("printed meanwhile")
        expect(page.dialog).to_have_count(0)
        assert_complete(notebook)


def test_the_journal_is_compacted_while_the_page_is_disconnected(page: LabPage, lab: Lab, stop: Path) -> None:
    """The page cannot receive the missed messages one by one: each cell is replayed from the compacted journal."""
    name = lab.write("much.ipynb", CPU, LARGE_OUTPUT, "print('second')")
    with Network(int(lab.state["port"])) as network:
        notebook = page.notebook(name, network.url).ready()
        notebook.run(0)
        notebook.run(1)
        expect(notebook.output(0)).to_have_text("first picture")
        network.cut()
        (lab.folder / "much").touch()
        journal = lab.base / "home" / "journals" / lab.kernel_of(name)
        wait_for(lambda: any(journal.glob("*.folded")), "the journal is compacted")
        network.restore()
        expect(notebook.cell(0)).to_contain_text("all shown")
        stop.touch()
        expect(notebook.prompt(1)).to_have_text("[2]:")
        expect(notebook.prompt(0)).to_have_text("[1]:")
        assert [notebook.text(0), notebook.text(1)] == ["last pictureall shown\nover\n", "second\n"]


@pytest.mark.restarts_kernel
def test_a_kernel_restarts(page: LabPage, lab: Lab) -> None:
    """JupyterLab drops earlier executions; later ones are shown, also after a reload in between."""
    name = lab.write(
        "restart.ipynb", CPU, "import time\nprint('begins')\ntime.sleep(600)", "print('new', 'time' in dir())"
    )
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("begins")
    page.notebook(name)
    expect(notebook.output(0)).to_have_text("begins")
    expect(notebook.prompt(0)).to_have_text("[*]:")
    notebook.wait_until_busy()  # outputs are shown before the page is connected
    page.menu("Runtime", "Restart Kernel…")
    page.answer("Confirm Kernel Restart")
    expect(notebook.prompt(0)).to_have_text("[ ]:")
    notebook.ready().run(1)
    expect(notebook.output(1)).to_have_text("new False")
    expect(notebook.prompt(1)).to_have_text("[1]:")
    expect(notebook.output(0)).to_have_text("begins")
    page.notebook(name)
    expect(notebook.output(1)).to_have_text("new False")
    expect(notebook.prompt(1)).to_have_text("[1]:")
    # A restart interrupts the cell first. A kernel that is quick enough still says so, and has then finished the cell.
    expect(notebook.output(0).first).to_contain_text("begins")
    expect(notebook.prompt(0)).to_have_text(re.compile(r"\[[ 1]\]:"))


def assert_complete(notebook: Notebook, ended: bool = True) -> None:
    """Check that every printed line is shown once, in order."""
    text = notebook.text(0)
    lines = list(map(int, re.findall(r"line (\d+)\n", text)))
    assert lines == list(range(len(lines)))
    assert text.count("done") == ended


def last_line(notebook: Notebook) -> int:
    """Return the number of the last line that the page shows."""
    return max(map(int, re.findall(r"line (\d+)", notebook.text(0))), default=-1)


def numbers_in(printed: str) -> list[int]:
    return [int(number) for number in re.findall(r"inside (\d+)", printed)]


def step(label: str) -> int:
    return int(re.findall(r"\d+", label)[0])
