"""A card that nobody uses is released when no page shows its notebook, and a cell connects the notebook again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests_browser.lab import CARD, CPU, Lab, wait_for
from tests_browser.notebook import LabPage

SECONDS = 6
CONFIG = f"""
[limits]
unattended_gpu_minutes = {SECONDS / 60}
warn_minutes = 0.01
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that releases cards after some seconds instead of the default one."""
    made = Lab(tmp_path_factory.mktemp("idle"), CONFIG)
    try:
        yield made.up()
    finally:
        made.clear()


def test_a_card_without_a_page_is_released_and_a_cell_connects_again(page: LabPage, lab: Lab) -> None:
    lab.write("cpu.ipynb", CPU, "")
    other = lab.start("cpu.ipynb", CPU)  # without a card there is nothing to release
    name = lab.write("card.ipynb", CARD, "here = 1\nprint('ran')", "print('here' in dir())")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("ran")
    kernel = lab.kernel_of(name)
    page.page.wait_for_timeout(1000 * 2 * SECONDS)
    assert lab.runtime(kernel) is not None, "it was released although a page shows it"

    page.page.goto("about:blank")
    wait_for(lambda: lab.runtime(kernel) is None, "the runtime was released")
    assert lab.runtime(other) is not None
    assert all(card["free_parts"] == 12 for card in lab.snapshot()["cards"])

    notebook = page.notebook(name)
    expect(notebook.output(0)).to_have_text("ran")  # kept
    expect(notebook.connect_button).to_be_visible()
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("False")  # in a new runtime
    expect(page.dialog).to_have_count(0)
    assert lab.kernel_of(name) != kernel
    [runtime] = [each for each in lab.snapshot()["runtimes"] if each["type"] == CARD]
    assert runtime["cards"]
