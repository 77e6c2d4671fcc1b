"""The file browser: the files of the runtime and of the drive beside the lab's folder, terminals, and the use of the disk."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Locator, expect
from tests_browser.lab import CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook

BIG = os.urandom(3 << 20)  # sent in several chunks

READ_TERMINAL = """async wanted => {
    const terminals = await (await fetch('/api/terminals')).json();
    const name = Math.max(...terminals.map(each => Number(each.name)));  // the newest
    const socket = new WebSocket(`ws://${location.host}/terminals/websocket/${name}`);
    let printed = '';
    return new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error(`not printed in 90 s: ${printed}`)), 90000);
        socket.onmessage = ({ data }) => {
            const [kind, text] = JSON.parse(data);
            printed += kind === 'stdout' ? text : '';
            if (printed.includes(wanted)) {
                resolve(printed);
            }
        };
    });
}"""


def write_colab(lab: Lab, name: str, *cells: str) -> str:
    made = notebook_of(CPU, *cells)
    made["metadata"]["ownlab"] = {"colab": True}
    (lab.folder / name).write_text(json.dumps(made), encoding="utf-8")
    return name


def entry(browser: Locator, name: str) -> Locator:
    return browser.locator(".jp-DirListing-item:visible", has_text=name)


def choose(page: LabPage, item: Locator, label: str) -> None:
    """Choose an item of a file's context menu."""
    item.click(button="right")
    page.page.locator(".lm-Menu-item", has_text=re.compile(f"^{label}")).click()


def upload(page: LabPage, browser: Locator, name: str, data: bytes) -> None:
    with page.page.expect_file_chooser() as chooser:
        browser.locator(".jp-ToolbarButtonComponent[title='Upload Files']:visible").click()
    chooser.value.set_files(FilePayload(name=name, mimeType="application/octet-stream", buffer=data))
    expect(entry(browser, name)).to_be_visible()


def test_the_files_of_the_runtime(page: LabPage, lab: Lab) -> None:
    lab.write("plain.ipynb", CPU, "1")
    # A listing would copy what other tests have left beside the notebook.
    code = "import os\nprint(os.path.isdir('sample_data'), os.path.getsize('data.bin'))\nopen('made.txt', 'w').write('by the kernel');"
    notebook = page.notebook(write_colab(lab, "colab.ipynb", code)).ready()
    browser = page.files("Runtime")
    expect(browser).to_contain_text("/content of colab.ipynb")
    expect(entry(browser, "sample_data")).to_be_visible()
    upload(page, browser, "data.bin", BIG)
    notebook.run(0)
    expect(notebook.output(0)).to_have_text(f"True {len(BIG)}")
    browser.locator(".jp-ToolbarButtonComponent[title='Refresh the file list']:visible").click()
    made = entry(browser, "made.txt")
    with page.page.expect_download() as downloaded:
        choose(page, made, "Download")
    assert Path(downloaded.value.path()).read_bytes() == b"by the kernel"
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    choose(page, made, "Copy Path for Code")
    assert page.page.evaluate("navigator.clipboard.readText()") == "/content/made.txt"
    made.dblclick()
    expect(page.page.locator(".jp-FileEditor .cm-content")).to_contain_text("by the kernel")
    page.page.reload()  # the file is opened again in its place
    expect(page.page.locator(".jp-FileEditor .cm-content")).to_contain_text("by the kernel")

    browser = page.files("Lab")
    choose(page, entry(browser, "plain.ipynb"), "Copy Path for Code")
    assert page.page.evaluate("navigator.clipboard.readText()") == str(lab.folder / "plain.ipynb")
    entry(browser, "plain.ipynb").dblclick()
    Notebook(page.page).ready()
    browser = page.files("Runtime")
    expect(browser).to_contain_text("The runtime of plain.ipynb has no /content, because it is not in Colab mode.")
    expect(browser.locator(".jp-DirListing-item:visible")).to_have_count(0)


def test_a_notebook_without_a_runtime(page: LabPage, lab: Lab) -> None:
    page.open()
    browser = page.files("Runtime")
    expect(browser).to_contain_text("Open a notebook to see the files of its runtime.")
    notebook = page.notebook(write_colab(lab, "ended.ipynb", "1"))
    browser = page.files("Runtime")
    expect(browser).to_contain_text("ended.ipynb has no runtime.")
    notebook.ready()
    expect(entry(browser, "sample_data")).to_be_visible()
    notebook.panel.locator(".jp-Notebook").click()
    page.menu("Runtime", "Stop Runtime…")
    page.answer("Stop")
    expect(browser).to_contain_text("ended.ipynb has no runtime.")
    expect(browser.locator(".jp-DirListing-item:visible")).to_have_count(0)


@pytest.fixture
def drive(lab: Lab) -> Path:
    """The folder of the lab's drive."""
    folder = Path(lab.environ["OWNLAB_DRIVE_FOLDER"])
    folder.mkdir(exist_ok=True)
    return folder


