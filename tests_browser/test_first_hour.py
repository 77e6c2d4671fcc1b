"""The first hour of a new user, in the page alone, once `make lab` was typed: from the start page to a notebook that is opened again the next day.

Packages come from an index on loopback with small stand-ins; what computes and draws (numpy, matplotlib) is real.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Locator, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from tests.package_index import PackageIndex, make_packages, make_torch, make_torchvision, serve_packages
from tests_browser.forms import Forms
from tests_browser.gallery import Gallery
from tests_browser.lab import Lab, wait_for
from tests_browser.notebook import LabPage

TYPE = "ownlab-deep-learning-1-nvidia-geforce-gtx-1080-ti"

IMPORT = """\
import torch
generator = torch.Generator().manual_seed(0)
size = torch.randn(64, 64, generator) @ torch.randn(64, 64, generator)
print("torch", torch.__version__, "sees", torch.cuda.device_count(), "card")"""

PLOT = """\
import matplotlib.pyplot as plt
plt.figure(figsize=(6, 2.5))
plt.plot([2.30, 1.81, 1.44, 1.20, 1.05, 0.97])
plt.xlabel("epoch")
plt.ylabel("loss");"""

FORM = """\
#@title Settings
epochs = 20  #@param {type:"integer"}
precision = "fp32"  #@param ["fp32", "bf16"]
print(f"{epochs} epochs in {precision}")"""

READ = """\
rows = open("/content/measured.csv").read().split()
print(len(rows), "rows")"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    """PyPI, and PyTorch's own index with the build that the catalogue names for these cards."""
    folder = tmp_path_factory.mktemp("index")
    make_torch(folder / "whl" / "cu126", "2.14.1+cu126")
    make_torchvision(folder / "whl" / "cu126", "0.29.1+cu126", "2.14.1")
    with serve_packages(make_packages(folder / "wheels"), folder / "whl") as served:
        yield served


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, index: PackageIndex) -> Iterator[Lab]:
    """A lab as `make lab` leaves it in a fresh clone, without notebooks, and without the default environment."""
    base = tmp_path_factory.mktemp("hour")
    made = Lab(base, **index.environment(base / "cache"), STAND_IN_CARDS="1")
    try:
        yield made.make()
    finally:
        made.clear()


