"""What cards and notebooks do, in the panel: figures, curves, and the verdict in words."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect
from tests_browser.cards import four_h200
from tests_browser.lab import Lab, wait_for
from tests_browser.notebook import LabPage

CARD = "ownlab-1-nvidia-h200"
WORKS = "import time\nuntil = time.time() + 600\nwhile time.time() < until: sum(range(20_000))"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Its four H200 are recorded: a tiny kernel in a loop, a product of matrices, a loop that starves, nothing."""
    base = tmp_path_factory.mktemp("monitor")
    made = Lab(base / "lab", **four_h200(base))
    try:
        yield made.up()
    finally:
        made.clear()


def test_each_card_says_what_it_does(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("train.ipynb", CARD, WORKS)).ready()
    notebook.run(0)
    tiny, product, starved, idle = (work_of(page, number) for number in range(4))
    expect(shares_of(tiny)).to_have_text([re.compile("busy(99|100) %"), "SMs0.8 %", "tensor0 %", "DRAM0 %"])
    expect(tiny.get_by_role("img", name=re.compile("^busy .+, SMs 0.8 %"))).to_be_visible()
    expect(tiny.locator(".ownlab-Curve-behind")).to_have_count(1)
    for work, words in ((tiny, "SMs"), (product, "ensor"), (starved, "tarved"), (idle, "nothing runs")):
        expect(work.locator(".ownlab-Verdict")).to_contain_text(words)

    advice = tiny.locator(".ownlab-Verdict-more")
    expect(advice).not_to_be_visible()
    tiny.locator("summary").click()
    expect(advice).to_be_visible()
    line = tiny.locator(".ownlab-Curve-line")
    before = line.get_attribute("d")
    wait_for(lambda: line.get_attribute("d") != before, "it is drawn anew")
    expect(advice).to_be_visible()  # what was opened stays open

    notebook.indicator.click()
    popover = page.page.get_by_role("dialog", name="This notebook’s runtime")
    expect(popover.locator(".ownlab-Popover-verdict")).to_contain_text("SMs")
    page.page.keyboard.press("Escape")

    row = page.row("train.ipynb")
    expect(row.get_by_role("img", name=re.compile(r"^CPU: (0\.)?[1-9].* of \d+ cores$"))).to_be_visible()
    expect(row.get_by_role("img", name=re.compile(r"^GPU: \d+ %$"))).to_be_visible()


def work_of(page: LabPage, card: int) -> Locator:
    return page.panel().get_by_role("group", name=f"Utilization of card {card}", exact=True)


def shares_of(work: Locator) -> Locator:
    return work.locator(".ownlab-Share")
