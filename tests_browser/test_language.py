"""The page in other languages: everything of ownlab is translated, and JupyterLab's own setting chooses the language."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, expect
from tests_browser.lab import CARD, CPU, Lab, wait_for
from tests_browser.notebook import LabPage, Notebook

FORM = '#@title Train\nmodel = "resnet50" #@param ["resnet18", "resnet50"]\nepochs = 12 #@param {type:"integer"}'

# What people see or hear of some elements, apart from code.
SHOWN = """elements => {
  const found = [];
  const isCode = node => node.closest('code, pre, kbd, textarea, .cm-editor, .jp-OutputArea-output, .ownlab-Start-chips');
  const visit = node => {
    if (node.nodeType === Node.TEXT_NODE) {
      found.push(node.data);
    } else if (node.nodeType === Node.ELEMENT_NODE && node.checkVisibility() && !isCode(node)) {
      found.push(...(node.matches('.lm-Widget') ? ['placeholder'] : ['title', 'aria-label', 'placeholder']).map(name => node.getAttribute(name) ?? ''));
      node.childNodes.forEach(visit);
    }
  };
  elements.forEach(visit);
  return found.map(each => each.trim()).filter(Boolean);
}"""

# Names, units and codes; words of JupyterLab.
NAMES = """
ownlab Colab JupyterLab Jupyter GitHub gist Hugging Face Google MyDrive Python torch torchvision transformers vision timm CUDA
NVIDIA GeForce GTX CPU GPU RAM KiB MiB GiB TiB ipynb train other default deep learning model epochs resnet Train content
Ctrl Shift Enter Alt Markdown Transformer zip run int str userdata
"""


@pytest.fixture(scope="module")
def pseudo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab whose pages begin in the pseudo-language: letters of templates have accents."""
    yield from _lab(tmp_path_factory.mktemp("pseudo"), "qps")


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from _lab(tmp_path_factory.mktemp("chinese"), "zh_CN")


def _lab(base: Path, language: str) -> Iterator[Lab]:
    lab = Lab(base, OWNLAB_LANG=language, OWNLAB_DATA_STAGE_FOLDER=str(base / "scratch"))
    try:
        lab.write("train.ipynb", CPU, FORM, "6 * 7")
        yield lab.up()
    finally:
        lab.clear()


@pytest.fixture
def open_page(context: BrowserContext) -> Iterator[Callable[[Lab], LabPage]]:
    opened = []

    def open_one(lab: Lab) -> LabPage:
        opened.append(context.new_page())
        return LabPage(opened[-1], lab)

    yield open_one
    for page in opened:
        page.close()


def refuse_english(shown: Locator) -> None:
    """Fail if the elements have a plain word of English, apart from names."""
    expect(shown.first).to_be_visible()
    texts: list[str] = shown.evaluate_all(SHOWN)
    assert texts
    names = NAMES.split()
    words = {text: re.findall(r"[^\W\d_]{3,}", re.sub(r"https?:\S+|[\w./~-]*/[\w./~-]+", "", text)) for text in texts}
    english = [text for text in texts if any(word.isascii() and word not in names for word in words[text])]
    assert not english, "\n".join(dict.fromkeys(english))


def choose(page: LabPage, menu: int, command: str) -> None:
    """Choose a command in a menu, whatever the language is."""
    page.page.locator(".lm-MenuBar-item").nth(menu).click()
    page.page.locator(f'.lm-Menu-item[data-command="{command}"]').click()


def side_panel(page: LabPage, name: str) -> Locator:
    panel = page.page.locator(f"#ownlab-{name}")
    if not panel.is_visible():
        page.page.locator(f'.jp-SideBar .lm-TabBar-tab[data-id="ownlab-{name}"]').click()
    expect(panel).to_be_visible()
    return panel


def connected(page: LabPage) -> Notebook:
    notebook = page.notebook("train.ipynb")
    notebook.ready().button(1).click()
    expect(notebook.output(1)).to_contain_text("42")
    return notebook


def test_the_start_page_and_the_doctor_s_report_have_no_english(
    pseudo: Lab, open_page: Callable[[Lab], LabPage]
) -> None:
    page = open_page(pseudo)
    page.open()
    machine = page.start.get_by_role("status")
    wait_for(lambda: "1080" in machine.inner_text(), "the machine was examined")
    expect(page.tile(CARD)).to_be_visible()
    refuse_english(page.start)
    machine.get_by_role("button").click()
    report = page.page.locator(".ownlab-Doctor")
    expect(report.get_by_role("region").first).to_be_visible()
    refuse_english(report.locator("h1, h2, h3, button, .ownlab-Doctor-verdict"))
    page.page.keyboard.press("Control+Shift+C")
    page.page.keyboard.type("ownlab")
    commands = page.page.locator('.lm-CommandPalette-item[data-command^="ownlab:"] .lm-CommandPalette-itemLabel')
    expect(commands.nth(5)).to_be_visible()
    refuse_english(commands)


