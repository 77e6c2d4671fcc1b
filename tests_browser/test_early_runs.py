"""Cells that are run before their kernel takes requests are queued: nothing that people run is swallowed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests_browser.lab import CPU, Lab
from tests_browser.notebook import LabPage, Notebook

# In the page, at the first moment at which a notebook has cells.
RUN_AT_ONCE = """
() => new Promise(done => {
  const timer = setInterval(() => {
    const cell = document.querySelector('.jp-NotebookPanel .jp-CodeCell .cm-content');
    if (cell) {
      clearInterval(timer);
      cell.focus();
      cell.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', code: 'Enter', keyCode: 13, shiftKey: true, bubbles: true }));
      done();
    }
  }, 5);
})
"""


def test_shift_enter_as_soon_as_there_is_a_cell(page: LabPage, lab: Lab) -> None:
    name = lab.write("early.ipynb", CPU, "print('first')", "print('second')")
    page.page.goto(lab.page(f"lab/tree/{name}"), wait_until="commit")
    page.page.evaluate(RUN_AT_ONCE)
    notebook = Notebook(page.page)
    expect(notebook.output(0)).to_have_text("first")
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(page.dialog).to_have_count(0)


def test_run_all_in_the_first_seconds(page: LabPage, lab: Lab) -> None:
    name = lab.write("early-all.ipynb", CPU, "print('first')", "print('second')", "print('third')")
    notebook = page.notebook(name)
    page.menu("Run", "Run All Cells")
    for number, text in enumerate(("first", "second", "third")):
        expect(notebook.output(number)).to_have_text(text)
        expect(notebook.prompt(number)).to_have_text(f"[{number + 1}]:")
    assert len([one for one in lab.snapshot()["runtimes"] if one["notebook"].endswith(name)]) == 1


def test_a_new_notebook_from_the_start_page(page: LabPage, lab: Lab) -> None:
    page.open()
    page.tile(CPU).click()
    notebook = Notebook(page.page)
    notebook.write(0, "print(6 * 7)")
    page.page.keyboard.press("Shift+Enter")
    expect(notebook.output(0)).to_have_text("42")


def test_run_right_after_stop(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("stopped.ipynb", CPU, "n = 1", "print('n' in dir())")).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    page.menu("Runtime", "Stop Runtime…")
    page.answer("Stop")
    page.menu("Run", "Run All Cells")
    expect(notebook.output(1)).to_have_text("True")
    expect(page.dialog).to_have_count(0)


@pytest.mark.restarts_kernel
def test_run_right_after_the_runtime_was_stopped_in_the_panel(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("panel.ipynb", CPU, "print('n' in dir())", "n = 1")).ready()
    notebook.run(0)
    notebook.run(1)
    expect(notebook.prompt(1)).to_have_text("[2]:")
    page.details("panel.ipynb").get_by_role("button", name="Stop the runtime of panel.ipynb").click()
    page.answer("Stop")
    page.menu("Run", "Run All Cells")
    expect(notebook.prompt(1)).to_have_text("[2]:")
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.output(0)).to_have_text("False")
