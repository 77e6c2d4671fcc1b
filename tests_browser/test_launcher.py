"""The first steps in a lab: the welcome notebook, the launcher, the token."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect
from tests_browser.lab import Lab
from tests_browser.notebook import LabPage, Notebook

TYPES = ("CPU", *(f"{count} × NVIDIA GeForce GTX 1080 Ti" for count in ("1", "½", "2", "4")))


def test_the_welcome_notebook_opens_and_runs(page: LabPage, lab: Lab) -> None:
    page.load(lab.address)
    notebook = Notebook(page.page).ready()
    expect(notebook.panel.get_by_role("heading", name="Welcome to your lab")).to_be_visible()
    page.menu("Run", "Run All Cells")
    cells = notebook.panel.locator(".jp-CodeCell")
    count = cells.count()
    assert count >= 2
    for number in range(count):
        expect(notebook.prompt(number)).to_have_text(re.compile(r"\[\d+\]:"))
        expect(notebook.output(number)).to_have_text(re.compile(r"\w"))
    expect(notebook.panel.locator('[data-mime-type="application/vnd.jupyter.error"]')).to_have_count(0)
    expect(notebook.panel.locator('[data-mime-type="application/vnd.jupyter.stderr"]')).to_have_count(0)


def test_the_launcher_offers_and_starts_runtime_types(page: LabPage, lab: Lab) -> None:
    page.open()
    for label in TYPES:
        expect(page.launcher_card(f"Python 3 ({label})")).to_be_visible()
    # A plain kernel would use every card without a lease.
    expect(page.launcher_card("Python 3 (ipykernel)")).to_have_count(0)
    page.launcher_card("Python 3 (½ × NVIDIA GeForce GTX 1080 Ti)").click()
    notebook = Notebook(page.page).ready()
    notebook.write(0, "print(6 * 7)")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("42")
    [runtime] = lab.snapshot()["runtimes"]
    assert [card["parts"] for card in runtime["cards"]] == [6]


@pytest.mark.parametrize("token", ["", "?token=guessed"])
def test_the_lab_requires_the_token(context: BrowserContext, lab: Lab, token: str) -> None:
    context.clear_cookies()
    page = context.new_page()
    page.goto(f"{lab.url}lab{token}")
    expect(page).to_have_url(re.compile(r"/login\?"))
    expect(page.get_by_role("textbox", name="Password or token:")).to_be_visible()
    page.close()
