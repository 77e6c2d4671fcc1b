"""A dead kernel in the page: the cells say why at once, a notice offers to run them again, a page opened later shows the same."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, WebSocketRoute, expect
from tests_browser.lab import CPU, PATIENCE, Lab, wait_for
from tests_browser.notebook import LabPage, Notebook

pytestmark = pytest.mark.restarts_kernel

BEFORE = "print('prepared', flush=True)"
# The first time it waits to be killed; the next time it ends.
TRAIN = """
import pathlib, time
print("epoch 1", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
print("trained")
"""
SHOTS = os.environ.get("OWNLAB_SHOTS", "")


def process(lab: Lab, notebook: str, who: str = "kernel") -> int:
    """The id of a process of a notebook's runtime."""
    [runtime] = [one for one in lab.snapshot()["runtimes"] if Path(one["notebook"]).name == notebook]
    state = json.loads((lab.base / "home" / "runtimes" / runtime["id"] / "state.json").read_text())
    return int((state[who] or {"pid": 0})["pid"])  # between two kernels there is none


def notice(page: Page) -> Locator:
    return page.locator(".ownlab-NotebookNotice")


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait, while events of the page are handled."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


def start(page: LabPage, lab: Lab, name: str) -> Notebook:
    """Run all cells; the second one runs until it is told to end."""
    (lab.folder / "go").unlink(missing_ok=True)
    notebook = page.notebook(lab.write(name, CPU, BEFORE, TRAIN, "print('last')"))
    page.menu("Run", "Run All Cells")
    expect(notebook.output(1)).to_contain_text("epoch 1")
    return notebook


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png")


def test_an_open_page_shows_it_at_once_and_runs_the_cells_again(page: LabPage, lab: Lab) -> None:
    notebook = start(page, lab, "killed.ipynb")
    os.kill(process(lab, "killed.ipynb"), signal.SIGKILL)
    expect(notebook.output(1).last).to_contain_text("KernelDied: The kernel was killed by signal 9.")
    expect(notebook.output(1).first).to_contain_text("epoch 1")
    expect(notebook.output(2)).to_contain_text("not run: the kernel died")
    expect(notebook.prompt(1)).to_have_text("[ ]:")
    expect(notice(page.page)).to_contain_text("The kernel was killed by signal 9.")
    expect(page.dialog).to_have_count(0)  # JupyterLab's own does not say why
    shoot(page.page, "dead-kernel-light")
    (lab.folder / "go").touch()
    notice(page.page).get_by_role("button", name="Restart and run up to that cell").click()
    expect(notebook.output(1).last).to_contain_text("trained")
    expect(notice(page.page)).to_have_count(0)
    expect(notebook.output(1)).to_have_count(1)
    expect(notebook.output(2)).to_contain_text("not run")  # it is below that cell
    expect(notebook.output(0)).to_have_text("prepared")


def test_a_page_opened_later_shows_the_same(pages: Callable[[], LabPage], lab: Lab) -> None:
    first = pages()
    start(first, lab, "away.ipynb")
    first.page.close()
    os.kill(process(lab, "away.ipynb"), signal.SIGKILL)
    wait_for(lambda: "KernelDied" in (lab.folder / "away.ipynb").read_text(), "the file has the note")
    second = pages()
    notebook = second.notebook("away.ipynb")
    expect(notebook.output(1).last).to_contain_text("KernelDied")
    expect(notebook.output(2)).to_contain_text("not run: the kernel died")
    expect(notice(second.page)).to_contain_text("killed by signal 9")
    expect(notebook.panel.locator(".jp-mod-dirty")).to_have_count(0)
    (lab.folder / "go").touch()
    notice(second.page).get_by_role("button", name="Restart and run up to that cell").click()
    expect(notebook.output(1).last).to_contain_text("trained")
    expect(notice(second.page)).to_have_count(0)


def test_who_goes_on_with_the_notebook_no_longer_sees_the_notice(pages: Callable[[], LabPage], lab: Lab) -> None:
    first = pages()
    notebook = start(first, lab, "goes_on.ipynb")
    os.kill(process(lab, "goes_on.ipynb"), signal.SIGKILL)
    expect(notice(first.page)).to_contain_text("killed by signal 9")
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notice(first.page)).to_have_count(0)
    expect(notebook.output(1).last).to_contain_text("KernelDied")  # the cell keeps its note
    second = pages()
    reopened = second.notebook("goes_on.ipynb").ready()
    expect(reopened.output(1).last).to_contain_text("KernelDied")
    expect(notice(second.page)).to_have_count(0)


