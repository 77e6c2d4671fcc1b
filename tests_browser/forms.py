"""Page objects for Colab forms: title, fields and code of a cell."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, expect
from tests_browser.lab import CPU, Lab, notebook_of
from tests_browser.notebook import LabPage, Notebook

__all__ = ["Forms", "write_notebook"]


def write_notebook(lab: Lab, name: str, *cells: str | dict[str, Any]) -> str:
    """Write a notebook into the lab's folder; a cell given as a dict may contain metadata."""
    made = notebook_of(CPU, *(cell if isinstance(cell, str) else cell["source"] for cell in cells))
    for cell, given in zip(made["cells"], cells, strict=True):
        cell |= given if isinstance(given, dict) else {}
    (lab.folder / name).write_text(json.dumps(made, indent=1), encoding="utf-8")
    return name


class Forms(Notebook):
    """The current notebook and its forms."""

    @classmethod
    def opened(cls, page: LabPage, name: str, url: str = "") -> Forms:
        """Open a notebook that has a form."""
        page.notebook(name, url)
        made = cls(page.page)
        expect(made.panel.locator(".ownlab-Form").first).to_be_visible()
        return made

    def ready(self) -> Forms:
        """Wait until the kernel is connected."""
        super().ready()
        return self

    def form(self, number: int) -> Locator:
        """Return the form of a cell."""
        return self.cell(number).locator(".ownlab-Form")

    def field(self, number: int, name: str) -> Locator:
        """Return the control of a field, by its label."""
        return self.form(number).get_by_label(f"{name}:", exact=True)

    def toggle(self, number: int) -> Locator:
        """Return the button that shows and hides the code."""
        return self.form(number).locator(".ownlab-Form-toggle")

    def editor(self, number: int) -> Locator:
        """Return the code editor of a cell."""
        return self.cell(number).locator(".jp-InputArea-editor")

    def line(self, number: int, line: int) -> Locator:
        """Return one line of a cell's code, from 0."""
        return self.cell(number).locator(".cm-line").nth(line)

    def source(self, number: int) -> str:
        """Return the code in a cell's editor."""
        return "\n".join(self.cell(number).locator(".cm-line").all_text_contents())

    def command_mode(self, number: int) -> None:
        """Select a cell in command mode."""
        self.prompt(number).click()
        expect(self.cell(number)).to_be_focused()

    def scrolled_to(self, number: int, share: float) -> bool:
        """Scroll (0: to the top, 1: to the last cells), and focus a cell's first field. Return whether it was there.

        The visible range keeps changing while JupyterLab measures the height of cells; the active cell stays in it.
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
        """Return what all fields of a form show."""
        values: dict[str, str] = self.form(number).evaluate(
            """form => Object.fromEntries([...form.querySelectorAll('.ownlab-Form-entry')].map(entry =>
                [entry.labels[0].textContent.slice(0, -1),
                 entry.type === 'checkbox' ? String(entry.checked) : entry.value]))"""
        )
        return values

    def saved(self, lab: Lab, name: str) -> list[dict[str, Any]]:
        """Save the notebook, and return the cells of the file, with sources as strings."""
        self.save()
        cells = json.loads((lab.folder / name).read_text(encoding="utf-8"))["cells"]
        return [{**cell, "source": "".join(cell["source"])} for cell in cells]
