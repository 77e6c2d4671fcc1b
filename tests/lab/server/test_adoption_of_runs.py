"""Notebooks that run without a page in the folder of a lab: the lab shows them as its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.server.journal_maker import notebook_of
from tests.lab.server.stream_page import StreamPage

from ownlab.lab.runtimes import start
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.transport.control import send_command

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

Until = Callable[..., Any]


class Run:
    """A runtime as `ownlab run` starts it: without a lab, with a journal, and a notebook somewhere."""

    def __init__(self, lab: LabServer, notebook: Path) -> None:
        notebook.parent.mkdir(exist_ok=True)
        notebook.write_text(json.dumps(notebook_of("a", "b")))
        self.id = str(uuid.uuid4())
        self.plan: Plan = start.make_plan(
            "ownlab-cpu",
            runtime=self.id,
            cwd=str(notebook.parent),
            env=lab.environ,
            notebook=str(notebook),
            journal=True,
        )
        self.process: subprocess.Popen[bytes] = start.start_supervisor(self.plan, lab.environ)
        start.wait_until_started(self.plan, child=self.process)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # the runtime ends with the process that started it
        self.process.wait(60)


@pytest.fixture
def begin(lab: LabServer) -> Iterator[Callable[[Path], Run]]:
    begun: list[Run] = []

    def make(notebook: Path) -> Run:
        begun.append(Run(lab, notebook))
        return begun[-1]

    yield make
    for run in begun:
        run.end()


def follow(lab: LabServer, kernel: str) -> StreamPage:
    return StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels", lab.token)


def sessions(lab: LabServer) -> dict[str, str]:
    return {session["path"]: session["kernel"]["id"] for session in lab.get("/api/sessions").json()}


def test_a_run_in_the_labs_folder_is_opened_with_its_kernel(lab: LabServer, begin: Callable[[Path], Run]) -> None:
    run = begin(lab.folder / "deep er" / "train-run.ipynb")
    assert sessions(lab)["deep er/train-run.ipynb"] == run.id
    page = follow(lab, run.id)
    page.until_idle(page.execute("print(6 * 7)", cell="a"))
    model = lab.get("/api/contents/deep%20er/train-run.ipynb")
    assert model.headers["X-Ownlab-Position"].startswith(f"{run.id}/")
    assert model.json()["content"]["cells"][0]["outputs"][0]["text"] == "42\n"
    # A request for a kernel of this notebook gets the existing one.
    assert lab.session("deep er/train-run.ipynb")["kernel"]["id"] == run.id
    page.close()


def test_opening_a_notebook_adopts_its_run(lab: LabServer, begin: Callable[[Path], Run]) -> None:
    run = begin(lab.folder / "read first.ipynb")
    model = lab.get("/api/contents/read%20first.ipynb")
    assert model.headers["X-Ownlab-Position"].startswith(f"{run.id}/")


def test_runs_outside_the_folder_are_not_adopted(lab: LabServer, begin: Callable[[Path], Run], tmp_path: Path) -> None:
    run = begin(tmp_path / "elsewhere.ipynb")
    assert run.id not in sessions(lab).values()
    assert lab.client.get(f"{lab.url}/api/kernels/{run.id}").status_code == 404


def test_an_open_notebook_keeps_its_kernel(lab: LabServer, begin: Callable[[Path], Run]) -> None:
    kernel = lab.session("open.ipynb")["kernel"]["id"]
    begin(lab.folder / "open.ipynb")
    assert sessions(lab)["open.ipynb"] == kernel
    lab.client.delete(f"{lab.url}/api/kernels/{kernel}").raise_for_status()


def test_a_finished_run_disappears_and_its_kernel_is_not_restarted(
    lab: LabServer, begin: Callable[[Path], Run], until: Until
) -> None:
    run = begin(lab.folder / "ends.ipynb")
    assert sessions(lab)["ends.ipynb"] == run.id
    state = send_command(run.plan.control_endpoint, "status")
    os.kill(state["kernel"]["pid"], signal.SIGKILL)
    until(lambda: "ends.ipynb" not in sessions(lab), "its session is gone")
    assert lab.client.get(f"{lab.url}/api/kernels/{run.id}").status_code == 404
    run.end()


def test_a_restarted_server_finds_a_run_under_the_same_session(new_lab: Callable[..., LabServer], until: Until) -> None:
    lab = new_lab().start()
    run = Run(lab, lab.folder / "stays.ipynb")
    try:
        before = lab.get("/api/sessions").json()
        lab.end(signal.SIGKILL)
        lab.start()
        after = lab.get("/api/sessions").json()
        assert [(session["id"], session["kernel"]["id"]) for session in after] == [(before[0]["id"], run.id)]
    finally:
        run.end()


def test_a_lab_saves_the_notebook_of_a_run_without_asking_its_pages(
    lab: LabServer, begin: Callable[[Path], Run]
) -> None:
    path = lab.folder / "written.ipynb"
    run = begin(path)
    notebook = json.loads(path.read_text())
    notebook["cells"][1]["source"] = "print('kept')"
    path.write_text(json.dumps(notebook))
    known = lab.client.get(f"{lab.url}/api/contents/written.ipynb", params={"hash": 1}).json()
    page = follow(lab, run.id)
    page.until_idle(page.execute("print('kept')", cell="b"))
    lab.post("/ownlab/api/notebooks/catch-up", {"notebook": str(path)})
    assert json.loads(path.read_text())["cells"][1]["outputs"][0]["text"] == ["kept\n"]
    model = lab.client.get(f"{lab.url}/api/contents/written.ipynb", params={"hash": 1, "content": 0}).json()
    assert model["hash"] == known["hash"]
    page.close()


@pytest.mark.parametrize(
    ("body", "status"), [("{}", 400), ('{"notebook": "/etc/passwd"}', 409), ('{"notebook": "none.ipynb"}', 409)]
)
def test_only_notebooks_of_the_lab_can_be_updated(lab: LabServer, body: str, status: int) -> None:
    url = f"{lab.url}/ownlab/api/notebooks/catch-up"
    assert lab.client.post(url, content=body).status_code == status
    assert lab.client.post(url, content=body, headers={"Authorization": ""}).status_code == 403


def test_outputs_of_a_run_are_trusted_even_without_its_journal(lab: LabServer) -> None:
    path, output = lab.folder / "rich.ipynb", lab.folder / "rich-run.ipynb"
    notebook = notebook_of("a", "b", "c")
    notebook["cells"][0]["source"] = "from IPython.display import HTML\nHTML('<b>ours</b>\\n<i>too</i>')"
    notebook["cells"][1].update(source="1 / 0", metadata={"tags": ["raises-exception"]})
    notebook["cells"][2]["source"] = ""
    path.write_text(json.dumps(notebook))
    # A run by a script: it does not ask a lab to save its output.
    code = f"import ownlab; print(ownlab.run_notebook({str(path)!r}).runtime)"
    ran = subprocess.run([sys.executable, "-c", code], env=lab.environ, capture_output=True, text=True, check=True)

    def trusted() -> list[bool]:
        cells = lab.get("/api/contents/rich-run.ipynb").json()["content"]["cells"]
        return [cell["metadata"]["trusted"] for cell in cells]

    written = output.read_text()
    output.write_text(written.replace("ours", "theirs"))
    assert trusted() == [False, True, True], "somebody else has been at it"
    output.write_text(written)
    assert trusted() == [True, True, True]
    shutil.rmtree(lab.home / "journals" / ran.stdout.strip())
    assert trusted() == [True, True, True]
