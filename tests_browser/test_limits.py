"""A lab with limits: the page shows the time left, warns before the end, and extends the runtime."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests_browser.lab import CARD, Lab, wait_for
from tests_browser.notebook import LabPage

# A limit of three minutes, with a warning 2 minutes and 59 seconds before the end.
CONFIG = """
[limits]
session_hours = 0.05
warn_minutes = 2.99
extend_minutes = 90
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with limits instead of the default one."""
    made = Lab(tmp_path_factory.mktemp("limited"), CONFIG)
    try:
        yield made.up()
    finally:
        made.clear()


def test_a_warning_before_the_end_offers_to_extend(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("long.ipynb", CARD, "print('work')")).ready()
    kernel = lab.kernel_of("long.ipynb")
    expect(notebook.indicator).to_have_accessible_name(re.compile(r"[23] min left"))
    warning = page.notification.filter(has_text=re.compile(r"The runtime of long\.ipynb ends in [23] min"))
    expect(warning).to_be_visible()
    expect(page.details("long.ipynb")).to_contain_text(re.compile(r"[23] min left"))
    ends_at = end_of(lab, kernel)
    assert ends_at < time.time() + 180

    warning.get_by_role("button", name="Extend").click()
    wait_for(lambda: end_of(lab, kernel) > ends_at + 5000, "the end has moved")
    expect(notebook.indicator).to_have_accessible_name(re.compile(r"1 h 3\d min left"))
    expect(warning).to_have_count(0)
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("work")


def end_of(lab: Lab, kernel: str) -> float:
    runtime = lab.runtime(kernel)
    assert runtime is not None
    return float(runtime["ends_at"])
