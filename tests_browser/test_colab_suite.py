"""Run the unmodified notebooks of the Colab suite in the page, with a simulated user who answers their prompts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext
from tests_browser.lab import Lab
from tests_browser.notebook import LabPage
from tests_colab.assertions import check_cells, check_unchanged
from tests_colab.cases.case import Case
from tests_colab.cases.page_actions import IN_PAGE, InPage
from tests_colab.cases.table import CASES, SECRETS
from tests_colab.page_user import PageUser
from tests_colab.suite import NOTEBOOKS, config_of, person_of, put_gcloud

from ownlab.lab.secrets.store import set_secret

# JupyterLab's debugger talks to the current kernel, which some notebooks shut down.
OF_JUPYTERLAB = ("Error: Kernel is dead", "Error: Kernel connection disconnected")


@pytest.fixture(scope="module")
def person(
    tmp_path_factory: pytest.TempPathFactory, context: BrowserContext, request: pytest.FixtureRequest
) -> Iterator[PageUser]:
    """A simulated user who has run all selected notebooks."""
    items = [item for item in request.session.items if item.path == request.path]
    asked = [item.callspec.params["case"] for item in items if hasattr(item, "callspec")]
    before = {case.after for case in asked}
    base = tmp_path_factory.mktemp("suite")
    environ = {name: value for case in CASES for name, value in case.environ.items()}
    lab = Lab(base, config_of(base), PATH=put_gcloud(base), **person_of(base), **environ)
    for path in NOTEBOOKS.glob("*.ipynb"):
        shutil.copyfile(path, lab.folder / path.name)
    for name, (value, _) in SECRETS.items():
        set_secret(name, value, lab.environ)
    page = context.new_page()
    try:
        made = PageUser(page, LabPage(page, lab.up()))
        made.run(case for case in CASES if case in asked or case.notebook in before)
        yield made
    finally:
        page.close()
        lab.clear()


@pytest.mark.parametrize("case", CASES, ids=[case.notebook for case in CASES])
def test_notebook(person: PageUser, case: Case) -> None:
    done, how = person.done[case.notebook], IN_PAGE.get(case.notebook, InPage())
    assert not isinstance(done, str), done
    check_cells(done.written, {**case.texts, **how.texts}, {**case.displays, **how.displays})
    check_unchanged(done.given, done.written, bool(case.parameters), ("kernelspec", "language_info", "widgets"))
    for name, pattern in (how.downloads or case.downloads or {}).items():
        content = Path(person.downloads[name].path()).read_bytes()
        assert re.search(pattern, content.decode("latin-1"), re.DOTALL), name
    for name, pattern in case.drive.items():
        assert re.search(pattern, (person.lab.lab.base / "drive" / name).read_text(encoding="utf-8")), name


def test_the_page_raised_no_error(person: PageUser) -> None:
    ours = [error for error in person.errors if not error.startswith(OF_JUPYTERLAB)]
    assert ours == [], "\n".join(ours)
