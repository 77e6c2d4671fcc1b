"""Utilization of cards and notebooks in the panel: figures, curves and verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect
from tests_browser.lab import Lab, wait_for
from tests_browser.notebook import LabPage
from tests_browser.recorded_cards import four_h200

CARD = "ownlab-1-nvidia-h200"
BUSY_LOOP = "import time\nuntil = time.time() + 600\nwhile time.time() < until: sum(range(20_000))"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with four recorded H200: tiny kernels, matrix products, a starved training loop, idle."""
    base = tmp_path_factory.mktemp("monitor")
    made = Lab(base / "lab", **four_h200(base))
    try:
        yield made.up()
    finally:
        made.clear()


def test_each_card_shows_its_utilization_and_verdict(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("train.ipynb", CARD, BUSY_LOOP)).ready()
    notebook.run(0)
    tiny, product, starved = (utilization_of(page, number) for number in range(3))
    expect(metrics_of(tiny)).to_have_text([re.compile("busy(99|100) %"), "SMs0.8 %", "tensor0 %", "DRAM0 %"])
    expect(tiny.get_by_role("img", name=re.compile("^busy .+, SMs 0.8 %"))).to_be_visible()
    expect(tiny.locator(".ownlab-Curve-behind")).to_have_count(1)
    for card, phrase in ((tiny, "SMs"), (product, "ensor"), (starved, "tarved")):
        expect(card.locator(".ownlab-Verdict")).to_contain_text(phrase)

    expect(page.panel().locator(".ownlab-Card").nth(3)).to_have_text("3 · H200free")  # one line: nothing runs there

    advice = tiny.locator(".ownlab-Verdict-more")
    expect(advice).not_to_be_visible()
    tiny.locator("summary").click()
    expect(advice).to_be_visible()
    line = tiny.locator(".ownlab-Curve-line")
    before = line.get_attribute("d")
    wait_for(lambda: line.get_attribute("d") != before, "the curve is updated")
    expect(advice).to_be_visible()  # open details stay open

    notebook.indicator.click()
    popover = page.page.get_by_role("dialog", name="This notebook’s runtime")
    expect(popover.locator(".ownlab-Popover-verdict")).to_contain_text("SMs")
    page.page.keyboard.press("Escape")

    row = page.details("train.ipynb")
    expect(row.get_by_role("img", name=re.compile(r"^CPU: (0\.)?[1-9].* of \d+ cores$"))).to_be_visible()
    expect(row.get_by_role("img", name=re.compile(r"^GPU: \d+ %$"))).to_be_visible()


def utilization_of(page: LabPage, card: int) -> Locator:
    return page.panel().get_by_role("group", name=f"Utilization of card {card}", exact=True)


def metrics_of(card: Locator) -> Locator:
    return card.locator(".ownlab-Share")
