"""The server becomes unreachable while a cell runs: the page reconnects automatically."""

from __future__ import annotations

import os
import re
import signal

from playwright.sync_api import expect
from tests_browser.lab import CPU, Lab, wait_for
from tests_browser.notebook import LabPage, Notebook

# Runs until the file exists, however long a new server takes to start.
SLOW = """
import pathlib, time
for number in range(450):
    print("line", number, flush=True)
    time.sleep(0.2)
    if pathlib.Path("enough").exists():
        print("done")
        break
"""


def test_the_page_reconnects_after_the_server_was_killed(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("slow.ipynb", CPU, SLOW, "print('still', number > 3)")).ready()
    kernel, port, killed = lab.kernel_of("slow.ipynb"), lab.state["port"], lab.server_pid
    notebook.run(0)
    expect(notebook.output(0)).to_contain_text("line 3")

    os.kill(killed, signal.SIGKILL)
    before = last_line(notebook)
    wait_for(lambda: lab.is_up() and lab.server_pid != killed, "another server answers")
    wait_for(lambda: last_line(notebook) > before + 5, "later lines appear")
    (lab.folder / "enough").touch()
    expect(notebook.output(0)).to_contain_text("done")
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(page.dialog).to_have_count(0)
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("still True")
    expect(notebook.prompt(1)).to_have_text("[2]:")

    assert lab.kernel_of("slow.ipynb") == kernel
    assert lab.up().state["port"] == port
    expect(notebook.indicator).to_contain_text("CPU")
    expect(page.page.get_by_text("does not answer")).to_have_count(0)


def test_the_page_reconnects_after_a_long_time(page: LabPage, lab: Lab) -> None:
    """JupyterLab itself gives up after at most two minutes; the page's clock is advanced by ten."""
    page.page.clock.install()
    notebook = page.notebook(lab.write("absence.ipynb", CPU, SLOW.replace("enough", "at last"))).ready()
    kernel, port = lab.kernel_of("absence.ipynb"), lab.state["port"]
    notebook.run(0)
    expect(notebook.output(0)).to_contain_text("line 3")

    assert lab.ownlab("down", str(lab.folder)).returncode == 0
    notice = page.page.get_by_text("The lab’s server does not answer")
    expect(notice).to_be_visible()
    for _ in range(20):
        with page.page.expect_event("requestfailed"):  # it still tries
            page.page.clock.fast_forward("00:30")
    expect(page.dialog).to_have_count(0)

    before = last_line(notebook)
    assert lab.up().state["port"] == port
    page.page.clock.fast_forward("00:30")
    wait_for(lambda: last_line(notebook) > before + 5, "later lines appear")
    (lab.folder / "at last").touch()
    expect(notebook.output(0)).to_contain_text("done")
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notice).to_have_count(0)
    assert lab.kernel_of("absence.ipynb") == kernel


def last_line(notebook: Notebook) -> int:
    """Return the number of the last line that the page shows."""
    return max(map(int, re.findall(r"line (\d+)", notebook.output(0).last.inner_text())), default=-1)
