"""People who type in Chromium, with one interruption; the same for our lab and for other systems.

What was typed more than two seconds before the interruption must be in the notebook when it is opened again. Of two pages
that change the same lines at once, one loses: then a page must show its text, and the history must have it.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import BrowserContext, Locator, Page
from playwright.sync_api import Error as BrowserError
from tests_browser.lab import wait_for
from tests_browser.network import Network
from tests_survival.browser import PATIENCE, Outcome, Run, System, browser, print_outcome
from tests_survival.edits.document import TOKEN, Tokens, all_tokens, make_notebook, printed, tokens

__all__ = ["KINDS", "run_all"]

KINDS = ("crash", "close", "cut", "kill", "second", "away")
OLD = 2.0  # seconds after which nothing may be lost
REACHED = 30.0  # seconds until a cell that is there can be clicked
CONFLICT = "was edited in two places at once"
ACTIONS = ("append", "append", "append", "insert", "move", "split", "delete", "run", "run")


class Typed:
    """What was done in the pages, and when."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}  # token -> when it was typed
        self.removed: set[str] = set()
        self.runs: list[tuple[float, list[str]]] = []
        self.interruptions: list[float] = []
        self.told: set[str] = set()  # a page has shown the text that lost against another one

    def must_be_there(self, token: str) -> bool:
        """Whether it was old enough at each interruption."""
        return token not in self.removed and not any(
            self.at[token] <= moment < self.at[token] + OLD for moment in self.interruptions
        )


