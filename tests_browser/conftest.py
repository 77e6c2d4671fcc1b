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
from tests_browser.lab import Lab
from tests_browser.notebook import LabPage

CHROMIUM = ("chromium", "google-chrome", "chromium-browser")
SIZE: ViewportSize = {"width": 1600, "height": 900}

_failed = pytest.StashKey[bool]()


def chromium() -> str:
    """Return the path of the system's Chromium: Playwright's own cannot be downloaded everywhere."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path, f"none of {', '.join(CHROMIUM)} is on PATH: `scripts/setup test` installs Chromium"
    return path


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser with a profile on disk, which caches JupyterLab's compiled code: each page loads 2 s faster."""
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        created = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("chromium"), executable_path=chromium(), args=["--no-sandbox"], viewport=SIZE
        )
        created.set_default_timeout(20_000)
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

    def open_page() -> LabPage:
        logs.append(_PageLog(context.new_page()))
        return LabPage(logs[-1].page, lab)

    yield open_page
    failed = request.node.stash.get(_failed, False)
    errors = [error for log in logs for error in log.errors]
    if request.node.get_closest_marker("restarts_kernel"):
        errors = [error for error in errors if error != _CANCELED_BY_RESTART]
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
    config.addinivalue_line("markers", "restarts_kernel: the test restarts a kernel while a cell runs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


# JupyterLab cancels its own pending kernel_info_request when a kernel is restarted, and nothing of it handles the rejection.
_CANCELED_BY_RESTART = "Canceled future for kernel_info_request message before replies were done"


class _PageLog:
    """Collects the console output and the errors of a page, for failing tests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.lines: list[str] = []
        page.on("pageerror", self._on_error)
        page.on("console", self._on_console)

    def _on_error(self, error: Error) -> None:
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
