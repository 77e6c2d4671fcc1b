"""A notebook on a card: what the page shows of its runtime, and the actions on it."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests_browser.lab import CARD, CPU, Lab, wait_for
from tests_browser.notebook import LabPage

PRINT_CARDS = "import os; print('sees', os.environ['CUDA_VISIBLE_DEVICES'])"
ALLOCATE = "held = bytearray(300_000_000); print('held')"
MIB = 2**20


def test_a_runtime_is_shown_with_live_figures(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("figures.ipynb", CARD, PRINT_CARDS, ALLOCATE)).ready()
    notebook.run(0)
    [card] = lab.snapshot()["runtimes"][0]["cards"]
    expect(notebook.output(0)).to_have_text(f"sees {card['index']}")

    expect(notebook.indicator).to_contain_text("1 × GTX 1080 Ti")
    figure = notebook.indicator.locator(".ownlab-Bar-figure").first
    expect(figure).to_have_text(re.compile(r"\d .iB$"))
    before = size_of(figure.inner_text())
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("held")
    wait_for(lambda: size_of(figure.inner_text()) > before + 250 * MIB, "the allocated memory is shown")

    expect(page.row("figures.ipynb")).to_have_text(re.compile(r"^figures\.ipynb1 × GTX 1080 Ti · (idle )?\d+ s$"))
    row = page.details("figures.ipynb")
    expect(row).to_contain_text(f"card {card['index']}")
    expect(row).to_contain_text(re.compile(r"(busy|idle) for \d+ s"))
    expect(row).to_contain_text(re.compile(r"1 units?/h"))
    cards = page.panel().get_by_role("region", name="Cards")
    expect(cards.locator(".ownlab-Card").nth(card["index"])).to_contain_text("you · figures.ipynb")
    expect(cards.get_by_text("free", exact=True)).to_have_count(3)
    graph = page.panel().get_by_role("region", name="The last minutes")
    expect(graph.get_by_role("img", name=re.compile("^RAM: .+ of .+ GiB")).locator("path").first).to_be_visible()


def test_a_runtime_is_stopped_from_the_panel(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("stopped.ipynb", CARD, PRINT_CARDS)).ready()
    kernel = lab.kernel_of("stopped.ipynb")
    page.details("stopped.ipynb").get_by_role("button", name="Stop the runtime of stopped.ipynb").click()
    expect(page.dialog).to_contain_text("Its variables and running work are lost")
    page.answer("Cancel")
    assert lab.runtime(kernel) is not None

    page.row("stopped.ipynb").get_by_role("button", name="Stop the runtime of stopped.ipynb").click()
    page.answer("Stop")
    expect(page.row("stopped.ipynb")).to_have_count(0)
    expect(notebook.indicator).to_have_count(0)
    expect(page.panel().get_by_role("region", name="Cards").get_by_text("free", exact=True)).to_have_count(4)
    wait_for(
        lambda: kernel not in [model["id"] for model in lab.get("api/kernels")], "the server no longer lists the kernel"
    )
    assert all(card["free_parts"] == 12 for card in lab.snapshot()["cards"])
    expect(page.dialog).to_have_count(0)


def test_changing_the_type_keeps_the_notebook_and_warns_of_losses(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("change.ipynb", CPU, "mark = 1; print('kept')", PRINT_CARDS)).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("kept")
    notebook.indicator.click()
    page.page.get_by_role("dialog", name="This notebook’s runtime").get_by_role(
        "button", name="Change runtime type…"
    ).click()
    expect(page.dialog).to_contain_text("Its variables and running work are lost")
    expect(page.dialog).to_contain_text("The notebook, its outputs and your files are kept")
    page.dialog.locator(f'input[value="{CARD}"]').check()
    page.answer("Change")

    expect(notebook.indicator).to_contain_text("1 × GTX 1080 Ti")
    notebook.ready()
    expect(notebook.output(0)).to_have_text("kept")
    notebook.write(1, "import os; print('mark' in globals(), os.environ['CUDA_VISIBLE_DEVICES'])")
    notebook.run(1)
    [runtime] = lab.snapshot()["runtimes"]
    expect(notebook.output(1)).to_have_text(f"False {runtime['cards'][0]['index']}")
    page.page.keyboard.press("ControlOrMeta+s")
    wait_for(
        lambda: CARD in (lab.folder / "change.ipynb").read_text(encoding="utf-8"), "the type is saved in the notebook"
    )


def size_of(figure: str) -> float:
    """ "53.2 MiB" -> bytes."""
    number, unit = figure.split()
    return float(number) * {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}[unit]