def test_the_drive(page: LabPage, lab: Lab, drive: Path) -> None:
    (drive / "notes.txt").write_text("notes on the drive", encoding="utf-8")
    code = "import os\nprint(os.getcwd())"
    (drive / "train.ipynb").write_text(json.dumps(notebook_of(CPU, code)), encoding="utf-8")
    lab.write("train.ipynb", CPU, "print('the other one')")
    page.open()
    browser = page.files("Drive")
    expect(browser).to_contain_text(f"The folder {drive} of this machine, not Google Drive.")
    notes = entry(browser, "notes.txt")
    away = {"status": 409, "json": {"message": "The remote is not mounted."}}
    page.page.route("**/ownlab/drive/api/contents/MyDrive/notes.txt**", lambda route: route.fulfill(**away), times=1)
    notes.dblclick()
    expect(page.dialog).to_contain_text("The remote is not mounted.")
    page.answer("Close")
    expect(page.page.locator(".jp-FileEditor")).to_have_count(0)  # JupyterLab closes its tab
    notes.dblclick()
    expect(page.page.locator(".jp-FileEditor .cm-content")).to_contain_text("notes on the drive")
    upload(page, browser, "up.csv", b"1,2\n")
    assert (drive / "up.csv").read_bytes() == b"1,2\n"
    with page.page.expect_download() as downloaded:
        choose(page, entry(browser, "up.csv"), "Download")
    assert Path(downloaded.value.path()).read_bytes() == b"1,2\n"

    entry(browser, "train.ipynb").dblclick()
    notebook = Notebook(page.page).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text(str(drive.resolve()))
    notebook.save()
    assert str(drive.resolve()) in (drive / "train.ipynb").read_text(encoding="utf-8")
    assert str(drive.resolve()) not in (lab.folder / "train.ipynb").read_text(encoding="utf-8")

    page.files("Lab")
    page.menu("File", "New", "Text File")  # nothing is created in a source that is not shown
    wait_for((lab.folder / "untitled.txt").exists, "the file is in the lab's folder")


def test_a_terminal_starts_in_the_folder_of_the_lab(page: LabPage, lab: Lab) -> None:
    page.open()
    page.menu("File", "New", "Terminal")
    terminal = page.page.locator(".jp-Terminal")
    expect(terminal.locator(".xterm-screen")).to_be_visible()
    terminal.click()
    page.page.keyboard.type("pwd > where.txt; ownlab --version >> where.txt\n")
    there = lab.folder / "where.txt"
    wait_for(lambda: there.exists() and "version" in there.read_text(), "both commands have run in the lab's folder")
    assert there.read_text().splitlines()[0] == str(lab.folder)


def test_data_are_inspected_by_a_click(page: LabPage, lab: Lab) -> None:
    """In a terminal of the lab; the name of the folder is one word of the shell."""
    folder = lab.folder / "it's data"
    for name in ("cat/1.txt", "dog/2.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (lab.folder / "script.py").write_text("")
    page.open()
    page.files("Lab")
    browser = page.page.locator("#filebrowser")
    entry(browser, "script.py").click(button="right")
    expect(page.page.locator(".lm-Menu-item", has_text="Copy Path for Code")).to_be_visible()
    expect(page.page.locator(".lm-Menu-item", has_text="Inspect Data")).to_be_hidden()
    page.page.keyboard.press("Escape")
    choose(page, entry(browser, "it's data"), "Inspect Data")
    expect(page.page.locator(".jp-Terminal .xterm-screen")).to_be_visible()
    # The screen is a picture; the server repeats to each new connection what the terminal has printed.
    printed = page.page.evaluate(READ_TERMINAL, "2 classes")
    assert "2 files" in printed


def test_the_disk_and_its_warning(page: LabPage, lab: Lab) -> None:
    full = {"folder": str(lab.folder), "total": 100 << 30, "free": 1 << 30, "nearly_full": True, "drive": None}
    page.page.route("**/ownlab/api/disk*", lambda route: route.fulfill(json=full))
    page.open()
    page.files("Lab")
    disk = page.page.locator(".ownlab-Disk")
    expect(disk).to_contain_text("Disk: 99 of 100 GiB used")
    warning = page.notification.filter(has_text="The disk of this lab is nearly full: 1 GiB of 100 GiB are free.")
    expect(warning).to_be_visible()
    page.open()
    expect(disk).to_be_visible()
    expect(page.notification).to_have_count(0)  # once
    page.page.unroute("**/ownlab/api/disk*")
    page.open()
    expect(disk).not_to_contain_text("99 of 100 GiB")


def test_deleting_a_notebook_says_that_its_runtime_ends(page: LabPage, lab: Lab) -> None:
    name = lab.write("precious.ipynb", CPU, "weights = 42")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    browser = page.files("Lab")
    for answer in ("Cancel", "End and delete"):
        choose(page, entry(browser, name), "(Move to Trash|Delete)")
        page.dialog.locator(".jp-mod-accept").click()
        expect(page.dialog).to_contain_text(f"End the runtime of {name}?")
        assert lab.kernel_of(name)
        page.answer(answer)
        expect(page.dialog).to_have_count(0)
    wait_for(lambda: not lab.get("api/sessions"), "its runtime has ended")
    wait_for(lambda: not (lab.folder / name).exists(), "it is deleted")


def test_the_list_keeps_its_columns_behind_another_tab(page: LabPage, lab: Lab) -> None:
    lab.write("columns.ipynb", CPU, "1")
    page.open()
    browser = page.files("Lab")
    name = entry(browser, "columns.ipynb").locator(".jp-DirListing-itemText")
    expect(name).to_be_visible()
    width = name.bounding_box()
    page.files("Drive")
    size = page.page.viewport_size
    assert size is not None
    page.page.set_viewport_size({"width": 1000, "height": 700})
    page.page.set_viewport_size(size)
    page.files("Lab")
    expect(name).to_be_visible()
    wait_for(lambda: name.bounding_box() == width, "the name is as wide as before")