class FirstHour:
    """One person at one page. Each method is something that they do and see."""

    def __init__(self, page: LabPage, lab: Lab, index: PackageIndex) -> None:
        self.page, self.lab, self.index = page, lab, index
        self.gallery = Gallery(page.page)
        self.name = ""  # of the notebook

    @property
    def notebook(self) -> Forms:
        return Forms(self.page.page)

    def create_environment(self) -> None:
        """Deep learning by one click: its size is stated before, its progress is shown, and it is proven."""
        self.page.open()
        expect(self.page.start.get_by_role("status", name="This machine")).to_contain_text("GPU work will run")
        environments = self.page.start.get_by_role("region", name="Environments")
        self.gallery.shoot("start")
        environments.get_by_role("button", name="Set up deep learning").click()
        offer = environments.get_by_role("group", name="New environment deep-learning")
        expect(offer.get_by_role("status")).to_contain_text(
            re.compile(r"\d+ packages for Python 3\.\d+.*; up to 1\.\d MiB to download\.")
        )
        expect(offer).to_contain_text("PyTorch's own index, built for CUDA 12.6")
        self.gallery.shoot("offer")
        self.index.hold("torch")
        offer.get_by_role("button", name="Create").click()
        row = environments.get_by_role("listitem", name="deep-learning")
        expect(row.get_by_role("status")).to_contain_text("Downloading torch")
        progress = row.get_by_role("progressbar")
        expect(progress).to_have_attribute("value", re.compile(r"0\.[3-8]"))
        self.gallery.shoot("building")
        self.page.page.reload()  # the build belongs to the machine, not to the page
        expect(progress).to_be_visible()
        self.index.release()
        expect(row).to_contain_text("proven on card 0")
        self.gallery.shoot("built")

    def create_notebook(self) -> None:
        """A notebook by a tile of that environment; it starts nothing yet."""
        # Whoever has created an environment wants to use it.
        expect(self.page.start.get_by_label("New notebook in")).to_have_value("deep-learning")
        self.gallery.shoot("tiles")
        self.page.tile(TYPE).click()
        expect(self.notebook.connect_button).to_contain_text("1 × GTX 1080 Ti")
        self.gallery.shoot("new-notebook")
        self.name = "Untitled.ipynb"
        assert self.lab.get("api/sessions") == []

    def add_cell(self, code: str) -> int:
        """Write code into the last cell, run it with its button, and return its number; a new last cell is there."""
        number = self.notebook.panel.locator(".jp-Notebook .jp-CodeCell").count() - 1
        self.notebook.write(number, code)
        self.notebook.run(number)
        return number

    def use_torch(self) -> None:
        number = self.add_cell(IMPORT)
        expect(self.notebook.output(number)).to_have_text("torch 2.14.1+cu126 sees 1 card")
        expect(self.notebook.indicator).to_contain_text("1 × GTX 1080 Ti")

    def plot(self) -> None:
        number = self.add_cell(PLOT)
        picture = self.notebook.output(number).locator("img")
        expect(picture).to_be_visible()
        size = picture.evaluate("image => [image.naturalWidth, image.naturalHeight]")
        assert size[0] > 300
        assert size[1] > 100
        self.gallery.shoot("plot")

    def fill_form(self) -> None:
        """A form is shown as soon as its code is there; changing it changes the code."""
        number = self.add_cell(FORM)
        expect(self.notebook.output(number)).to_have_text("20 epochs in fp32")
        self.notebook.field(number, "epochs").fill("30")
        self.notebook.field(number, "precision").select_option("bf16")
        self.notebook.button(number).click()
        expect(self.notebook.output(number)).to_have_text("30 epochs in bf16")
        assert 'precision = "bf16"' in self.notebook.source(number)
        self.gallery.shoot("form")

    def mount_drive(self) -> None:
        """Mount Drive inserts the code and runs it, in Colab mode, which this person did not know of."""
        browser = self.page.files("Drive")
        self.gallery.shoot("drive")
        browser.get_by_role("button", name="Mount Drive").click()
        expect(self.page.dialog).to_contain_text("The drive is mounted in Colab mode")
        expect(self.page.dialog).to_contain_text("the cells above that have run are run again")
        self.gallery.shoot("mount-question")
        self.page.answer("Restart and mount")
        mounted = self.notebook.panel.locator(".jp-OutputArea-output", has_text="Mounted at /content/drive")
        expect(mounted).to_be_visible()
        self.gallery.shoot("mounted")

    def upload(self) -> None:
        """A file that is uploaded is in Files, and can be read by the notebook."""
        browser = self.page.files("Runtime")
        expect(entry(browser, "sample_data")).to_be_visible()
        with self.page.page.expect_file_chooser() as chooser:
            browser.locator(".jp-ToolbarButtonComponent[title='Upload Files']:visible").click()
        chooser.value.set_files(FilePayload(name="measured.csv", mimeType="text/csv", buffer=b"1,2\n3,4\n5,6\n"))
        expect(entry(browser, "measured.csv")).to_be_visible()
        number = self.add_cell(READ)
        expect(self.notebook.output(number)).to_have_text("3 rows")
        self.gallery.shoot("uploaded")

    def disconnect(self) -> None:
        """Disconnect and delete runtime says what it deletes; the card is free afterwards."""
        self.page.menu("Runtime", "Disconnect and Delete Runtime…")
        expect(self.page.dialog).to_contain_text("the folder /content of this runtime")
        self.gallery.shoot("deletion")
        self.page.answer("Disconnect and delete")
        expect(self.notebook.connect_button).to_be_visible()
        wait_for(lambda: not self.lab.snapshot()["runtimes"], "the runtime has ended")
        expect(self.page.page.locator("#filebrowser")).to_contain_text(f"{self.name} has no runtime.")
        self.gallery.shoot("disconnected")

    def reopen(self) -> None:
        """Code and outputs are as they were left, and nothing runs."""
        usual = self.page.page.viewport_size
        self.draw_all_cells()
        left = self.seen()
        self.page.menu("File", "Close Tab")
        expect(self.page.start).to_be_visible()
        recent = self.page.start.get_by_role("region", name="Recent").get_by_role("button", name=self.name)
        self.gallery.shoot("recent")
        recent.click()
        self.draw_all_cells()
        wait_for(lambda: self.seen() == left, "all cells are shown as they were left")
        assert self.lab.get("api/sessions") == []
        expect(self.notebook.connect_button).to_be_visible()
        assert usual is not None
        self.page.page.set_viewport_size(usual)
        self.gallery.shoot("reopened")

    def draw_all_cells(self) -> None:
        """JupyterLab draws the cells that fit into the window: all of them are to be compared.

        On a busy machine it may measure a larger window before that is laid out, and draws no more cells until the size changes again.
        """
        last = self.notebook.panel.locator(".jp-OutputArea-output", has_text="3 rows")
        heights = itertools.cycle((4000, 4040))

        def drawn() -> bool:
            self.page.page.set_viewport_size({"width": 1440, "height": next(heights)})
            with contextlib.suppress(PlaywrightTimeout):
                last.wait_for(timeout=5_000)
            return last.is_visible()

        wait_for(drawn, "all cells are drawn")

    def seen(self) -> list[tuple[str, str, int]]:
        """The code, the text output and the number of pictures of every cell."""
        cells = self.notebook.panel.locator(".jp-Notebook .jp-CodeCell")
        return [
            (
                self.notebook.source(number),
                self.notebook.text(number),
                self.notebook.output(number).locator("img").count(),
            )
            for number in range(cells.count())
        ]

    def reconnect(self) -> None:
        """Running a cell is enough; the runtime is a new one of the same type, in Colab mode as before."""
        number = next(i for i, (code, _, _) in enumerate(self.seen()) if "import torch" in code)
        self.notebook.run(number)
        expect(self.notebook.prompt(number)).to_have_text("[1]:")
        expect(self.notebook.output(number)).to_have_text("torch 2.14.1+cu126 sees 1 card")
        [runtime] = self.lab.snapshot()["runtimes"]
        assert runtime["type"] == TYPE
        assert not (Path(self.lab.base) / "home" / "content" / runtime["id"] / "measured.csv").exists()
        self.gallery.shoot("reconnected")


def entry(browser: Locator, name: str) -> Locator:
    return browser.locator(".jp-DirListing-item:visible", has_text=name)


@pytest.mark.restarts_kernel
def test_the_first_hour(page: LabPage, lab: Lab, index: PackageIndex) -> None:
    person = FirstHour(page, lab, index)
    person.create_environment()
    person.create_notebook()
    person.use_torch()
    person.plot()
    person.fill_form()
    person.mount_drive()
    person.upload()
    person.disconnect()
    person.reopen()
    person.reconnect()
    saved = json.loads((lab.folder / person.name).read_text(encoding="utf-8"))
    assert any("image/png" in output.get("data", {}) for cell in saved["cells"] for output in cell.get("outputs", []))