def test_panels_of_a_notebook_have_no_english(pseudo: Lab, open_page: Callable[[Lab], LabPage]) -> None:
    page = open_page(pseudo)
    notebook = connected(page)
    refuse_english(notebook.indicator)
    refuse_english(page.page.locator(".ownlab-Saved:visible, .ownlab-Prompt:visible, .ownlab-Form:visible"))
    panel = side_panel(page, "runtimes")
    expect(panel.get_by_role("article")).to_have_count(1)
    panel.get_by_role("article").get_by_role("button").last.click()
    refuse_english(panel)
    refuse_english(side_panel(page, "variables"))
    refuse_english(side_panel(page, "secrets"))
    page.page.locator('.jp-SideBar .lm-TabBar-tab[data-id="filebrowser"]').click()
    sources = page.page.locator("#filebrowser").get_by_role("tab")
    refuse_english(sources)
    for number in (1, 2):
        sources.nth(number).click()
        refuse_english(page.page.locator(".ownlab-Files-status:visible, .ownlab-Disk:visible"))
    notebook.indicator.click()
    refuse_english(page.page.locator(".ownlab-Popover"))
    page.page.keyboard.press("Escape")


def test_dialogs_and_notifications_have_no_english(pseudo: Lab, open_page: Callable[[Lab], LabPage]) -> None:
    page = open_page(pseudo)
    connected(page)
    for menu, command in (
        (4, "ownlab:change-type"),
        (4, "ownlab:stop-runtime"),
        (4, "ownlab:factory-reset"),
        (7, "ownlab:keyboard-shortcuts"),
        (0, "ownlab:deleted-notebooks"),
    ):
        choose(page, menu, command)
        shown = ".jp-Dialog-header, .ownlab-Shortcuts thead, .ownlab-Empty, .jp-Dialog-body:not(.ownlab-Shortcuts)"
        refuse_english(page.dialog.locator(shown))
        page.dialog.locator(".jp-Dialog-button").first.click()
        expect(page.dialog).to_have_count(0)
    choose(page, 0, "ownlab:history")
    history = page.page.locator(".ownlab-History")
    expect(history.get_by_role("listitem").first).to_be_visible()
    refuse_english(history)
    # Stopped elsewhere: a notification says so, with the reason that the store has.
    pseudo.end(pseudo.kernel_of("train.ipynb"))
    notice = page.page.locator(".Toastify__toast, .jp-Notification-Toast")
    refuse_english(notice.locator(".jp-toast-message, .jp-toast-content"))


def test_a_chinese_page(chinese: Lab, open_page: Callable[[Lab], LabPage]) -> None:
    page = open_page(chinese)
    page.open()
    bar = page.page.locator(".lm-MenuBar-itemLabel")
    # JupyterLab's words, and ours from a schema.
    assert [bar.nth(number).inner_text() for number in (0, 4)] == ["文件", "运行时"]
    machine = page.start.get_by_role("status")
    expect(machine).to_contain_text("4 块显卡全部空闲。")
    expect(machine).to_contain_text("GPU 工作可以运行")  # the server's
    expect(page.tile(CARD)).to_contain_text("新建笔记本")
    refuse_english(page.start)
    connected(page)
    refuse_english(side_panel(page, "runtimes"))
    for name in ("variables", "secrets"):
        refuse_english(side_panel(page, name))


def test_jupyterlab_s_menu_chooses_another_language(chinese: Lab, open_page: Callable[[Lab], LabPage]) -> None:
    setting = f"{chinese.url}lab/api/settings/@jupyterlab/translation-extension:plugin"
    body = {"raw": json.dumps({"locale": "en"})}
    chinese.client.put(setting, json=body).raise_for_status()
    try:
        page = open_page(chinese)
        page.open()
        expect(page.start.get_by_role("heading", level=1)).to_have_text(
            re.compile("^Good (morning|afternoon|evening)$")
        )
        expect(page.start.get_by_role("status")).to_contain_text("GPU work will run")
        assert page.page.locator(".lm-MenuBar-itemLabel").nth(4).inner_text() == "Runtime"
    finally:
        chinese.client.put(setting, json={"raw": "{}"}).raise_for_status()
