"""Takes the pictures of the page in README and docs: python -m tests_browser.shots docs/images

With --all also those of dialogs, menus and the dark theme. Four recorded cards and several runtimes. If run as root, one runtime belongs to another user of a shared store.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, expect, sync_playwright
from tests_browser.conftest import SIZE, chromium
from tests_browser.lab import CPU, PATIENCE, Lab, notebook_of
from tests_browser.notebook import LabPage, Notebook
from tests_browser.recorded_cards import four_h200

ONE, HALF, TWO = "ownlab-1-nvidia-h200", "ownlab-half-nvidia-h200", "ownlab-2-nvidia-h200"
OTHER, OTHER_UID = "ann", 54321
IN_NAMESPACE = "OWNLAB_SHOTS_NAMESPACE"

# Nobody waits for these pictures, and nothing that takes long is a failure.
SECONDS = 5 * PATIENCE
FORMS_SIZE: ViewportSize = {"width": 1200, "height": 690}

PREPARE = """\
#@title Prepare the data { display-mode: "form" }
#@markdown Downloads once, then reads from disk.
dataset = "cifar10" #@param ["cifar10", "cifar100"]
fraction = 0.5 #@param {type:"slider", min:0, max:1, step:0.1}
augment = True #@param {type:"boolean"}
print(f"{50_000 * fraction:,.0f} pictures of {dataset}" + (", with flips and crops" if augment else ""))"""

FORM = """\
#@title Train
#@markdown **Fields write the code**, the code fills the fields; `ownlab run` takes them as parameters.
model = "resnet50" #@param ["resnet18", "resnet50"] {allow-input: true}
epochs = 12 #@param {type:"integer"}
rate = 3e-4 #@param {type:"number"}
precision = "bf16" #@param ["fp32", "fp16", "bf16"]
begin_from = "" #@param {type:"string", placeholder:"a checkpoint"}

for epoch in range(2):
    print(f"{model}  epoch {epoch + 1}/{epochs}  loss {2.3 / (epoch + 1):.3f}")"""

TRAIN = """\
import os
import time

