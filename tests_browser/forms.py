"""Forms as a person uses them: a cell's title, fields and code."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, expect
from tests_browser.lab import CPU, Lab, notebook_of
from tests_browser.notebook import LabPage, Notebook

__all__ = ["Forms", "write_notebook"]


def write_notebook(lab: Lab, name: str, *cells: str | dict[str, Any]) -> str:
    """Put a notebook into the folder; a cell that is a dict brings its metadata and such."""
    made = notebook_of(CPU, *(cell if isinstance(cell, str) else cell["source"] for cell in cells))
    for cell, given in zip(made["cells"], cells, strict=True):
        cell |= given if isinstance(given, dict) else {}
    (lab.folder / name).write_text(json.dumps(made, indent=1), encoding="utf-8")
    return name


class Forms(Notebook):
    """The notebook in front, and its forms."""

    @classmethod
    def opened(cls, page: LabPage, name: str, url: str = "") -> Forms:
        """Load a page with a notebook that has a form."""
        page.notebook(name, url)
        made = cls(page.page)
        expect(made.panel.locator(".ownlab-Form").first).to_be_visible()
        return made

    def ready(self) -> Forms:
        """Wait until its kernel is connected."""
        super().ready()
        return self

    def form(self, number: int) -> Locator:
        """The form of a cell."""
        return self.cell(number).locator(".ownlab-Form")

    def field(self, number: int, name: str) -> Locator:
        """A field's control, by its label."""
        return self.form(number).get_by_label(f"{name}:", exact=True)

    def toggle(self, number: int) -> Locator:
        """Shows and hides the code."""
        return self.form(number).locator(".ownlab-Form-toggle")

    def editor(self, number: int) -> Locator:
        """The code."""
        return self.cell(number).locator(".jp-InputArea-editor")

    def line(self, number: int, line: int) -> Locator:
        """One line of a cell's code, from 0."""
        return self.cell(number).locator(".cm-line").nth(line)

    def source(self, number: int) -> str:
        """A cell's code, as the editor has it."""
        return "\n".join(self.cell(number).locator(".cm-line").all_text_contents())

    def command_mode(self, number: int) -> None:
        """Make a cell the active one, and the keyboard the notebook's."""
        self.prompt(number).click()
        expect(self.cell(number)).to_be_focused()

    def scrolled_to(self, number: int, share: float) -> bool:
        """Scroll (0: to the top, 1: to the last cells), and take a cell's first field, once it is there.

        What is in sight changes by itself for a while, as JupyterLab learns how high cells are; the active one stays.
        """
        done: bool = self.panel.evaluate(
            """(panel, [number, share]) => {
                const outer = panel.querySelector('.jp-WindowedPanel-outer');
                outer.scrollTop = share * (outer.scrollHeight - 1.8 * outer.clientHeight);
                const entry = panel.querySelector(`[data-windowed-list-index="${number}"] .ownlab-Form-entry`);
                entry?.select();
                return Boolean(entry) && entry === document.activeElement;
            }""",
            [number, share],
        )
        return done

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def values(self, number: int) -> dict[str, str]:
        """What all fields of a form show."""
        found: dict[str, str] = self.form(number).evaluate(
            """form => Object.fromEntries([...form.querySelectorAll('.ownlab-Form-entry')].map(entry =>
                [entry.labels[0].textContent.slice(0, -1),
                 entry.type === 'checkbox' ? String(entry.checked) : entry.value]))"""
        )
        return found

    def saved(self, lab: Lab, name: str) -> list[dict[str, Any]]:
        """The cells in the file, after saving; their sources as strings."""
        self.save()
        cells = json.loads((lab.folder / name).read_text(encoding="utf-8"))["cells"]
        return [{**cell, "source": "".join(cell["source"])} for cell in cells]
