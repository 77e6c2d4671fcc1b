"""For notebooks from Colab: the panels of secrets and of the drive, and the proposal of a card."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, FilePayload, Locator, Route, expect
from tests_browser.lab import CARD, CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook

from ownlab.lab.secrets.store import list_secrets, read_secret

VALUE = "a-value-that-nobody-sees"


def show(page: LabPage, name: str) -> Locator:
    """Show a panel of the left side bar, and return it."""
    panel = page.page.get_by_role("region", name=name, exact=True)
    if not panel.is_visible():
        page.page.locator(f'.jp-SideBar .lm-TabBar-tab[data-id="ownlab-{name.lower()}"]').click()
    expect(panel).to_be_visible()
    return panel


def test_secrets_are_added_granted_and_removed(page: LabPage, lab: Lab) -> None:
    sent: list[str] = []
    held: list[tuple[Route, APIResponse]] = []
    page.page.on("response", lambda answer: sent.append(answer.text()) if "/api/secrets" in answer.url else None)
    name = lab.write("asks.ipynb", CPU, "import google.colab.userdata as u\nprint(len(u.get('PANEL_TOKEN')))")
    notebook = page.notebook(name).ready()
    page.page.route("**/api/secrets**", lambda route: held.append((route, route.fetch())), times=1)
    panel = show(page, "Secrets")
    value = panel.get_by_label("Value", exact=True)
    panel.get_by_label("Name").fill("PANEL_TOKEN")
    value.fill(VALUE)
    panel.get_by_role("button", name="Add secret").click()
    row = panel.get_by_role("article", name="PANEL_TOKEN")
    expect(row).to_be_visible()
    with page.page.expect_event("requestfinished", lambda request: request == held[0][0].request):
        held[0][0].fulfill(response=held[0][1])
    assert row.is_visible()  # an outdated response is ignored
    expect(value).to_have_value("")
    access = row.get_by_role("switch")
    expect(access).not_to_be_checked()
    access.click()
    expect(access).to_be_checked()
    path = str((lab.folder / name).resolve())
    assert read_secret("PANEL_TOKEN", [path], lab.environ).value == VALUE
    notebook.run(0)
    expect(notebook.output(0)).to_have_text(str(len(VALUE)))

    row.get_by_role("button", name="Replace").click()
    expect(row.get_by_label("New value of PANEL_TOKEN")).to_have_value("")
    row.get_by_label("New value of PANEL_TOKEN").fill("another")
    row.get_by_role("button", name="Save").click()
    expect(row.get_by_role("button", name="Save")).to_have_count(0)
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("7")

    panel.get_by_label("Name").fill("PANEL_TOKEN")
    value.fill("x")
    value.press("Enter")
    expect(panel.get_by_role("alert")).to_contain_text("there is a secret named PANEL_TOKEN already")
    access.click()
    expect(access).not_to_be_checked()
    row.get_by_role("button", name="Remove").click()
    expect(page.dialog).to_contain_text("Remove the secret PANEL_TOKEN?")
    page.answer("Remove")
    expect(row).to_have_count(0)
    assert "PANEL_TOKEN" not in [secret.name for secret in list_secrets(lab.environ)]
    assert sent
    assert not any(VALUE in text for text in sent)


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
    panel = show(page, "Drive")
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


def test_a_runtime_type_is_proposed(page: LabPage, lab: Lab) -> None:
    made = notebook_of(CPU, "print(1)")
    made["metadata"] |= {"accelerator": "GPU", "colab": {"gpuType": "T4", "odd": [1, None]}}
    for name in ("made-for-t4.ipynb", "stays.ipynb"):
        (lab.folder / name).write_text(json.dumps(made), encoding="utf-8")
    notebook = page.notebook("made-for-t4.ipynb").ready()
    expect(page.notification).to_contain_text(
        "This notebook was made for a T4 GPU. Run it on 1 × NVIDIA GeForce GTX 1080 Ti?"
    )
    page.notification.get_by_role("button", name="Run it there").click()
    expect(notebook.indicator).to_contain_text("1 × GTX 1080 Ti")
    wait_for(
        lambda: (lab.runtime(lab.kernel_of("made-for-t4.ipynb")) or {}).get("type") == CARD, "the notebook has a card"
    )
    expect(page.notification).to_have_count(0)
    notebook.ready().save()
    saved = json.loads((lab.folder / "made-for-t4.ipynb").read_text(encoding="utf-8"))["metadata"]
    assert saved["kernelspec"]["name"] == CARD
    assert {"accelerator": saved["accelerator"], "colab": saved["colab"]} == {
        "accelerator": "GPU", "colab": {"gpuType": "T4", "odd": [1, None]},
    }  # fmt: skip

    notebook = page.notebook("stays.ipynb").ready()
    expect(page.notification).to_be_visible()
    notebook.run(0)
    expect(page.notification).to_have_count(0)  # running a cell is a decision
    lab.end(lab.kernel_of("stays.ipynb"))
    page.notebook("stays.ipynb").ready()
    page.notification.get_by_role("button", name="Not for this notebook").click()

    def remembered() -> bool:
        metadata = json.loads((lab.folder / "stays.ipynb").read_text(encoding="utf-8"))["metadata"]
        return bool(metadata.get("ownlab") == {"accelerator": False} and metadata["colab"] == made["metadata"]["colab"])

    wait_for(remembered, "the decision is saved in the notebook")
    lab.end(lab.kernel_of("stays.ipynb"))
    page.notebook("stays.ipynb").ready()
    expect(page.notification).to_have_count(0)