print("card", os.environ["CUDA_VISIBLE_DEVICES"])
batches = bytearray(1_500_000_000)
for epoch in range(1, 1000):
    time.sleep(1)
    print(f"epoch {epoch:3d}  loss {2.3 / epoch**0.5:.4f}", flush=True)"""


class PatientLab(Lab):
    patience = SECONDS


def main(out: Path, everything: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ownlab-shots-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        lab = PatientLab(base / "mine", **four_h200(base), OWNLAB_STORE=str(base / "store"))
        labs = [lab, *([_other(base, lab.environ)] if os.getuid() == 0 else [])]
        try:
            for each in labs:
                each.up()
            _take(labs, out, everything)
        finally:
            for each in labs:
                each.clear()


def _other(base: Path, environ: dict[str, str]) -> Lab:
    """Return a lab of another user with the same store."""
    store = environ["OWNLAB_STORE"]
    made = subprocess.run(
        [sys.executable, "-m", "ownlab", "store", "init", "--shared", "--folder", store],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    become = ["setpriv", f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups"]
    cards = {name: environ[name] for name in ("OWNLAB_MACHINE", "OWNLAB_STREAM")}
    other = PatientLab(base / OTHER, "", become, **cards, OWNLAB_STORE=store)
    for path in (other.base, other.folder):
        os.chown(path, OTHER_UID, OTHER_UID)
    return other


def _take(labs: list[Lab], out: Path, everything: bool) -> None:
    lab = labs[0]
    for other in labs[1:]:
        other.start("segment.ipynb", ONE)
    for name in ("explore.ipynb", "report.ipynb"):
        lab.write(name, ONE, "")
    lab.start(lab.write("sweep.ipynb", ONE, ""), ONE)
    expect.set_options(timeout=1000 * SECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = LabPage(browser.new_page(viewport=SIZE), lab)
        page.page.set_default_timeout(1000 * SECONDS)
        page.open()
        expect(page.start.get_by_role("status")).to_contain_text("GPU work will run")
        expect(page.start.get_by_role("button", name="sweep.ipynb")).to_be_visible()
        page.page.screenshot(path=out / "start.png")
        _take_forms(page, out)
        notebook = page.notebook(lab.write("train.ipynb", HALF, TRAIN)).ready()
        notebook.run(0)
        expect(notebook.output(0)).to_contain_text("epoch  20")
        graph = page.panel().get_by_role("region", name="The last minutes")
        expect(graph.get_by_role("heading")).to_have_text("The last 5 min")
        page.page.screenshot(path=out / "lab.png")
        page.page.set_viewport_size({"width": SIZE["width"], "height": 1500})
        page.panel().get_by_role("region", name="Cards").screenshot(path=out / "cards.png")
        page.page.set_viewport_size(SIZE)
        if everything:
            _take_panel(page, out)
            _take_dialogs(page, notebook, out)
        browser.close()


def _take_forms(page: LabPage, out: Path) -> None:
    """Take a form without its code, and one beside its code."""
    made = notebook_of(CPU, PREPARE, FORM)
    made["cells"][0]["metadata"] = {"cellView": "form"}
    (page.lab.folder / "forms.ipynb").write_text(json.dumps(made), encoding="utf-8")
    page.page.set_viewport_size(FORMS_SIZE)
    notebook = page.notebook("forms.ipynb").ready()
    page.page.locator('.jp-SideBar .lm-TabBar-tab[data-id="filebrowser"]').click()  # more room for the notebook
    for cell in (0, 1):
        notebook.button(cell).click()
        expect(notebook.output(cell)).not_to_have_text("")
    notebook.panel.get_by_label("rate:", exact=True).click()
    page.page.screenshot(path=out / "forms.png")
    page.page.set_viewport_size(SIZE)
    page.lab.end(page.lab.kernel_of("forms.ipynb"))


def _take_dialogs(page: LabPage, notebook: Notebook, out: Path) -> None:
    """Take the menu of a runtime, the queue, and the choice of a type."""
    notebook.indicator.click()
    page.page.screenshot(path=out / "popover.png")
    page.page.keyboard.press("Escape")
    page.notebook(page.lab.write("big.ipynb", TWO, "")).connect()
    expect(page.dialog).to_be_visible()
    page.page.screenshot(path=out / "queue.png")
    page.dialog.get_by_role("button", name="Another type").click()
    expect(page.dialog.locator("fieldset")).to_be_visible()
    page.page.screenshot(path=out / "types.png")


def _take_panel(page: LabPage, out: Path) -> None:
    """Take the whole panel alone, in both themes."""
    page.page.set_viewport_size({"width": SIZE["width"], "height": 1500})
    for theme in ("Light", "Dark"):
        page.menu("Settings", "Theme", f"JupyterLab {theme}")
        expect(page.page.locator("body")).to_have_attribute("data-jp-theme-name", f"JupyterLab {theme}")
        page.page.wait_for_selector("#jupyterlab-splash", state="detached")
        page.panel().screenshot(path=out / f"panel-{theme.lower()}.png")
        page.panel().get_by_role("region", name="Cards").screenshot(path=out / f"cards-{theme.lower()}.png")
    page.menu("Settings", "Theme", "JupyterLab Light")
    expect(page.page.locator("body")).to_have_attribute("data-jp-theme-name", "JupyterLab Light")
    page.page.wait_for_selector("#jupyterlab-splash", state="detached")
    page.page.set_viewport_size(SIZE)


def _with_another_user() -> int:
    """Run again in a mount namespace in which the other user has a name and can read the folder of this interpreter."""
    aside = Path(tempfile.mkdtemp(prefix="ownlab-shots-"))
    names = Path("/etc/passwd").read_text(encoding="utf-8")
    (aside / "passwd").write_text(f"{names}{OTHER}:x:{OTHER_UID}:{OTHER_UID}::/tmp:/bin/sh\n", encoding="utf-8")
    (aside / "keep").mkdir()
    script = f"set -e; mount --bind {aside}/passwd /etc/passwd; "
    above = [*Path(sys.executable).resolve().parents][::-1]
    for closed, inside in itertools.pairwise(above):
        if not closed.stat().st_mode & 0o001:
            script += f"mount --bind {inside} {aside}/keep; mount -t tmpfs -o mode=755 tmpfs {closed}; "
            script += f"mkdir {inside}; mount --bind {aside}/keep {inside}; "
            break
    again = [sys.executable, "-m", "tests_browser.shots", *sys.argv[1:]]
    command = ["unshare", "--mount", "sh", "-c", script + 'exec "$@"', "sh", *again]
    try:
        return subprocess.run(command, env={**os.environ, IN_NAMESPACE: "1"}, check=False).returncode
    finally:  # one by one: should a mount have leaked out of the namespace, nothing below it is removed
        (aside / "keep").rmdir()
        (aside / "passwd").unlink()
        aside.rmdir()


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if argument != "--all"]
    if len(folders) != 1:
        sys.exit(__doc__)
    if os.getuid() == 0 and shutil.which("unshare") and IN_NAMESPACE not in os.environ:
        sys.exit(_with_another_user())
    main(Path(folders[0]), everything="--all" in sys.argv)
