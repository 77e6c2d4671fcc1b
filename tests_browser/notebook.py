"""JupyterLab's page as a person uses it: menus, notebooks, cells; and what ownlab adds to it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect
from tests_browser.lab import Lab

__all__ = ["LabPage", "Notebook"]


class LabPage:
    """One open page."""

    def __init__(self, page: Page, lab: Lab) -> None:
        self.page, self.lab = page, lab

    def load(self, address: str) -> None:
        """Load a page, and wait until JupyterLab is there."""
        self.page.goto(address)
        self.page.wait_for_selector("#main .jp-Launcher, #main .jp-NotebookPanel")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def open(self, path: str = "lab") -> None:
        """A page with nothing else in it."""
        self.load(self.lab.page(path))

    def notebook(self, name: str, url: str = "") -> Notebook:
        """Open a notebook of the folder in a new page load."""
        self.load(self.lab.page(f"lab/tree/{name}", url))
        return Notebook(self.page)

    def menu(self, *labels: str) -> None:
        """Choose from the main menu."""
        self.page.locator(".lm-MenuBar-item", has_text=labels[0]).first.click()
        for label in labels[1:]:
            self.page.locator(".lm-Menu-item", has_text=label).first.click()

    def launcher_card(self, label: str) -> Locator:
        """Starts a notebook of a type."""
        return self.page.locator(f'.jp-LauncherCard[data-category="Notebook"][title="{label}"]')

    def panel(self) -> Locator:
        """The side panel with all runtimes, shown."""
        panel = self.page.get_by_role("region", name="Runtimes and cards")
        if not panel.is_visible():
            self.page.locator('.jp-SideBar .lm-TabBar-tab[data-id="ownlab-runtimes"]').click()
        expect(panel).to_be_visible()
        return panel

    def row(self, notebook: str) -> Locator:
        """A runtime in the panel."""
        return self.panel().get_by_role("article", name=notebook, exact=True)

    @property
    def dialog(self) -> Locator:
        """Whatever covers the page."""
        return self.page.locator(".jp-Dialog")

    def answer(self, button: str) -> None:
        """Press a button of the dialog, which then goes away."""
        self.dialog.get_by_role("button", name=button).click()
        expect(self.dialog).to_have_count(0)

    @property
    def notification(self) -> Locator:
        return self.page.locator(".Toastify__toast")


class Notebook:
    """The notebook in front."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        expect(self.panel.locator(".jp-Notebook")).to_be_visible()

    def ready(self) -> Notebook:
        """Wait until its kernel is connected: JupyterLab drops what is run before that."""
        expect(self.panel.locator(".ownlab-Indicator-button.ownlab-state-running")).to_be_visible()
        expect(self.panel.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute("data-status", "idle")
        return self

    @property
    def indicator(self) -> Locator:
        """In the toolbar: the notebook's runtime."""
        return self.panel.locator(".ownlab-Indicator-button")

    def cell(self, number: int) -> Locator:
        return self.panel.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def output(self, number: int) -> Locator:
        return self.cell(number).locator(".jp-OutputArea-output")

    def text(self, number: int) -> str:
        """What a cell printed."""
        return "".join(self.output(number).all_inner_texts())

    def box(self, number: int) -> Locator:
        """Where a cell waits for what a person types."""
        return self.cell(number).locator(".jp-Stdin-input")

    def prompt(self, number: int) -> Locator:
        """[*]: while a cell runs, [3]: when it has run."""
        return self.cell(number).locator(".jp-InputPrompt")

    def write(self, number: int, code: str) -> None:
        """Replace what is in a cell."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(code)

    def save(self) -> None:
        """As people do, and wait until it is done."""
        with self.page.expect_response(
            lambda answer: answer.request.method == "PUT" and "/api/contents/" in answer.url
        ):
            self.page.keyboard.press("ControlOrMeta+s")

    def run(self, number: int) -> None:
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
