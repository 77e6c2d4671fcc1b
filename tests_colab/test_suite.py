"""Notebooks in the style of Colab, run unmodified by `ownlab run`, several at once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from tests_colab.assertions import check_cells, check_unchanged
from tests_colab.cases.case import Case
from tests_colab.cases.table import CASES, SECRETS
from tests_colab.suite import NOTEBOOKS, Ran, Suite

AT_ONCE = 4
BY_NAME = {case.notebook: case for case in CASES}

# A test waits for a run, which may wait for others on a very busy machine.
pytestmark = pytest.mark.timeout(600)


class Runs:
    """The runs for the tests of this session, started together, so that a test waits only for its own."""

    def __init__(self, suite: Suite, names: set[str]) -> None:
        self.suite = suite
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._done: dict[str, Future[Ran]] = {}
        for name in BY_NAME:  # in the order of the tests; one that waits for another comes after it
            if name in names:
                self._start(name)

    def of(self, name: str) -> Ran:
        """Wait for a run and return its result."""
        return self._start(name).result()

    def all_over(self) -> None:
        """Wait for every run that was started."""
        wait(self._done.values())

    def end(self) -> None:
        """Start no more runs, and wait for the others."""
        self._pool.shutdown(cancel_futures=True)

    def _start(self, name: str) -> Future[Ran]:
        if name not in self._done:
            self._done[name] = self._pool.submit(self._run, BY_NAME[name])
        return self._done[name]

    def _run(self, case: Case) -> Ran:
        if case.after:
            self.of(case.after)
        options = [word for each in case.parameters for word in ("-p", each)]
        return self.suite.run(case.notebook, options, case.uploads, case.downloads is not None, **case.environ)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Runs]:
    items = [item for item in request.session.items if item.path == request.path]
    asked = {item.callspec.params["case"].notebook for item in items if hasattr(item, "callspec")}
    names = asked or set(BY_NAME)
    names |= {BY_NAME[name].after for name in names} - {""}
    suite = Suite(tmp_path_factory.mktemp("suite"))
    for name, (value, granted) in SECRETS.items():
        suite.keep_secret(name, value, *granted)
    started = Runs(suite, names)
    yield started
    started.end()


@pytest.mark.parametrize("case", CASES, ids=[case.notebook for case in CASES])
def test_notebook(runs: Runs, case: Case) -> None:
    ran = runs.of(case.notebook)
    assert ran.code == case.code, ran.stderr
    assert ran.report["status"] == ("failed" if case.code else "done")
    assert re.search(case.reason or "^$", ran.report["reason"])
    assert ran.untouched, "the notebook that was given was changed"
    check_cells(ran.notebook, case.texts, case.displays)
    check_document(case, ran)
    if case.downloads is not None:
        files = {str(path.relative_to(ran.outputs)) for path in ran.outputs.rglob("*") if path.is_file()}
        assert files == set(case.downloads)
    for name, pattern in (case.downloads or {}).items():
        assert re.search(pattern, (ran.outputs / name).read_bytes().decode("latin-1"), re.DOTALL), name
    for name, pattern in case.drive.items():
        assert re.search(pattern, (runs.suite.drive / name).read_text(encoding="utf-8")), name


WITH_WIDGETS = ("fastai_lesson", "progress_bars", "tabs_and_grid")


def test_every_notebook_is_in_the_table() -> None:
    assert sorted(BY_NAME) == sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    assert len(BY_NAME) == len(CASES) >= 25


def test_no_secret_is_left_anywhere(runs: Runs) -> None:
    runs.of("huggingface_token")
    runs.all_over()
    store = runs.suite.base / "home" / "secrets"
    for value, _ in SECRETS.values():
        files = [path for path in runs.suite.files() if value.encode() in path.read_bytes()]
        assert [path.parent for path in files] == [store]


def test_the_content_of_tabs_is_in_the_notebook(runs: Runs) -> None:
    widgets = json.dumps(runs.of("tabs_and_grid").notebook["metadata"].get("widgets", {}))
    assert "loss 0.5" in widgets
    assert "loss 0.7" in widgets


def test_nothing_is_left_running(runs: Runs) -> None:
    runs.all_over()
    deadline = time.monotonic() + 180
    while runs.suite.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert runs.suite.processes() == []


def check_document(case: Case, ran: Ran) -> None:
    """The written notebook contains all of the given one, the Python that ran, and at most widget states and packages."""
    shows_widgets = case.notebook in WITH_WIDGETS
    replaced = ("language_info", *(("widgets",) if shows_widgets else ()))
    check_unchanged(ran.source, ran.notebook, bool(case.parameters), replaced)
    assert ran.notebook["metadata"]["language_info"]["name"] == "python"
    added = set(ran.notebook["metadata"]) - set(ran.source["metadata"]) - {"language_info"}
    assert added <= ({"widgets"} if shows_widgets else set()) | ({"ownlab"} if case.notebook == "pip_local" else set())


def test_installed_packages_are_remembered(runs: Runs) -> None:
    metadata = runs.of("pip_local").notebook["metadata"]["ownlab"]
    assert metadata == {"packages": {"pip": ["tinyshapes @ file:///content/tinyshapes-0.2-py3-none-any.whl"]}}
