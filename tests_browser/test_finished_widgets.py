"""Finished widgets are still drawn after their runtime has ended: their state is saved with the notebook."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import expect
from tests_browser.lab import CPU, Lab, wait_for
from tests_browser.notebook import LabPage

BAR = """
from tqdm.notebook import tqdm
for step in tqdm(range(5), desc="training"):
    pass
"""
STATE = "application/vnd.jupyter.widget-state+json"


@pytest.mark.restarts_kernel
@pytest.mark.parametrize("opened", [True, False], ids=["with-a-page", "without-a-page"])
def test_a_finished_progress_bar(pages: Callable[[], LabPage], lab: Lab, opened: bool) -> None:
    name = lab.write(f"bar-{opened}.ipynb", CPU, BAR)
    first = pages()
    notebook = first.notebook(name)
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(notebook.output(0)).to_contain_text("5/5")
    if not opened:
        first.page.close()
    lab.end(lab.kernel_of(name))

    def saved() -> dict[str, object]:
        metadata = json.loads((lab.folder / name).read_text())["metadata"]
        found: dict[str, object] = metadata.get("widgets", {}).get(STATE, {}).get("state", {})
        return found

    wait_for(saved, "its state is in the file")
    second = pages()
    later = second.notebook(name)
    expect(later.output(0)).to_contain_text("training")
    expect(later.output(0)).to_contain_text("5/5")
    expect(later.output(0).locator(".jupyter-widgets, [role=progressbar]").first).to_be_visible()
