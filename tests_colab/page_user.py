"""Drives the page: opens notebooks of the suite, runs them and performs their actions, several at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from playwright.sync_api import Download, Error, FilePayload, Page, expect
from tests_browser.notebook import LabPage
from tests_colab.assertions import name_of
from tests_colab.cases.case import Case
from tests_colab.cases.page_actions import IN_PAGE, Action, InPage

__all__ = ["Done", "PageUser"]

AT_ONCE = 5
SECONDS = 180.0  # for one notebook among others, on a very busy machine

# The visible state of a notebook, also of one behind another.
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
    """A notebook before and after its run."""

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
        """Return its visible state."""
        seen: dict[str, Any] = self.panel.evaluate(LOOK)
        return seen

    def front(self) -> None:
        """Bring it to the front."""
        self.page.locator(f'#jp-main-dock-panel .lm-TabBar-tab[data-id="{self.tab}"]').click()
        expect(self.panel).to_be_visible()

    def connect(self) -> None:
        """Start its runtime."""
        self.front()
        self.panel.locator(".ownlab-Connect-button").click()

    def is_ready(self) -> bool:
        """Return whether its kernel is idle. Toolbars of notebooks behind others are not up to date."""
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

    def asks(self, action: Action) -> bool:
        """Return whether a cell waits for this action."""
        return self._number(action) in self.look()["asks"]

    def do(self, action: Action, uploads: Mapping[str, bytes]) -> None:
        """Perform an action."""
        self.front()
        cell = self.panel.locator(".jp-Notebook .jp-Cell").nth(self._number(action))
        if action.line:
            cell.locator(".jp-Stdin-input").fill(action.line)
            cell.locator(".jp-Stdin-input").press("Enter")
            expect(cell.locator(".jp-Stdin-input")).to_have_count(0)
            return
        box = cell.locator(".ownlab-Ask")
        if action.files:
            chosen = [FilePayload(name=name, mimeType="", buffer=uploads[name]) for name in action.files]
            box.locator("input[type=file]").set_input_files(chosen)
        else:
            box.get_by_role("button", name=action.button).click()
        expect(box).to_have_count(0)

    def is_over(self, end: str) -> bool:
        """Return whether all cells have run."""
        seen = self.look()
        if not seen["begun"] or seen["waiting"]:
            return False
        return not self._states() if end == "gone" else self.is_ready()

    def outputs(self) -> list[str]:
        """Return its outputs, for error messages."""
        return self.panel.locator(".jp-OutputArea-output").all_inner_texts()

    def _states(self) -> list[str]:
        sessions = self.lab.lab.get("api/sessions")
        return [session["kernel"]["execution_state"] for session in sessions if session["path"] == self.path.name]

    def _number(self, action: Action) -> int:
        names = [name_of(cell, number) for number, cell in enumerate(self.given["cells"])]
        return names.index(action.cell)

    def close(self) -> Done:
        """Save it, and close its tab."""
        self.front()
        with self.page.expect_response(lambda answer: "/ownlab/api/notebooks/write" in answer.url):
            self.page.keyboard.press("ControlOrMeta+s")
        self.page.locator(f'.lm-TabBar-tab[data-id="{self.tab}"] .lm-TabBar-tabCloseIcon').click()
        while self.panel.count():
            agree(self.page)
        return Done(self.given, json.loads(self.path.read_bytes()))


def agree(page: Page) -> None:
    """Accept a dialog: a notebook without a kernel, with an ended one, or with unsaved changes."""
    page.evaluate("() => { [...document.querySelectorAll('.jp-Dialog .jp-mod-accept')].pop()?.click(); }")


class PageUser:
    """One page with notebooks in tabs."""

    def __init__(self, page: Page, lab: LabPage) -> None:
        self.page, self.lab = page, lab
        self.errors: list[str] = []  # JavaScript errors
        self.downloads: dict[str, Download] = {}
        self.done: dict[str, Done | str] = {}  # or why it failed
        page.on("pageerror", lambda error: self.errors.append(error.stack or error.message))
        page.on("download", lambda download: self.downloads.update({download.suggested_filename: download}))
        lab.open()
        dialog = page.locator(".jp-Dialog")
        page.add_locator_handler(dialog, lambda: agree(page))  # it would block clicks

    def run(self, cases: Iterable[Case]) -> None:
        """Run all cases, several at a time."""
        left = list(cases)
        going: dict[str, Iterator[None]] = {}
        while left or going:
            before = {case.notebook for case in left} | set(going)
            for case in [case for case in left if case.after not in before][: AT_ONCE - len(going)]:
                left.remove(case)
                going[case.notebook] = self._steps(case)
            for name, steps in list(going.items()):
                agree(self.page)
                if not self._step(name, steps):
                    del going[name]

    def _step(self, name: str, steps: Iterator[None]) -> bool:
        """Perform one step of a notebook; False if there is none left."""
        try:
            next(steps)
        except StopIteration:
            return False
        except (AssertionError, Error) as exc:
            self.done[name] = f"{type(exc).__name__}: {exc}"
            return False
        return True

    def _steps(self, case: Case) -> Iterator[None]:
        """Yield between the steps of one notebook."""
        how, uploads = IN_PAGE.get(case.notebook, InPage()), case.uploads or {}
        deadline = time.monotonic() + SECONDS
        opened = Opened(self.lab, case.notebook)

        def is_not_yet(done: bool, what: str) -> bool:
            assert done or time.monotonic() < deadline, (
                f"not within {SECONDS:g} s: {what}: {opened.look()} {opened.outputs()}"
            )
            return not done

        opened.connect()
        while is_not_yet(opened.is_ready(), "its kernel is there"):
            yield
        opened.front()
        expect(opened.panel.locator(".ownlab-Indicator-button.ownlab-state-running")).to_be_visible()
        opened.fill(case.parameters)
        self.lab.menu("Run", "Run All Cells")
        for action in how.actions:
            while is_not_yet(opened.asks(action), f"{action.cell} waits for input"):
                yield
            opened.do(action, {**uploads, **how.uploads})
        while is_not_yet(opened.is_over(how.end), "it has run"):
            yield
        self.done[case.notebook] = opened.close()