def test_a_killed_supervisor(page: LabPage, lab: Lab) -> None:
    notebook = start(page, lab, "supervisor.ipynb")
    os.kill(process(lab, "supervisor.ipynb", "supervisor"), signal.SIGKILL)
    expect(notebook.output(1).last).to_contain_text("its supervisor process was killed by signal 9")
    expect(notebook.output(2)).to_contain_text("not run: the kernel died")
    (lab.folder / "go").touch()
    page.page.set_viewport_size({"width": 1000, "height": 800})
    for button in notice(page.page).get_by_role("button").all():
        expect(button).to_be_in_viewport(ratio=1)  # not cut off in a narrow window
    notice(page.page).get_by_role("button", name="Restart and run up to that cell").click()
    expect(notebook.output(1).last).to_contain_text("trained")


def test_a_kernel_that_died_while_idle(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("idle.ipynb", CPU, BEFORE)).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("prepared")
    os.kill(process(lab, "idle.ipynb"), signal.SIGSEGV)
    expect(notice(page.page)).to_contain_text("No cell was running. All variables are lost.")
    notice(page.page).get_by_role("button", name="Dismiss").click()
    expect(notice(page.page)).to_have_count(0)
    notebook.run(0)  # perhaps before the next kernel has started
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.output(0)).to_have_text("prepared")


class HeldSockets:
    """The websockets to kernels: what comes on those that are opened while they are held back waits."""

    def __init__(self, page: Page) -> None:
        self.holding = False
        self._waiting: list[tuple[WebSocketRoute, str | bytes]] = []
        page.route_web_socket(re.compile("/api/kernels/.*/channels"), self._on_open)

    @property
    def has_some(self) -> bool:
        return bool(self._waiting)

    def release(self) -> None:
        self.holding = False
        for socket, data in self._waiting:
            socket.send(data)

    def _on_open(self, socket: WebSocketRoute) -> None:
        is_late, server = self.holding, socket.connect_to_server()

        def receive(data: str | bytes) -> None:
            if is_late and self.holding:
                self._waiting.append((socket, data))
            else:
                socket.send(data)

        server.on_message(receive)


def test_a_cell_that_is_run_while_the_page_connects_to_the_next_kernel(page: LabPage, lab: Lab) -> None:
    """The page has heard of the restart, and of nothing else: the cell is meant for the next kernel."""
    sockets = HeldSockets(page.page)
    notebook = page.notebook(lab.write("connecting.ipynb", CPU, BEFORE)).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("prepared")
    sockets.holding = True
    os.kill(process(lab, "connecting.ipynb"), signal.SIGKILL)
    expect(notice(page.page)).to_contain_text("No cell was running.")
    wait_until(page.page, lambda: sockets.has_some)
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[*]:")
    sockets.release()
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.output(0)).to_have_text("prepared")


def test_a_restart_by_the_user_is_no_death(page: LabPage, lab: Lab) -> None:
    notebook = start(page, lab, "restarted.ipynb")
    page.menu("Runtime", "Restart Kernel")
    page.dialog.get_by_role("button", name="Confirm Kernel Restart").click()
    notebook.ready()
    expect(notice(page.page)).to_have_count(0)
    expect(notebook.panel).not_to_contain_text("KernelDied")
    expect(notebook.panel).not_to_contain_text("NotRun")


def test_a_cell_that_was_not_sent_yet_says_that_it_was_not_run(page: LabPage, lab: Lab) -> None:
    """It was run before the page knew of the death, but its code is saved first: the next kernel must not run it."""
    (lab.folder / "go").unlink(missing_ok=True)
    kill = "import os, pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.05)\nos.kill(os.getpid(), 9)"
    notebook = page.notebook(lab.write("unsent.ipynb", CPU, kill, "", "print('last')")).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[*]:")
    held: list[Route] = []
    edits = re.compile("/ownlab/api/notebooks/edits")
    page.page.route(edits, lambda route: held.append(route))
    notebook.write(1, "print('never')")
    notebook.run(1)
    notebook.run(2)
    while not held:  # its code is being saved
        page.page.wait_for_timeout(50)
    (lab.folder / "go").touch()
    expect(notebook.output(0).last).to_contain_text("KernelDied: The cell ended its own kernel, with signal 9.")
    page.page.unroute(edits)  # they continue
    expect(notebook.output(1)).to_contain_text("NotRun: not run: the kernel died")
    expect(notebook.output(2)).to_contain_text("NotRun: not run: the kernel died")
    for number in (1, 2):
        expect(notebook.prompt(number)).to_have_text("[ ]:")
        expect(notebook.button(number)).to_have_attribute("aria-label", "Run this cell")
    notebook.run(2)  # the user knows now
    expect(notebook.output(2)).to_have_text("last")
    wait_for(lambda: "not run: the kernel died" in (lab.folder / "unsent.ipynb").read_text(), "the file says so, too")
