"""One Chromium for all tests, one lab, and pages that may raise no error."""

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
    """The system's own: Playwright's download may not be there."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path, f"none of {', '.join(CHROMIUM)} is on PATH: `scripts/setup test` installs Chromium"
    return path


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """With a profile on disk, where Chromium keeps JupyterLab's compiled code: each page loads 2 s faster."""
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("chromium"), executable_path=chromium(), args=["--no-sandbox"], viewport=SIZE
        )
        made.set_default_timeout(20_000)
        yield made
        made.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with four cards and no limits, up."""
    made = Lab(tmp_path_factory.mktemp("lab"))
    try:
        yield made.up()
    finally:
        made.clear()


@pytest.fixture
def pages(context: BrowserContext, lab: Lab, request: pytest.FixtureRequest) -> Iterator[Callable[[], LabPage]]:
    """Opens pages on the lab; when the test is over its runtimes are ended, and no page must have raised an error."""
    watched: list[_Watch] = []

    def open_page() -> LabPage:
        watched.append(_Watch(context.new_page()))
        return LabPage(watched[-1].page, lab)

    yield open_page
    failed = request.node.stash.get(_failed, False)
    errors = [error for watch in watched for error in watch.errors]
    for number, watch in enumerate(watched):
        if failed or errors:
            watch.keep(f"{request.node.name}-{number}" if number else request.node.name)
        watch.page.close()
    lab.end_all()
    assert failed or not errors, "the page raised errors: " + "; ".join(errors)


@pytest.fixture
def page(pages: Callable[[], LabPage]) -> LabPage:
    """One page on the lab."""
    return pages()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


class _Watch:
    """What a page says in its console, for the case that the test fails."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.said: list[str] = []
        page.on("pageerror", self._on_error)
        page.on("console", self._on_console)

    def _on_error(self, error: Error) -> None:
        self.errors.append(error.message)
        self.said.append(f"uncaught: {error.stack or error.message}")

    def _on_console(self, message: ConsoleMessage) -> None:
        self.said.append(f"{message.type}: {message.text}")

    def keep(self, name: str) -> None:
        """A picture and the console's log."""
        folder = Path(os.environ.get("OWNLAB_SHOTS") or Path(tempfile.gettempdir(), "ownlab-shots"))
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"\W+", "-", name)
        (folder / f"{stem}.log").write_text("\n".join(self.said), encoding="utf-8")
        if not self.page.is_closed():
            self.page.screenshot(path=folder / f"{stem}.png")
