"""Takes the screenshots for README: python -m tests_browser.shots OUT_FOLDER

Four recorded cards and several runtimes. If run as root, one runtime belongs to another user of a shared store.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect, sync_playwright
from tests_browser.conftest import SIZE, chromium
from tests_browser.lab import Lab
from tests_browser.notebook import LabPage
from tests_browser.recorded_cards import four_h200

ONE, HALF, TWO = "ownlab-1-nvidia-h200", "ownlab-half-nvidia-h200", "ownlab-2-nvidia-h200"
OTHER, OTHER_UID = "ann", 54321
IN_NAMESPACE = "OWNLAB_SHOTS_NAMESPACE"

TRAIN = """\
import os
import time

print("card", os.environ["CUDA_VISIBLE_DEVICES"])
batches = bytearray(1_500_000_000)
for epoch in range(1, 1000):
    time.sleep(1)
    print(f"epoch {epoch:3d}  loss {2.3 / epoch**0.5:.4f}", flush=True)"""


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ownlab-shots-") as folder:
        base = Path(folder)
        base.chmod(0o755)
        lab = Lab(base / "mine", **four_h200(base), OWNLAB_STORE=str(base / "store"))
        labs = [lab, *([_other(base, lab.environ)] if os.getuid() == 0 else [])]
        try:
            for one in labs:
                one.up()
            _take(labs, out)
        finally:
            for one in labs:
                one.clear()


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
    other = Lab(base / OTHER, "", become, **cards, OWNLAB_STORE=store)
    for path in (other.base, other.folder):
        os.chown(path, OTHER_UID, OTHER_UID)
    return other


def _take(labs: list[Lab], out: Path) -> None:
    lab = labs[0]
    for other in labs[1:]:
        other.start("segment.ipynb", ONE)
    lab.start("sweep.ipynb", ONE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = LabPage(browser.new_page(viewport=SIZE), lab)
        page.open()
        page.page.screenshot(path=out / "launcher.png")
        notebook = page.notebook(lab.write("train.ipynb", HALF, TRAIN)).ready()
        notebook.run(0)
        expect(notebook.output(0)).to_contain_text("epoch  20", timeout=60_000)
        graph = page.panel().get_by_role("region", name="The last minutes")
        expect(graph.get_by_role("heading")).to_have_text("The last 5 min")
        page.page.screenshot(path=out / "lab.png")
        _take_panel(page, out)
        notebook.indicator.click()
        page.page.screenshot(path=out / "popover.png")
        page.page.keyboard.press("Escape")
        page.notebook(lab.write("big.ipynb", TWO, "")).panel.wait_for()
        expect(page.dialog).to_be_visible()
        page.page.screenshot(path=out / "queue.png")
        page.dialog.get_by_role("button", name="Another type").click()
        expect(page.dialog.locator("fieldset")).to_be_visible()
        page.page.screenshot(path=out / "types.png")
        browser.close()


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
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if os.getuid() == 0 and shutil.which("unshare") and IN_NAMESPACE not in os.environ:
        sys.exit(_with_another_user())
    main(Path(sys.argv[1]))
