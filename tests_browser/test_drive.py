"""The panel of the drive: files are opened, uploaded and downloaded, and notebooks run in its folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, expect
from tests_browser.lab import CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook


@pytest.fixture
def drive(lab: Lab) -> Path:
    """The folder of the lab's drive."""
    folder = Path(lab.environ["OWNLAB_DRIVE_FOLDER"])
    folder.mkdir(exist_ok=True)
    return folder


def test_the_drive_panel(page: LabPage, lab: Lab, drive: Path) -> None:
    (drive / "notes.txt").write_text("notes on the drive", encoding="utf-8")
    code = "import os\nprint(os.getcwd())"
    (drive / "train.ipynb").write_text(json.dumps(notebook_of(CPU, code)), encoding="utf-8")
    lab.write("train.ipynb", CPU, "print('the other one')")
    page.open()
    panel = page.side_panel("Drive")
    notes = panel.locator(".jp-DirListing-item", has_text="notes.txt")
    away = {"status": 409, "json": {"message": "The remote is not mounted."}}
    page.page.route("**/ownlab/drive/api/contents/MyDrive/notes.txt**", lambda route: route.fulfill(**away), times=1)
    notes.dblclick()
    expect(page.dialog).to_contain_text("The remote is not mounted.")
    page.answer("Close")
    expect(page.page.locator(".jp-FileEditor")).to_have_count(0)  # JupyterLab closes its tab
    notes.dblclick()
    expect(page.page.locator(".jp-FileEditor .cm-content")).to_contain_text("notes on the drive")
    with page.page.expect_file_chooser() as chooser:
        panel.locator(".jp-ToolbarButtonComponent[title='Upload Files']").click()
    chooser.value.set_files(FilePayload(name="up.csv", mimeType="text/csv", buffer=b"1,2\n"))
    uploaded = panel.locator(".jp-DirListing-item", has_text="up.csv")
    expect(uploaded).to_be_visible()
    assert (drive / "up.csv").read_bytes() == b"1,2\n"
    with page.page.expect_download() as downloaded:
        uploaded.click(button="right")
        page.page.locator(".lm-Menu-item", has_text=re.compile("^Download")).click()
    assert Path(downloaded.value.path()).read_bytes() == b"1,2\n"

    panel.locator(".jp-DirListing-item", has_text="train.ipynb").dblclick()
    notebook = Notebook(page.page).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text(str(drive.resolve()))
    notebook.save()
    assert str(drive.resolve()) in (drive / "train.ipynb").read_text(encoding="utf-8")
    assert str(drive.resolve()) not in (lab.folder / "train.ipynb").read_text(encoding="utf-8")

    page.page.locator('.jp-SideBar .lm-TabBar-tab[data-id="filebrowser"]').click()
    page.menu("File", "New", "Text File")  # nothing is created in a hidden drive panel
    wait_for((lab.folder / "untitled.txt").exists, "the file is in the lab's folder")
