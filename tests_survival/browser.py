"""Notebooks in Chromium with one interruption each; the same for our lab and for other systems."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import httpx
from playwright.sync_api import BrowserContext, Page, sync_playwright
from playwright.sync_api import Error as BrowserError
from tests_browser.conftest import SIZE, chromium
from tests_browser.lab import wait_for
from tests_browser.network import Network
from tests_survival.compare import Shown, differences, shown
from tests_survival.page import answer_to
from tests_survival.scripts import Script, make_script

__all__ = ["KINDS", "Outcome", "Run", "Served", "System", "browser", "print_outcome", "run_all"]

KINDS = ("close", "reload", "cut", "second", "away", "kill")
IDLE = 1.5  # seconds without anything to do
SHORT = 1.0  # a run that ends sooner cannot be interrupted
TYPE_ANSWER = """([asked, answer]) => {
  const box = document.querySelector('.jp-Stdin-input');
  if (box && document.querySelector('.jp-Stdin-prompt').innerText === asked) {
    box.value = answer;
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: 13, bubbles: true }));
  }
}"""
AWAY = 20.0  # seconds without any page
STUCK = 12.0  # if a page still shows a cell as running so long after the kernel's last activity, it will not change
PATIENCE = 180.0


class System(Protocol):
    """A Jupyter server that a page is opened on."""

    name: str
    folder: Path
    url: str
    token: str
    kernel: str

    def start(self) -> None: ...
    def end(self, signum: int) -> None: ...


class Outcome(NamedTuple):
    """One run. `wrong` is empty if a reopened notebook shows what it would have shown without the interruption.

    `unjudged`: the run could not be completed, perhaps because of these tests: it does not count.
    """

    seed: int
    kind: str
    wrong: list[str]
    unjudged: str = ""


class Served:
    """A server that is started by a command."""

    def __init__(self, name: str, folder: Path, command: Sequence[str], environ: dict[str, str], port: int) -> None:
        self.name, self.folder, self.token, self.kernel = name, folder, "a-token-of-the-tests", "python3"
        self.url = f"http://127.0.0.1:{port}"
        self._command, self._environ = command, environ
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environ, cwd=self.folder, stdout=log, stderr=log)
        wait_for(lambda: answers(self.url, self.token), f"{self.name} answers")

    def end(self, signum: int) -> None:
        if self._process is not None:
            self._process.send_signal(signum)
            self._process.wait(PATIENCE)


def answers(url: str, token: str) -> bool:
    """Whether a server answers."""
    try:
        return httpx.get(f"{url}/api/status", headers={"Authorization": f"token {token}"}, trust_env=False).is_success
    except httpx.TransportError:
        return False


@contextlib.contextmanager
def browser() -> Iterator[BrowserContext]:
    """One Chromium, with a profile on disk."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        made = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium(), args=["--no-sandbox"], viewport=SIZE
        )
        made.set_default_timeout(PATIENCE * 1000)
        yield made
        made.close()


