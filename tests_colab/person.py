"""A person at the page: opens notebooks of the suite, runs them, and does what they ask for; several go on at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from playwright.sync_api import Download, Error, FilePayload, Page, expect
from tests_browser.notebook import LabPage
from tests_colab.cases.case import Case
from tests_colab.cases.in_page import IN_PAGE, Deed, InPage
from tests_colab.check import name_of

__all__ = ["Done", "Person"]

AT_ONCE = 5
SECONDS = 90.0  # for one notebook beside others, on a machine that is very busy

# What can be seen of a notebook, also of one that is behind another.
LOOK = """panel => {
  const cells = [...panel.querySelectorAll('.jp-Notebook .jp-Cell')];
  const prompts = cells.map(cell => cell.querySelector('.jp-InputPrompt')?.textContent ?? '');
  return {
    waiting: prompts.filter(prompt => prompt.includes('*')).length,
    begun: prompts.some(prompt => /[0-9]/.test(prompt)) || panel.querySelector('.jp-OutputArea-output') !== null,
    asks: cells.map((cell, number) => cell.querySelector('.ownlab-Ask, .jp-Stdin-input') ? number : -1).filter(number => number >= 0),
  };
}"""


class Done(NamedTuple):
    """What became of a notebook."""

    given: dict[str, Any]
    written: dict[str, Any]


class Opened:
    """One notebook in a tab."""

    def __init__(self, page: LabPage, name: str) -> None:
        self.page, self.lab = page.page, page
        self.path = page.lab.folder / f"{name}.ipynb"
        self.given: dict[str, Any] = json.loads(self.path.read_bytes())
        self.page.locator(f'.jp-DirListing-item[title^="Name: {self.path.name}"]').dblclick()
        tab = self.page.locator("#jp-main-dock-panel .lm-TabBar-tab", has_text=self.path.name)
        self.tab = str(tab.get_attribute("data-id"))
        self.panel = self.page.locator(f"#{self.tab}")

    def look(self) -> dict[str, Any]:
        """What can be seen of it now."""
        seen: dict[str, Any] = self.panel.evaluate(LOOK)
        return seen

    def front(self) -> None:
        """Bring it to the front."""
        self.page.locator(f'#jp-main-dock-panel .lm-TabBar-tab[data-id="{self.tab}"]').click()
        expect(self.panel).to_be_visible()

    def is_ready(self) -> bool:
        """Whether its kernel is there, and rests. Toolbars of notebooks that are behind others are not up to date."""
        return self._states() == ["idle"]

    def fill(self, parameters: Iterable[str]) -> None:
        """Type values into its forms."""
        for name, _, value in (each.partition("=") for each in parameters):
            field = self.panel.locator(".ownlab-Form").get_by_label(f"{name}:", exact=True)
            kind = field.evaluate("field => field.tagName === 'SELECT' ? 'select' : field.type")
            if kind == "select":
                field.select_option(value)
            elif kind == "checkbox":
                field.set_checked(value.lower() in ("true", "yes"))
            else:
                field.fill(value)

    def asks(self, deed: Deed) -> bool:
        """Whether a cell waits for somebody."""
        return self._number(deed) in self.look()["asks"]

    def do(self, deed: Deed, uploads: Mapping[str, bytes]) -> None:
        """What a cell waits for."""
        self.front()
        cell = self.panel.locator(".jp-Notebook .jp-Cell").nth(self._number(deed))
        if deed.line:
            cell.locator(".jp-Stdin-input").fill(deed.line)
            cell.locator(".jp-Stdin-input").press("Enter")
            expect(cell.locator(".jp-Stdin-input")).to_have_count(0)
            return
        box = cell.locator(".ownlab-Ask")
        if deed.files:
            chosen = [FilePayload(name=name, mimeType="", buffer=uploads[name]) for name in deed.files]
            box.locator("input[type=file]").set_input_files(chosen)
        else:
            box.get_by_role("button", name=deed.button).click()
        expect(box).to_have_count(0)

    def is_over(self, end: str) -> bool:
        """Whether every cell has run that is to."""
        seen = self.look()
        if not seen["begun"] or seen["waiting"]:
            return False
        return not self._states() if end == "gone" else self.is_ready()

    def said(self) -> list[str]:
        """What it shows, for the case that it goes wrong."""
        return self.panel.locator(".jp-OutputArea-output").all_inner_texts()

    def _states(self) -> list[str]:
        sessions = self.lab.lab.get("api/sessions")
        return [one["kernel"]["execution_state"] for one in sessions if one["path"] == self.path.name]

    def _number(self, deed: Deed) -> int:
        names = [name_of(cell, number) for number, cell in enumerate(self.given["cells"])]
        return names.index(deed.cell)

    def close(self) -> Done:
        """Save it, and close its tab."""
        self.front()
        with self.page.expect_response(lambda answer: answer.request.method == "PUT" and self.path.name in answer.url):
            self.page.keyboard.press("ControlOrMeta+s")
        self.page.locator(f'.lm-TabBar-tab[data-id="{self.tab}"] .lm-TabBar-tabCloseIcon').click()
        while self.panel.count():
            agree(self.page)
        return Done(self.given, json.loads(self.path.read_bytes()))


def agree(page: Page) -> None:
    """To a dialog: a notebook names no kernel, has ended its own, or was changed once more before it is closed."""
    page.evaluate("() => { [...document.querySelectorAll('.jp-Dialog .jp-mod-accept')].pop()?.click(); }")


class Person:
    """One page with notebooks in tabs."""

    def __init__(self, page: Page, lab: LabPage) -> None:
        self.page, self.lab = page, lab
        self.errors: list[str] = []  # what the page raised
        self.downloads: dict[str, Download] = {}
        self.done: dict[str, Done | str] = {}  # or why it is not
        page.on("pageerror", lambda error: self.errors.append(error.stack or error.message))
        page.on("download", lambda download: self.downloads.update({download.suggested_filename: download}))
        lab.open()
        dialog = page.locator(".jp-Dialog")
        page.add_locator_handler(dialog, lambda: agree(page))  # it is in the way of whatever is to be clicked

    def run(self, cases: Iterable[Case]) -> None:
        """Run all of them, some at a time."""
        left = list(cases)
        going: dict[str, Iterator[None]] = {}
        while left or going:
            before = {case.notebook for case in left} | set(going)
            for case in [case for case in left if case.after not in before][: AT_ONCE - len(going)]:
                left.remove(case)
                going[case.notebook] = self._go_through(case)
            for name, steps in list(going.items()):
                agree(self.page)
                if not self._go_on(name, steps):
                    del going[name]

    def _go_on(self, name: str, steps: Iterator[None]) -> bool:
        """One step of a notebook; False where there is none."""
        try:
            next(steps)
        except StopIteration:
            return False
        except (AssertionError, Error) as exc:
            self.done[name] = f"{type(exc).__name__}: {exc}"
            return False
        return True

    def _go_through(self, case: Case) -> Iterator[None]:
        """Everything that is done with one notebook; stops wherever it waits."""
        how, uploads = IN_PAGE.get(case.notebook, InPage()), case.uploads or {}
        deadline = time.monotonic() + SECONDS
        opened = Opened(self.lab, case.notebook)

        def is_not_yet(done: bool, what: str) -> bool:
            assert done or time.monotonic() < deadline, (
                f"not within {SECONDS:g} s: {what}: {opened.look()} {opened.said()}"
            )
            return not done

        while is_not_yet(opened.is_ready(), "its kernel is there"):
            yield
        opened.front()
        expect(opened.panel.locator(".ownlab-Indicator-button.ownlab-state-running")).to_be_visible()
        opened.fill(case.parameters)
        self.lab.menu("Run", "Run All Cells")
        for deed in how.deeds:
            while is_not_yet(opened.asks(deed), f"{deed.cell} waits for somebody"):
                yield
            opened.do(deed, {**uploads, **how.uploads})
        while is_not_yet(opened.is_over(how.end), "it has run"):
            yield
        self.done[case.notebook] = opened.close()
