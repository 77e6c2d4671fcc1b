"""A notebook that is run while the default environment is being built waits for it, and says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.package_index import PackageIndex, make_package, make_packages, serve_packages
from tests_browser.lab import CPU, Lab
from tests_browser.notebook import LabPage

WHERE = "import sys; print(sys.prefix)"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    """An index in which pandas is large."""
    wheels = make_packages(tmp_path / "wheels")
    ballast = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(200_000))
    make_package(wheels, "pandas", "2.0", {"pandas_ballast.txt": ballast})
    with serve_packages(wheels) as served:
        yield served


@pytest.fixture
def lab(tmp_path: Path, index: PackageIndex) -> Iterator[Lab]:
    """A lab whose default environment is being built, and stops in the middle."""
    index.hold("pandas")
    made = Lab(tmp_path / "lab", **index.environment(tmp_path / "cache"), OWNLAB_ENVIRONMENTS_DEFAULT="yes")
    try:
        yield made.up()
    finally:
        index.release()
        made.clear()


def test_cells_wait_for_the_default_environment(page: LabPage, lab: Lab, index: PackageIndex) -> None:
    notebook = page.notebook(lab.write("first.ipynb", CPU, WHERE, "print('second')"))
    notebook.run(0)
    notebook.run(1)
    notice = notebook.panel.locator(".ownlab-NotebookNotice")
    expect(notice).to_contain_text(
        re.compile(r"The default environment is being built: [1-9]\d? %\. Cells run when it is ready\.")
    )
    expect(notebook.prompt(0)).to_have_text("[*]:")
    assert lab.get("api/sessions") == []
    index.release()
    expect(notebook.output(0)).to_have_text(str(lab.base / "home" / "environments" / "default"))
    expect(notebook.output(1)).to_have_text("second")
    expect(notice).to_have_count(0)


def test_a_person_need_not_wait(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("hasty.ipynb", CPU, WHERE))
    notebook.run(0)
    notice = notebook.panel.locator(".ownlab-NotebookNotice")
    notice.get_by_role("button", name="Dismiss").click()
    expect(notice).to_have_count(0)
    expect(notebook.connect_button).to_be_visible()
    assert lab.get("api/sessions") == []
    notebook.run(0)
    notice.get_by_role("button", name="Start without it").click()
    expect(notebook.output(0)).to_have_count(1)
    expect(notebook.output(0)).not_to_contain_text("environments/default")
    expect(notice).to_have_count(0)
