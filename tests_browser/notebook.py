"""Page objects of JupyterLab: menus, notebooks, cells, and what ownlab adds to them."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect
from tests_browser.lab import Lab

__all__ = ["LabPage", "Notebook"]


class LabPage:
    """One open page."""

    def __init__(self, page: Page, lab: Lab) -> None:
        self.page, self.lab = page, lab

    def load(self, address: str) -> None:
        """Load a page, and wait until JupyterLab has started."""
        self.page.goto(address)
        self.page.wait_for_selector("#main .ownlab-Start:visible, #main .jp-NotebookPanel:visible")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def open(self, path: str = "lab") -> None:
        """Open the lab with an empty workspace."""
        self.load(self.lab.page(path))

    def notebook(self, name: str, url: str = "") -> Notebook:
        """Load the page with a notebook of the lab's folder."""
        self.load(self.lab.page(f"lab/tree/{name}", url))
        return Notebook(self.page)

    def menu(self, *labels: str) -> None:
        """Choose an item of the main menu."""
        self.page.locator(".lm-MenuBar-item", has_text=labels[0]).first.click()
        for label in labels[1:]:
            self.page.locator(".lm-Menu-item", has_text=label).first.click()

    @property
    def start(self) -> Locator:
        """The start page that is visible."""
        return self.page.locator(".ownlab-Start:not(.lm-mod-hidden)")

    def tile(self, type_name: str) -> Locator:
        """Return the start page's tile that creates a notebook with a runtime type."""
        return self.start.locator(f'.ownlab-Tile[data-type="{type_name}"]')

    def side_panel(self, label: str, name: str = "") -> Locator:
        """Show a side panel of ownlab, and return it; `name`: of its tab, if that is not the label."""
        panel = self.page.get_by_role("region", name=label, exact=True)
        if not panel.is_visible():
            self.page.locator(f'.jp-SideBar .lm-TabBar-tab[data-id="ownlab-{name or label.lower()}"]').click()
        expect(panel).to_be_visible()
        return panel

    def files(self, source: str) -> Locator:
        """Show the lab's folder, the runtime's files or the drive in the file browser, and return the browser."""
        browser = self.page.locator("#filebrowser")
        if not browser.is_visible():
            self.page.locator('.jp-SideBar .lm-TabBar-tab[data-id="filebrowser"]').click()
        browser.get_by_role("tab", name=source, exact=True).click()
        return browser

    def panel(self) -> Locator:
        """Show the side panel with all runtimes, and return it."""
        return self.side_panel("Runtimes and cards", "runtimes")

    def row(self, notebook: str) -> Locator:
        """Return a runtime in the panel."""
        return self.panel().get_by_role("article", name=notebook, exact=True)

    def details(self, notebook: str) -> Locator:
        """Return a runtime in the panel, after showing its details."""
        row = self.row(notebook)
        row.get_by_role("button", name=f"Details of the runtime of {notebook}", expanded=False).click()
        return row

    @property
    def dialog(self) -> Locator:
        """The open dialog."""
        return self.page.locator(".jp-Dialog")

    def answer(self, button: str) -> None:
        """Press a button of the dialog, and wait until it is closed."""
        self.dialog.get_by_role("button", name=button).click()
        expect(self.dialog).to_have_count(0)

    @property
    def notification(self) -> Locator:
        return self.page.locator(".Toastify__toast")


class Notebook:
    """The current notebook."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        expect(self.panel.locator(".jp-Notebook")).to_be_visible()

    @property
    def connect_button(self) -> Locator:
        """The button that starts a runtime; only a notebook without one has it."""
        return self.panel.locator(".ownlab-Connect-button")

    def connect(self) -> Notebook:
        """Start a runtime, unless the notebook has one."""
        expect(self.connect_button.or_(self.indicator)).to_be_visible()
        if self.connect_button.is_visible():
            self.connect_button.click()
        return self

    def ready(self) -> Notebook:
        """Connect, and wait until the kernel is idle."""
        self.connect()
        expect(self.panel.locator(".ownlab-Indicator-button.ownlab-state-running")).to_be_visible()
        expect(self.panel.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "idle")
        return self

    def wait_until_busy(self) -> None:
        """Wait until the page is connected to a kernel that runs a cell."""
        expect(self.panel.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "busy")

    @property
    def indicator(self) -> Locator:
        """The runtime indicator in the toolbar."""
        return self.panel.locator(".ownlab-Indicator-button")

    def cell(self, number: int) -> Locator:
        return self.panel.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def output(self, number: int) -> Locator:
        return self.cell(number).locator(".jp-OutputArea-output")

    def text(self, number: int) -> str:
        """Return the output of a cell as text."""
        return "".join(self.output(number).all_inner_texts())

    def box(self, number: int) -> Locator:
        """Return the input box of a cell that waits for input()."""
        return self.cell(number).locator(".jp-Stdin-input")

    def prompt(self, number: int) -> Locator:
        """Return the prompt of a cell: [*]: while it runs, [3]: afterwards."""
        return self.cell(number).locator(".jp-InputPrompt")

    def button(self, number: int) -> Locator:
        """Return the button of a cell that runs or interrupts it."""
        return self.cell(number).locator(".ownlab-Run")

    def time(self, number: int) -> Locator:
        """Return how long a cell has been running, or took."""
        return self.cell(number).locator(".ownlab-Run-time")

    def write(self, number: int, code: str) -> None:
        """Replace the code of a cell."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(code)

    def save(self) -> None:
        """Save with the keyboard, and wait for the request."""
        with self.page.expect_response(lambda answer: "/ownlab/api/notebooks/write" in answer.url):
            self.page.keyboard.press("ControlOrMeta+s")

    def run(self, number: int) -> None:
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