class Run:
    """One notebook on one system."""

    def __init__(self, context: BrowserContext, system: System, network: Network, script: Script, path: str) -> None:
        self.context, self.system, self.network, self.path = context, system, network, path
        self.client = self.make_client(system)
        (system.folder / path).write_text(json.dumps(script.notebook(system.kernel)), encoding="utf-8")

    @staticmethod
    def make_client(system: System) -> httpx.Client:
        """Requests of the test itself."""
        return httpx.Client(headers={"Authorization": f"token {system.token}"}, timeout=PATIENCE, trust_env=False)

    def undisturbed(self) -> tuple[Shown, float]:
        """Return the file's content after a run with a page that stays open, and the duration of the run."""
        page = self._open()
        began = self._run_all(page)
        took = self._until_idle([page]) - began
        saved = self._saved(page)
        page.close()
        self._end()
        return saved, took

    def disturbed(self, kind: str, moment: float) -> Shown:
        """Return the file's content after a run with one interruption, a reopened page and a save."""
        pages = [self._open()]
        began = self._run_all(pages[0])
        time.sleep(max(0.0, began + moment - time.monotonic()))
        getattr(self, f"_{kind}")(pages)
        self._until_idle(pages)
        if pages:
            self._saved(pages[0])  # as a person does at the end
        for page in pages:
            page.close()
        page = self._open()
        self._until_idle([page])
        saved = self._saved(page)
        page.close()
        self._end()
        return saved

    def _close(self, pages: list[Page]) -> None:
        pages.pop().close()
        time.sleep(1.0)
        pages.append(self._open())

    def _reload(self, pages: list[Page]) -> None:
        pages[0].reload()
        self._ready(pages[0])

    def _cut(self, pages: list[Page]) -> None:
        self.network.cut()
        time.sleep(2.0)
        self.network.restore()

    def _second(self, pages: list[Page]) -> None:
        pages.append(self._open())

    def _away(self, pages: list[Page]) -> None:
        pages.pop().close()
        self._until_idle([])

    def _kill(self, pages: list[Page]) -> None:
        self.system.end(signal.SIGKILL)
        self.system.start()

    def _open(self) -> Page:
        page = self.context.new_page()
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(f"{self.network.url}lab/tree/{self.path}?reset&token={self.system.token}")
        self._ready(page)
        return page

    def _ready(self, page: Page) -> None:
        page.wait_for_selector("#main .jp-NotebookPanel .jp-Notebook .jp-CodeCell")
        page.wait_for_selector("#jupyterlab-splash", state="detached")
        connect = page.locator(".ownlab-Connect-button")  # plain JupyterLab starts a kernel without being asked
        wait_for(lambda: self._kernel() is not None or connect.count() > 0, "the notebook has a kernel, or can connect")
        if self._kernel() is None:
            connect.first.click()
        wait_for(lambda: self._kernel() is not None, "the notebook has a kernel")
        page.wait_for_selector(
            ".jp-Notebook-ExecutionIndicator[data-status]:not([data-status='unknown'])", timeout=15_000
        )

    def _run_all(self, page: Page) -> float:
        wait_for(lambda: (self._kernel() or {}).get("execution_state") == "idle", "the kernel is idle")
        page.locator(".lm-MenuBar-item", has_text="Run").first.click()
        page.locator(".lm-Menu-item", has_text="Run All Cells").first.click()
        return time.monotonic()

    def _kernel(self) -> dict[str, Any] | None:
        with contextlib.suppress(httpx.HTTPError):
            sessions = self.client.get(f"{self.system.url}/api/sessions").raise_for_status().json()
            # With jupyter-collaboration the session's path is prefixed with the drive's name.
            return next((session["kernel"] for session in sessions if session["path"].endswith(self.path)), None)
        return None

    def _until_idle(self, pages: list[Page]) -> float:
        """Wait until kernel and pages are quiet, including threads that go on printing. Return when the kernel was last busy."""
        began = worked = moved = since = time.monotonic()
        length = 0
        while time.monotonic() < min(since + IDLE, moved + STUCK):
            if not pages and time.monotonic() > began + AWAY:  # an input request that nobody can answer
                break
            for page in pages[-1:]:  # one person types in one page
                self._answer(page)
            if (grown := sum(map(self._length, pages))) != length:
                length, moved, since = grown, time.monotonic(), time.monotonic()
            state = (self._kernel() or {"execution_state": "idle"})["execution_state"]
            if state not in ("idle", "dead", "unknown"):
                worked = moved = since = time.monotonic()
            elif any(self._is_busy(page) for page in pages):
                since = time.monotonic()
            time.sleep(0.1)
        return worked

    def _is_busy(self, page: Page) -> bool:
        return page.locator(".jp-InputPrompt", has_text="[*]").count() > 0

    def _length(self, page: Page) -> int:
        return sum(map(len, page.locator(".jp-OutputArea-output").all_inner_texts()))

    def _answer(self, page: Page) -> None:
        """Type and submit at once: on a busy machine, a late key would answer the next request."""
        prompt = page.locator(".jp-Stdin-prompt")
        with contextlib.suppress(BrowserError):  # another page was faster
            if prompt.count():
                asked = prompt.first.inner_text(timeout=500)
                page.evaluate(TYPE_ANSWER, [asked, answer_to(asked)])

    def _saved(self, page: Page) -> Shown:
        file = self.system.folder / self.path
        before = file.stat().st_mtime_ns
        # Dialogs such as "Server Connection Error" stay when the server is back. One that closes itself is fine too.
        for _ in range(5):
            if page.locator(".jp-Dialog").count() == 0:
                break
            page.keyboard.press("Escape")
            page.wait_for_timeout(500)
        page.locator(".jp-Notebook").first.click(position={"x": 5, "y": 5})
        page.keyboard.press("ControlOrMeta+s")
        overwrite = page.locator(".jp-Dialog button", has_text="Overwrite")
        with contextlib.suppress(AssertionError):  # nothing to save: the file is right, or the comparison shows it
            wait_for(lambda: file.stat().st_mtime_ns != before or overwrite.count() > 0, "it is saved", 5)
        if overwrite.count() > 0:
            overwrite.click()
            wait_for(lambda: file.stat().st_mtime_ns != before, "it is saved")
        time.sleep(1.0)  # jupyter-collaboration writes a little later
        return shown(json.loads(file.read_text(encoding="utf-8")))

    def _end(self) -> None:
        for session in self.client.get(f"{self.system.url}/api/sessions").json():
            self.client.delete(f"{self.system.url}/api/sessions/{session['id']}")
        self.client.close()


def run_all(system: System, seeds: Sequence[int], kinds: Sequence[str] = KINDS, *, ours: bool = True) -> list[Outcome]:
    """Run each seed once undisturbed, and once with the next kind of interruption. Differences of ours are printed."""
    outcomes: list[Outcome] = []
    with browser() as context, Network(int(system.url.rsplit(":", 1)[1])) as network:
        for seed in seeds:
            kind = kinds[len(outcomes) % len(kinds)]
            script = make_script(seed, asking=ours, widgets=ours, most=6, slow=3.0)
            for gate in script.gates.values():
                (system.folder / gate).touch()  # all cells are sent at once, long before
            try:
                expected, took = Run(context, system, network, script, f"plain-{seed}.ipynb").undisturbed()
                if took < SHORT:
                    print(f"{system.name}, seed {seed}: over in {took:.1f} s, nothing to interrupt", flush=True)
                    continue
                moment = took * (0.1 + 0.8 * (seed * 0.618 % 1))
                outcome = Run(context, system, network, script, f"run-{seed}.ipynb").disturbed(kind, moment)
                outcomes.append(Outcome(seed, kind, differences(expected, outcome)))
            except (BrowserError, AssertionError) as stuck:
                outcomes.append(Outcome(seed, kind, [], f"{type(stuck).__name__}: {str(stuck)[:300]}"))
            print_outcome(system, outcomes[-1], ours)
    return outcomes


def print_outcome(system: System, outcome: Outcome, ours: bool) -> None:
    """Print one line, and the differences: all of ours, the beginning of others'."""
    word = f"not judged, {outcome.unjudged}" if outcome.unjudged else "wrong" if outcome.wrong else "right"
    print(f"{system.name}, seed {outcome.seed}, {outcome.kind}: {word}", flush=True)
    for fault in outcome.wrong if ours else outcome.wrong[:1]:
        print("  - " + fault.replace("\n", "\n    ")[: 2000 if ours else 400], flush=True)
