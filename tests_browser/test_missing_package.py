"""A module that cannot be imported: the cell says where it is, or how it is installed."""

from __future__ import annotations

import json

from playwright.sync_api import expect
from tests_browser.lab import CPU, Lab
from tests_browser.notebook import LabPage


def test_an_import_error_leads_to_the_package(lab: Lab, page: LabPage) -> None:
    lab.write("imports.ipynb", CPU, "import xgboost", "import torch", "import a_file_of_mine", "import requests.gone")
    notebook = page.notebook("imports.ipynb").ready()
    for index in range(4):
        notebook.run(index)
        expect(notebook.prompt(index)).to_have_text(f"[{index + 1}]:")
    known = notebook.cell(0).get_by_role("group", name="xgboost is not installed")
    expect(known).to_contain_text("%pip install xgboost installs it.")
    created = notebook.cell(1).get_by_role("group", name="torch is not installed")
    expect(created).to_contain_text(
        "The environment deep-learning, which can be created on the start page, will have it."
    )
    assert notebook.panel.get_by_role("group", name="is not installed").count() == 2  # anybody may own a name on PyPI

    known.get_by_role("button", name="Insert the command").click()
    expect(known).to_have_count(0)
    expect(notebook.cell(0)).to_contain_text("%pip install xgboost")
    expect(notebook.prompt(0)).to_have_text("[ ]:")  # it was not run

    moved = notebook.cell(2).get_by_role("group", name="torch is not installed")
    moved.get_by_role("button", name="Open the start page").click()
    expect(page.page.locator(".ownlab-Start:visible")).to_have_count(1)
    saved = json.loads((lab.folder / "imports.ipynb").read_text())
    assert "is not installed in" not in json.dumps(saved["cells"])