class EditedRun(Run):
    """One notebook on one system, whose cells are edited by keyboard."""

    def __init__(self, context: BrowserContext, system: System, network: Network, seed: int, kind: str) -> None:
        self.context, self.system, self.network, self.path = context, system, network, f"edits-{seed}.ipynb"
        self.client = self.make_client(system)
        self.chance, self.new, self.kind, self.typed = random.Random(f"browser {seed}"), Tokens(), kind, Typed()
        notebook = make_notebook(self.new, self.chance, system.kernel)
        (system.folder / self.path).write_text(json.dumps(notebook), encoding="utf-8")
        self.typed.at = dict.fromkeys(all_tokens(cell["source"] for cell in notebook["cells"]), 0.0)

    def go(self) -> list[str]:
        """Everything that is wrong in the end."""
        pages = [self._open()]
        count = self.chance.randint(6, 12)
        moment = self.chance.randrange(1, count)
        for number in range(count):
            if number == moment:
                time.sleep(self.chance.choice((0.0, 0.3, 3.0)))
                self.typed.interruptions.append(time.monotonic())
                getattr(self, f"_{self.kind}")(pages)
            self._act(self.chance.choice(pages), self.chance.choice(ACTIONS))
            self._read_notices(pages)
        self._until_idle(pages)
        self._read_notices(pages)
        self.typed.interruptions.append(time.monotonic())  # the last tab is closed, without a save
        for page in pages:
            page.close()
        page = self._open()
        self._until_idle([page])
        self._saved(page)
        self._read_notices([page])
        page.close()
        kept = self._history() if self.typed.told else set()
        self._end()
        return self._faults(kept, json.loads((self.system.folder / self.path).read_text(encoding="utf-8")))

    # --- interruptions: also those of the runs without edits ------------------------------------------------------------

    def _crash(self, pages: list[Page]) -> None:
        """The tab is killed: the page can do nothing any more."""
        page = pages.pop()
        with contextlib.suppress(BrowserError):
            page.context.new_cdp_session(page).send("Page.crash", timeout=500)
        page.close()
        pages.append(self._open())

    def _away(self, pages: list[Page]) -> None:
        pages.pop().close()
        time.sleep(self.chance.random() * 5)
        pages.append(self._open())

    # --- the keyboard --------------------------------------------------------------------------------------------------

    def _act(self, page: Page, action: str) -> None:
        cells = page.locator(".jp-NotebookPanel:visible .jp-Notebook .jp-CodeCell")
        editor = self._click_any(cells)
        text = "\n".join(editor.locator(".cm-line").all_text_contents())
        getattr(self, f"_do_{action}")(page, text, cells.count())
        page.wait_for_timeout(self.chance.choice((0, 100, 700)))

    def _click_any(self, cells: Locator) -> Locator:
        """Click into a cell; into another one, if the other page has just deleted it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            editor = cells.nth(self.chance.randrange(cells.count())).locator(".cm-content")
            try:
                editor.click(timeout=REACHED * 1000)
            except BrowserError:
                if time.monotonic() > deadline:
                    raise
            else:
                return editor

    def _type_line(self, page: Page) -> None:
        line = self.new.line(0.05)
        # JupyterLab closes brackets and quotes by itself: the text is inserted as it is, in two pieces.
        page.keyboard.insert_text(line[:9])
        page.wait_for_timeout(50)
        page.keyboard.insert_text(line[9:])
        self.typed.at |= dict.fromkeys(tokens(line), time.monotonic())

    def _do_append(self, page: Page, text: str, count: int) -> None:
        page.keyboard.press("Control+End")
        page.keyboard.press("Enter")
        self._type_line(page)

    def _do_insert(self, page: Page, text: str, count: int) -> None:
        page.keyboard.press("Escape")
        page.keyboard.press("b")
        page.keyboard.press("Enter")
        self._type_line(page)

    def _do_move(self, page: Page, text: str, count: int) -> None:
        page.keyboard.press("Escape")
        page.keyboard.press("Control+Shift+ArrowDown")

    def _do_split(self, page: Page, text: str, count: int) -> None:
        if "\n" in text:
            page.keyboard.press("Control+Home")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Home")
            page.keyboard.press("Control+Shift+Minus")

    def _do_delete(self, page: Page, text: str, count: int) -> None:
        if count > 2:
            page.keyboard.press("Escape")
            page.keyboard.press("d")
            page.keyboard.press("d")
            self.typed.removed |= set(tokens(text))

    def _do_run(self, page: Page, text: str, count: int) -> None:
        page.keyboard.press("Control+Enter")
        self.typed.runs.append((time.monotonic(), printed(text)))

    # --- what is there in the end --------------------------------------------------------------------------------------

    def _read_notices(self, pages: list[Page]) -> None:
        """Read the texts that lost against another page, and keep the cells as they are."""
        for page in pages:
            while self._notices(page).count():
                self._read_notice(page)

    @staticmethod
    def _notices(page: Page) -> Locator:
        return page.locator(".Toastify__toast", has_text=CONFLICT)

    def _read_notice(self, page: Page) -> None:
        notices = self._notices(page)
        before = notices.count()
        notices.first.get_by_role("button", name="Show both").click()
        dialog = page.locator(".jp-Dialog", has_text=CONFLICT)
        self.typed.told |= set(tokens(dialog.locator(".ownlab-Versions-diff").inner_text()))
        dialog.get_by_role("button", name="Keep the text of the cell").click()
        dialog.wait_for(state="detached")
        wait_for(lambda: notices.count() != before, "the notice is gone")

    def _history(self) -> set[str]:
        """The tokens of all versions of the notebook."""
        route, asked = f"{self.system.url}/ownlab/api/notebooks/history", {"notebook": self.path}
        versions = self.client.get(route, params=asked).raise_for_status().json()["versions"]
        contents = [self.client.get(route, params={**asked, "version": version["id"]}) for version in versions]
        # One that a newer version has replaced meanwhile is not found.
        return set(tokens("\n".join(content.text for content in contents if content.is_success)))

    def _faults(self, kept: set[str], notebook: dict[str, Any]) -> list[str]:
        """`kept`: the tokens in the history."""
        sources = ["".join(cell["source"]) for cell in notebook["cells"]]
        there = all_tokens(sources)
        missing = [token for token in self.typed.at if self.typed.must_be_there(token) and not there[token]]
        faults = [f"lost: {token}" for token in missing if token not in self.typed.told]
        faults += [f"lost, also in the history: {token}" for token in missing if token in self.typed.told - kept]
        faults += [f"doubled: {token}" for token, number in there.items() if number > 1]
        for cell, source in zip(notebook["cells"], sources, strict=True):
            text = "".join("".join(output.get("text") or "") for output in cell.get("outputs") or ())
            if shown := TOKEN.findall(text):
                faults += self._output_faults(shown, source)
        return faults

    def _output_faults(self, shown: list[str], source: str) -> list[str]:
        if len(set(shown)) != len(shown):
            return [f"outputs are there twice: {shown}"]
        runs = [at for at, code in self.typed.runs if code[: len(shown)] == shown]
        if not runs:
            return [f"an output that no run printed: {shown}"]
        # Lines may have been split off since; what is new in the cell was typed after it ran.
        strange = [token for token in printed(source) if token not in shown and self.typed.at[token] < max(runs)]
        whole = next(code for at, code in self.typed.runs if at == max(runs))
        return [f"{shown} is the output of other code: {strange}"] if set(strange) - set(whole) else []


def run_all(system: System, seeds: Sequence[int], kinds: Sequence[str] = KINDS, *, ours: bool = True) -> list[Outcome]:
    """Run each seed with the next kind of interruption."""
    outcomes: list[Outcome] = []
    with browser() as context, Network(int(system.url.rsplit(":", 1)[1])) as network:
        for number, seed in enumerate(seeds):
            kind = kinds[number % len(kinds)]
            try:
                outcome = Outcome(seed, kind, EditedRun(context, system, network, seed, kind).go())
            except (BrowserError, AssertionError) as stuck:
                outcome = Outcome(seed, kind, [], f"{type(stuck).__name__}: {str(stuck)[:300]}")
                for page in context.pages[1:]:
                    page.close()
            outcomes.append(outcome)
            print_outcome(system, outcome, ours)
    return outcomes
