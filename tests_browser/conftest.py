"""Fixtures: one Chromium and one lab for all tests, and pages that must not raise errors."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)
from tests_browser.lab import PATIENCE, Lab
from tests_browser.notebook import LabPage

HERE = Path(__file__).resolve().parent
CHROMIUM = ("chromium", "google-chrome", "chromium-browser")
SIZE: ViewportSize = {"width": 1600, "height": 900}

# Of a whole test. pytest-timeout breaks the connection to the browser, so that all later tests of the process fail too: what a
# test waits for must time out first, and it waits for many things on a busy machine.
TEST_SECONDS = 900

_failed = pytest.StashKey[bool]()


def chromium() -> str:
    """Return the path of the system's Chromium: Playwright's own cannot be downloaded everywhere."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path, f"none of {', '.join(CHROMIUM)} is on PATH: `scripts/setup test` installs Chromium"
    return path


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser with a profile on disk, which caches JupyterLab's compiled code: each page loads 2 s faster."""
    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        created = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("chromium"), executable_path=chromium(), args=["--no-sandbox"], viewport=SIZE
        )
        created.set_default_timeout(1000 * PATIENCE)
        yield created
        created.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A running lab with four cards and no limits."""
    created = Lab(tmp_path_factory.mktemp("lab"))
    try:
        yield created.up()
    finally:
        created.clear()


@pytest.fixture
def pages(context: BrowserContext, lab: Lab, request: pytest.FixtureRequest) -> Iterator[Callable[[], LabPage]]:
    """Open pages of the lab. After the test, end its runtimes, and fail if a page raised an error."""
    logs: list[_PageLog] = []
    if getattr(request.node, "execution_count", 1) > 1:
        lab.remove_files()  # of the first try

    def open_page() -> LabPage:
        logs.append(_PageLog(context.new_page()))
        return LabPage(logs[-1].page, lab)

    yield open_page
    failed = request.node.stash.get(_failed, False)
    errors = [error for log in logs for error in log.errors]
    if request.node.get_closest_marker("restarts_kernel"):
        errors = [error for error in errors if error not in _CAUSED_BY_RESTART]
    if request.node.get_closest_marker("kills_server"):
        errors = [
            error for error in errors if error != "Failed to fetch"
        ]  # of requests that JupyterLab sends in passing
    for number, log in enumerate(logs):
        if failed or errors:
            log.save(f"{request.node.name}-{number}" if number else request.node.name)
        log.page.close()
    lab.end_all()
    assert failed or not errors, "the page raised errors: " + "; ".join(errors)


@pytest.fixture
def page(pages: Callable[[], LabPage]) -> LabPage:
    """One page of the lab."""
    return pages()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kills_server: the test kills the server while the page loads something")
    config.addinivalue_line("markers", "restarts_kernel: the test restarts a kernel while a cell runs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


# A page requests kernel_info when it connects. If the kernel is restarted before the reply arrives, JupyterLab cancels the request,
# and nothing of it handles the rejection. Its debugger asks a dead kernel.
_CAUSED_BY_RESTART = (
    "Canceled future for kernel_info_request message before replies were done",
    "Error: Canceled future for create_subshell_request message before replies were done",
    "Kernel is dead",
)


# The extension of ipywidgets looks for the kernel of a notebook that may have been closed meanwhile, with its session.
_WIDGETS = "@jupyter-widgets/jupyterlab-manager"
_WIDGETS_WITHOUT_SESSION = "Cannot read properties of null (reading 'kernel')"


class _PageLog:
    """Collects the console output and the errors of a page, for failing tests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.lines: list[str] = []
        page.on("pageerror", self._on_error)
        page.on("console", self._on_console)

    def _on_error(self, error: Error) -> None:
        if not (error.message == _WIDGETS_WITHOUT_SESSION and _WIDGETS in (error.stack or "")):
            self.errors.append(error.message)
        self.lines.append(f"uncaught: {error.stack or error.message}")

    def _on_console(self, message: ConsoleMessage) -> None:
        self.lines.append(f"{message.type}: {message.text}")

    def save(self, name: str) -> None:
        """Save a screenshot and the console output."""
        folder = Path(os.environ.get("OWNLAB_SHOTS") or Path(tempfile.gettempdir(), "ownlab-shots"))
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"\W+", "-", name)
        (folder / f"{stem}.log").write_text("\n".join(self.lines), encoding="utf-8")
        if not self.page.is_closed():
            self.page.screenshot(path=folder / f"{stem}.png")
