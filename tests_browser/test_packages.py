"""Packages in the page: remembered with the notebook, offered where a runtime lacks them, installed by one click."""

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
    """From which the cells of a test install, and not from anywhere else."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "1.0", "first_thing")
    make_wheel(folder, "2.0", "second_thing")
    return folder


def write(lab: Lab, name: str, *cells: str, **metadata: Any) -> str:
    made = notebook_of(CPU, *cells)
    made["metadata"]["ownlab"] = metadata
    (lab.folder / name).write_text(json.dumps(made), encoding="utf-8")
    return name


def beside(lab: Lab, name: str, variables: dict[str, str]) -> None:
    """pip's folders of a notebook's kernel: a start-up script sets them, and has the folder on the path."""
    script = f"import os, sys\nos.environ.update({variables!r})\nsys.path.insert(0, {variables['PYTHONPATH']!r})\n"
    (lab.folder / name.replace(".ipynb", ".startup.py")).write_text(script)


def saved(lab: Lab, name: str) -> Any:
    return json.loads((lab.folder / name).read_text(encoding="utf-8"))["metadata"]["ownlab"]


def notice(page: LabPage, words: str) -> Locator:
    return page.notification.filter(has_text=words)


def test_packages_are_remembered_by_pages_and_without_them(
    page: LabPage, lab: Lab, wheels: Path, tmp_path: Path
) -> None:
    name = write(lab, "remember.ipynb", "%pip -q install first-thing", "%pip -q install second-thing", colab=False)
    beside(lab, name, pip_variables(tmp_path / "place", wheels))
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    notebook.save()
    assert saved(lab, name) == {"colab": False, "packages": {"pip": ["first-thing==1.0"]}}
    notebook.run(1)
    page.page.goto("about:blank")
    both = {"colab": False, "packages": {"pip": ["first-thing==1.0", "second-thing==2.0"]}}
    wait_for(
        lambda: saved(lab, name) == both, "the notebook's file remembers what was installed while nobody was there"
    )
    notebook = page.notebook(name).ready()
    notebook.save()
    assert saved(lab, name) == both
    expect(page.notification).to_have_count(0)


def test_what_a_runtime_lacks_is_installed_by_one_click(page: LabPage, lab: Lab, wheels: Path, tmp_path: Path) -> None:
    wanted = {"pip": ["first-thing==1.0", "second-thing==2.0"]}
    name = write(lab, "restore.ipynb", "import first_thing, second_thing\nprint(first_thing.VERSION)", packages=wanted)
    beside(lab, name, pip_variables(tmp_path / "place", wheels))
    notebook = page.notebook(name).ready()
    words = "This notebook needs 2 packages that are not installed in this runtime: first-thing 1.0, second-thing 2.0."
    expect(notice(page, words)).to_be_visible()
    notebook.run(0)  # it fails, after the notebook's own script has said where pip finds things
    expect(notebook.output(0)).to_contain_text("ModuleNotFoundError")
    notice(page, words).get_by_role("button", name="Install").click()
    expect(notice(page, "Installed: first-thing 1.0, second-thing 2.0.")).to_be_visible()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("1.0")
    Notebook(page.page).save()
    assert saved(lab, name) == {"packages": wanted}


def test_an_install_that_fails_says_why(page: LabPage, lab: Lab, wheels: Path, tmp_path: Path) -> None:
    wanted = {"pip": ["third-thing @ file:///not/here.whl", "--index-url=http://example.org/"]}
    name = write(lab, "failing.ipynb", "pass", packages=wanted)
    notebook = page.notebook(name).ready()
    offer = notice(page, "This notebook needs a package that is not installed in this runtime: third-thing.")
    offer.get_by_role("button", name="Install").click()
    expect(page.dialog).to_contain_text("third-thing @ file:///not/here.whl")
    page.answer("Install")
    failed = notice(page, "Some packages were not installed: third-thing came from a file that is not here")
    failed.get_by_role("button", name="Details").click()
    expect(page.dialog).to_contain_text("third-thing came from a file that is not here: file:///not/here.whl")
    page.answer("Ok")
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
