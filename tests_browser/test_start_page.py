"""The start page: the first thing that people see, what it offers, and what it says about notebooks and cards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Locator, expect
from tests.web_server import Web, serve_web
from tests_browser.lab import CARD, CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook

HALF, TWO, FOUR = (f"ownlab-{count}-nvidia-geforce-gtx-1080-ti" for count in ("half", "2", "4"))


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as server:
        yield server


def recent(page: LabPage, name: str) -> Locator:
    """Return a recent notebook of the start page."""
    return page.start.get_by_role("region", name="Recent").get_by_role("button", name=name)


def test_it_is_the_first_page_with_the_product_s_name_and_icon(page: LabPage, lab: Lab) -> None:
    page.open()
    expect(page.start.get_by_role("heading", level=1)).to_have_text(re.compile("^Good (morning|afternoon|evening)$"))
    machine = page.start.get_by_role("status", name="This machine")
    expect(machine).to_contain_text("GPU work will run: 4 × NVIDIA GeForce GTX 1080 Ti")
    expect(machine).to_contain_text("All 4 cards are free.")
    expect(page.page).to_have_title("ownlab")
    expect(page.page.get_by_role("button", name="ownlab: start page")).to_contain_text("ownlab")
    for kind in ("idle", "busy"):
        address = page.page.locator(f"link.{kind}.favicon").get_attribute("href")
        assert address is not None
        assert lab.client.get(lab.url.rstrip("/") + address).content[:4] == b"\0\0\1\0"  # an .ico file
    machine.get_by_role("button", name="Details").click()
    report = page.page.locator(".ownlab-Doctor")
    expect(report.get_by_role("heading", level=1)).to_have_text("This machine")
    expect(report.get_by_role("region", name=re.compile("Driver branch R535"))).to_contain_text("nvidia-driver-580")


def test_tiles_start_types_and_say_what_is_free_or_when(page: LabPage, lab: Lab) -> None:
    page.open()
    first = page.tile(CARD)
    expect(first).to_have_text("New notebook1 × GTX 1080 Ti4 free")
    expect(page.tile(HALF)).to_have_text("½ GTX 1080 Ti8 free")
    expect(page.tile(FOUR)).to_have_text("4 × GTX 1080 Tifree now")
    expect(page.tile(CPU)).to_have_text(re.compile(r"^CPU\d+ of \d+ cores? idle$"))
    # A plain kernel would use every card without a lease.
    expect(page.start.get_by_text("ipykernel")).to_have_count(0)
    page.tile(HALF).click()
    notebook = Notebook(page.page)
    expect(page.start).to_have_count(0)  # the notebook has taken its place
    notebook.write(0, "print(6 * 7)")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("42")
    [runtime] = lab.snapshot()["runtimes"]
    assert [card["parts"] for card in runtime["cards"]] == [6]
    name = runtime["notebook"].rpartition("/")[2]
    expect(page.page).to_have_title(re.compile(r"^Untitled.* - ownlab$"))

    page.page.locator("#jp-main-dock-panel .lm-TabBar-addButton").click()
    expect(page.tile(FOUR)).to_have_text(f"4 × GTX 1080 Tifree when {name} ends")
    expect(page.start.get_by_role("status")).to_contain_text("3 cards are free.")


def test_recent_notebooks_and_their_state(page: LabPage, lab: Lab) -> None:
    page.open()
    lab.write("resting.ipynb", CPU, "")
    kernel = lab.start(lab.write("working.ipynb", CARD, ""), CARD)
    page.open()
    expect(recent(page, "resting.ipynb")).to_contain_text("changed just now")
    expect(recent(page, "working.ipynb")).to_contain_text(re.compile(r"idle for \d+ s on card 0"))
    lab.end(kernel)
    expect(recent(page, "working.ipynb")).not_to_contain_text("on card 0")  # without a reload
    recent(page, "resting.ipynb").click()
    expect(Notebook(page.page).panel).to_be_visible()
    expect(page.page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current")).to_contain_text("resting.ipynb")


def test_an_address_is_opened_or_the_reason_is_shown(page: LabPage, lab: Lab, web: Web) -> None:
    web.answer("/page", b"<!doctype html><title>Sign in</title>")
    address = web.answer("/from%20afar.ipynb", json.dumps(notebook_of(CPU, "1 + 1")).encode())
    page.open()
    field = page.start.get_by_role("textbox", name="Address of a notebook")
    for wrong, message in (
        ("nonsense", "This is not a web address."),
        (f"{web.url}/page", "is a web page, not a notebook."),
        ("https://drive.google.com/file/d/1", "in Google Drive, which requires signing in."),
    ):
        field.fill(wrong)
        field.press("Enter")
        expect(page.start.get_by_role("alert")).to_contain_text(message)
        expect(field).to_have_value(wrong)
    field.fill(address)
    page.start.get_by_role("button", name="Open", exact=True).click()
    expect(Notebook(page.page).cell(0).locator(".cm-content")).to_have_text("1 + 1")
    assert (lab.folder / "from afar.ipynb").exists()


def test_files_are_uploaded_with_the_button_and_by_dropping_them(page: LabPage, lab: Lab) -> None:
    page.open()
    with page.page.expect_file_chooser() as chooser:
        page.start.get_by_role("button", name="Upload").click()
    chooser.value.set_files({"name": "data.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    expect(page.notification).to_contain_text("data.csv was uploaded.")
    assert (lab.folder / "data.csv").read_bytes() == b"a,b\n1,2\n"
    dropped = page.page.evaluate_handle(
        """content => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([content], 'dropped.ipynb', {type: 'application/json'}));
            return transfer;
        }""",
        json.dumps(notebook_of(CPU, "dropped = True")),
    )
    area = page.start.locator(".ownlab-Start-scroll")
    area.dispatch_event("dragover", {"dataTransfer": dropped})
    expect(page.start.get_by_text("Drop the files to upload them to the lab’s folder")).to_be_visible()
    area.dispatch_event("drop", {"dataTransfer": dropped})
    expect(Notebook(page.page).cell(0).locator(".cm-content")).to_have_text("dropped = True")


def test_the_welcome_example_opens_and_runs(page: LabPage, lab: Lab) -> None:
    page.open()
    page.start.get_by_role("region", name="Examples").get_by_role("button", name="Welcome to your lab").click()
    notebook = Notebook(page.page)
    expect(notebook.panel.get_by_role("heading", name="Welcome to your lab")).to_be_visible()
    assert (lab.folder / "examples" / "welcome.ipynb").exists()
    page.menu("Run", "Run All Cells")
    cells = notebook.panel.locator(".jp-CodeCell")
    count = cells.count()
    assert count >= 2
    for number in range(count):
        expect(notebook.prompt(number)).to_have_text(re.compile(r"\[\d+\]:"))
    expect(notebook.panel.locator('[data-mime-type="application/vnd.jupyter.error"]')).to_have_count(0)


def test_other_items_of_the_launcher_and_the_keyboard(page: LabPage, lab: Lab) -> None:
    page.open()
    other = page.start.get_by_role("region", name="Other")
    expect(other.get_by_role("button", name="Terminal")).to_be_visible()
    expect(other.get_by_role("button", name="Console")).to_have_count(1)  # not one for each type
    expect(other.get_by_role("button", name="Markdown File")).to_be_visible()
    page.start.get_by_role("button", name="Details").focus()
    page.page.keyboard.press("Tab")
    expect(page.tile(CARD)).to_be_focused()
    tiles = page.start.locator(".ownlab-Tile").count()
    for _ in range(tiles):
        page.page.keyboard.press("Tab")
    expect(page.start.get_by_role("textbox", name="Address of a notebook")).to_be_focused()
    other.get_by_role("button", name="Text File").focus()
    page.page.keyboard.press("Enter")
    expect(page.page.locator(".jp-FileEditor")).to_be_visible()
    wait_for(lambda: list(lab.folder.glob("untitled*.txt")), "the text file exists")
    # The logo leads back, and the last tab is a start page again after everything was closed.
    page.page.get_by_role("button", name="ownlab: start page").click()
    expect(page.start).to_be_visible()
    page.menu("File", "Close All Tabs")
    expect(page.start).to_be_visible()


def test_an_environment_is_offered_before_it_is_created(page: LabPage, lab: Lab) -> None:
    page.open()
    environments = page.start.get_by_role("region", name="Environments")
    environments.get_by_role("button", name="Set up deep learning").click()
    offer = environments.get_by_role("group", name="New environment deep-learning")
    # What it needs takes a while to find out; without a network or uv, the reason is shown.
    expect(offer.get_by_role("status").or_(offer.get_by_role("alert"))).to_be_visible()
    offer.get_by_role("button", name="Cancel").click()
    expect(offer).to_have_count(0)
    environments.get_by_role("button", name="Add an environment").click()
    for name, packages, problem in (
        ("Tiny", "six", "A name has lower-case letters, digits and hyphens."),
        ("tiny", " ", "Name at least one package."),
    ):
        page.dialog.get_by_label("Name", exact=True).fill(name)
        page.dialog.get_by_label("Packages, as pip names them").fill(packages)
        page.dialog.get_by_role("button", name="Continue").click()
        expect(page.dialog.get_by_role("alert")).to_have_text(problem)
        expect(page.dialog.get_by_label("Name", exact=True)).to_have_value(name)
    page.dialog.get_by_role("button", name="Cancel").click()
    assert [
        each["name"] for each in lab.get("ownlab/api/environments")["environments"] if each["name"] != "default"
    ] == []


@pytest.mark.parametrize("token", ["", "?token=guessed"])
def test_the_lab_requires_the_token(context: BrowserContext, lab: Lab, token: str) -> None:
    context.clear_cookies()
    page = context.new_page()
    page.goto(f"{lab.url}lab{token}")
    expect(page).to_have_url(re.compile(r"/login\?"))
    expect(page.get_by_role("textbox", name="Password or token:")).to_be_visible()
    page.close()
