"""Factory reset: it says beforehand what it deletes, and leaves an environment as it was before the notebook."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.guest.wheels import make_wheel
from tests.package_index import PackageIndex, make_packages, serve_packages
from tests_browser.lab import PATIENCE, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage

TYPE = "ownlab-small-cpu"
INSTALL = "%pip install -q -U own-thing extra-thing"
MAKE = "open('/content/made.txt', 'w').write('x' * 2048)"
SHOW = "import own_thing; print('own', own_thing.VERSION)"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    wheels = make_packages(tmp_path_factory.mktemp("index") / "wheels")
    make_wheel(wheels, "1.0", "own_thing")
    with serve_packages(wheels) as served:
        yield served


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, index: PackageIndex) -> Iterator[Lab]:
    """A lab with an environment that has own-thing 1.0; there is a newer version now, and another package."""
    base = tmp_path_factory.mktemp("reset")
    made = Lab(
        base, **index.environment(base / "cache"), PIP_INDEX_URL=f"{index.url}/simple", PIP_CONFIG_FILE="/dev/null"
    )
    try:
        created = made.ownlab("env", "create", "small", "--with", "own-thing")
        assert created.returncode == 0, created.stderr
        make_wheel(index.wheels, "2.0", "own_thing")
        make_wheel(index.wheels, "3.0", "extra_thing")
        yield made.up()
    finally:
        made.clear()


def versions(lab: Lab) -> dict[str, str]:
    """The packages of this test in the environment."""
    [environment] = [each for each in lab.get("ownlab/api/environments")["environments"] if each["name"] == "small"]
    listed = subprocess.run(
        [environment["python"], "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
        capture_output=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    found = {each["name"]: each["version"] for each in json.loads(listed.stdout)}
    return {name: version for name, version in found.items() if name.endswith("-thing")}


def packages_of(path: Path) -> list[str]:
    """The packages that a notebook's file names; none before the page has saved them."""
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]["ownlab"]
    recorded: list[str] = metadata.get("packages", {}).get("pip", [])
    return recorded


@pytest.mark.restarts_kernel
def test_what_the_notebook_did_is_undone(page: LabPage, lab: Lab) -> None:
    made = notebook_of(TYPE, INSTALL, MAKE, SHOW)
    made["metadata"]["ownlab"] = {"colab": True}
    path = lab.folder / "reset.ipynb"
    path.write_text(json.dumps(made), encoding="utf-8")
    notebook = page.notebook("reset.ipynb").ready()
    kernel = lab.kernel_of("reset.ipynb")
    for cell in range(3):
        notebook.run(cell)
    expect(notebook.output(2)).to_have_text("own 2.0")
    assert versions(lab) == {"own-thing": "2.0", "extra-thing": "3.0"}
    wait_for(lambda: packages_of(path) == ["extra-thing==3.0", "own-thing==2.0"], "the file names the packages")
    content = lab.base / "home" / "content" / kernel
    assert (content / "made.txt").exists()

    page.menu("Runtime", "Factory Reset…")
    for said in (
        "all variables, and work that is still running",
        re.compile(r"the folder /content of this runtime, with .*\d KiB"),
        "packages that this notebook installed: extra-thing 3.0. They are uninstalled from the environment small",
        "The environment small gets its own back, for all notebooks that use it: own-thing 1.0.",
        "The notebook with its outputs, the files of the lab’s folder and the drive are kept.",
    ):
        expect(page.dialog).to_contain_text(said)
    page.answer("Cancel")
    assert versions(lab) == {"own-thing": "2.0", "extra-thing": "3.0"}
    assert lab.kernel_of("reset.ipynb") == kernel

    page.menu("Runtime", "Factory Reset…")
    page.answer("Reset")
    expect(page.notification).to_contain_text("Uninstalled: extra-thing. As before: own-thing 1.0.")
    expect(notebook.connect_button).to_be_visible()
    wait_for(lambda: not content.exists(), "/content is deleted")
    assert versions(lab) == {"own-thing": "1.0"}
    expect(notebook.output(2)).to_have_text("own 2.0")  # outputs are kept
    wait_for(lambda: packages_of(path) == [], "the file names no package")

    notebook.run(2)  # connects again
    expect(notebook.output(2)).to_have_text("own 1.0")
    expect(page.notification.filter(has_text="needs")).to_have_count(0)
