"""If every card is in use, the page shows by whom, and offers to wait or to use the CPU."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from tests_browser.lab import CARD, Lab, wait_for
from tests_browser.notebook import LabPage

PRINT_CARDS = "import os; print('sees', repr(os.environ['CUDA_VISIBLE_DEVICES']))"


@pytest.fixture
def taken(lab: Lab) -> list[str]:
    """Start four runtimes with a card each; return their kernels' ids, in the order of the cards."""
    kernels = [lab.start(f"train-{number}.ipynb", CARD) for number in range(4)]

    def all_run() -> bool:
        return [runtime["state"] for runtime in lab.snapshot()["runtimes"]] == ["running"] * 4

    wait_for(all_run, "four runtimes are running")
    held = {card["holders"][0]["runtime"]: card["index"] for card in lab.snapshot()["cards"]}
    return sorted(kernels, key=held.__getitem__)


def test_a_waiting_runtime_starts_automatically_and_runs_its_cell(taken: list[str], page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("fifth.ipynb", CARD, PRINT_CARDS)).connect()
    expect(page.dialog).to_contain_text("fifth.ipynb has to wait for a card")
    for line in page.dialog.locator(".ownlab-Queue-cards li").all():
        expect(line).to_contain_text(re.compile(r"Card [0-3].*you, train-[0-3]\.ipynb, since \d\d:\d\d"))
    expect(page.dialog.locator(".ownlab-Queue-cards li")).to_have_count(4)
    page.answer("Wait in the queue (place 1)")
    expect(notebook.indicator).to_contain_text("waiting, place 1")

    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[*]:")
    lab.end(taken[2])
    expect(notebook.output(0)).to_have_text("sees '2'")
    expect(notebook.prompt(0)).to_have_text("[1]:")
    [fifth] = [runtime for runtime in lab.snapshot()["runtimes"] if runtime["notebook"].endswith("fifth.ipynb")]
    assert [card["index"] for card in fifth["cards"]] == [2]
    expect(page.notification.filter(has_text="fifth.ipynb has its card")).to_be_visible()
    expect(notebook.indicator).to_contain_text("1 × GTX 1080 Ti")
    expect(page.dialog).to_have_count(0)


@pytest.mark.restarts_kernel
def test_a_waiting_notebook_can_use_the_cpu_instead(taken: list[str], page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("impatient.ipynb", CARD, PRINT_CARDS)).connect()
    expect(page.dialog).to_contain_text("impatient.ipynb has to wait for a card")
    page.answer("Use the CPU")
    notebook.ready()
    expect(notebook.indicator).to_contain_text("CPU")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("sees ''")
    assert {runtime["id"] for runtime in lab.snapshot()["runtimes"] if runtime["cards"]} == set(taken)
    assert not [runtime for runtime in lab.snapshot()["runtimes"] if runtime["state"] == "waiting"]
