"""Packages in the page: recorded in the notebook, and installed on request if a runtime lacks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect
from tests.guest.wheels import make_wheel, pip_variables
from tests_browser.lab import CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """The only folder from which the cells of a test install."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "1.0", "first_thing")
    make_wheel(folder, "2.0", "second_thing")
    return folder


def write(lab: Lab, name: str, *cells: str, **metadata: Any) -> str:
    made = notebook_of(CPU, *cells)
    made["metadata"]["ownlab"] = metadata
    (lab.folder / name).write_text(json.dumps(made), encoding="utf-8")
    return name


def write_startup(lab: Lab, name: str, variables: dict[str, str]) -> None:
    """Write a startup script that sets pip's folders in a notebook's kernel, and adds the target to the path."""
    script = f"import os, sys\nos.environ.update({variables!r})\nsys.path.insert(0, {variables['PYTHONPATH']!r})\n"
    (lab.folder / name.replace(".ipynb", ".startup.py")).write_text(script)


def saved(lab: Lab, name: str) -> Any:
    return json.loads((lab.folder / name).read_text(encoding="utf-8"))["metadata"]["ownlab"]


def notification(page: LabPage, message: str) -> Locator:
    return page.notification.filter(has_text=message)


def test_packages_are_recorded_with_and_without_a_page(page: LabPage, lab: Lab, wheels: Path, tmp_path: Path) -> None:
    name = write(lab, "remember.ipynb", "%pip -q install first-thing", "%pip -q install second-thing", colab=False)
    write_startup(lab, name, pip_variables(tmp_path / "place", wheels))
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    notebook.save()
    assert saved(lab, name) == {"colab": False, "packages": {"pip": ["first-thing==1.0"]}}
    notebook.run(1)
    page.page.goto("about:blank")
    both = {"colab": False, "packages": {"pip": ["first-thing==1.0", "second-thing==2.0"]}}
    wait_for(lambda: saved(lab, name) == both, "the file records what was installed while no page was open")
    notebook = page.notebook(name).ready()
    notebook.save()
    assert saved(lab, name) == both
    expect(page.notification).to_have_count(0)


def test_missing_packages_are_installed(page: LabPage, lab: Lab, wheels: Path, tmp_path: Path) -> None:
    wanted = {"pip": ["first-thing==1.0", "second-thing==2.0"]}
    name = write(lab, "restore.ipynb", "import first_thing, second_thing\nprint(first_thing.VERSION)", packages=wanted)
    write_startup(lab, name, pip_variables(tmp_path / "place", wheels))
    notebook = page.notebook(name).ready()
    message = (
        "This notebook needs 2 packages that are not installed in this runtime: first-thing 1.0, second-thing 2.0."
    )
    expect(notification(page, message)).to_be_visible()
    notebook.run(0)  # the import fails; the startup script has configured pip
    expect(notebook.output(0)).to_contain_text("ModuleNotFoundError")
    notification(page, message).get_by_role("button", name="Install").click()
    expect(notification(page, "Installed: first-thing 1.0, second-thing 2.0.")).to_be_visible()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("1.0")
    Notebook(page.page).save()
    assert saved(lab, name) == {"packages": wanted}


def test_a_failed_install_shows_the_reason(page: LabPage, lab: Lab, wheels: Path, tmp_path: Path) -> None:
    wanted = {"pip": ["third-thing @ file:///not/here.whl", "--index-url=http://example.org/"]}
    name = write(lab, "failing.ipynb", "pass", packages=wanted)
    notebook = page.notebook(name).ready()
    offer = notification(page, "This notebook needs a package that is not installed in this runtime: third-thing.")
    offer.get_by_role("button", name="Install").click()
    expect(page.dialog).to_contain_text("third-thing @ file:///not/here.whl")
    page.answer("Install")
    failed = notification(
        page, "Some packages were not installed: third-thing was installed from a file that does not exist here"
    )
    failed.get_by_role("button", name="Details").click()
    expect(page.dialog).to_contain_text(
        "third-thing was installed from a file that does not exist here: file:///not/here.whl"
    )
    page.answer("Ok")
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")


@pytest.mark.restarts_kernel
def test_a_package_that_is_replaced_in_use_offers_a_restart(
    page: LabPage, lab: Lab, wheels: Path, tmp_path: Path
) -> None:
    version = "import first_thing; print(first_thing.VERSION)"
    name = write(
        lab, "replace.ipynb", f"%pip -q install first-thing\n{version}", "!pip -q install first-thing", version
    )
    write_startup(lab, name, pip_variables(tmp_path / "place", wheels))
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.output(0).last).to_contain_text("1.0")
    notice = notebook.panel.locator(".ownlab-NotebookNotice")
    make_wheel(wheels, "2.0", "first_thing")
    notebook.run(1)
    expect(notebook.output(1)).to_contain_text("This runtime still uses the old version of: first_thing.")
    expect(notice).to_contain_text("This runtime still uses the old version of: first_thing.")
    notebook.run(2)
    expect(notebook.output(2)).to_have_text("1.0")
    notebook.save()
    page.page.reload()
    notebook = Notebook(page.page).ready()
    expect(notice).to_have_count(1)  # it belongs to the kernel, not to the page
    notice.get_by_role("button", name="Restart runtime").click()
    expect(notice).to_have_count(0)
    notebook.ready()
    notebook.run(2)
    expect(notebook.output(2)).to_have_text("2.0")
    page.page.reload()
    notebook = Notebook(page.page).ready()
    expect(notebook.output(1)).to_contain_text("still uses the old version")
    expect(notice).to_have_count(0)
