"""Clients other than JupyterLab's page, with their own libraries: the outputs of their cells are kept with the notebook."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from jupyter_kernel_client import JupyterKernelClient  # type: ignore[import-untyped]
from tests.lab.server.journal_maker import notebook_of
from tests.lab.server.stream_page import Open, follow, pages

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

__all__ = ["follow", "pages"]  # fixtures

MODULES = Path(__file__).parents[3] / "labextension/node_modules"
needs_services = pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "@jupyterlab/services/lib/index.js").exists(),
    reason="node and labextension/node_modules are not installed",
)


class Notebook:
    """A notebook file with the cells "a" and "b"."""

    def __init__(self, lab: LabServer, path: str) -> None:
        self.lab, self.path, self.file = lab, path, lab.folder / path
        self.file.parent.mkdir(exist_ok=True)
        notebook = notebook_of("a", "b")
        notebook["cells"][0]["source"] = "print('from a')"
        notebook["cells"][1]["source"] = ["n = 2\n", "print('from b')"]
        self.file.write_text(json.dumps(notebook))

    def opened(self) -> dict[str, str]:
        """What the cells show in a page that opens the notebook."""
        content = self.lab.get(f"/api/contents/{quote(self.path)}?type=notebook").json()["content"]
        return _texts(content)

    def on_disk(self) -> dict[str, str]:
        return _texts(json.loads(self.file.read_text()))

    def address(self, fragment: str) -> str:
        """A cell as VS Code names it."""
        return f"vscode-notebook-cell:{quote(str(self.file))}#{fragment}"


def _texts(notebook: dict[str, Any]) -> dict[str, str]:
    return {
        cell["id"]: "".join("".join(output.get("text", "")) for output in cell["outputs"]) for cell in notebook["cells"]
    }


@pytest.fixture
def notebook(lab: LabServer) -> Notebook:
    return Notebook(lab, f"{os.urandom(4).hex()}.ipynb")


def use_services(lab: LabServer, session: dict[str, str], cells: list[dict[str, str]]) -> dict[str, Any]:
    """Execute cells with @jupyterlab/services."""
    script = Path(__file__).with_name("services_client.mjs")
    ran = subprocess.run(
        ["node", str(script), str(MODULES), lab.url, lab.token],
        input=json.dumps({"session": session, "cells": cells}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("name", ["n", "", "another.ipynb", "../elsewhere/n.ipynb", None])
def test_a_session_belongs_to_the_notebook_at_its_path_whatever_its_name(
    lab: LabServer, notebook: Notebook, follow: Open, name: str | None
) -> None:
    session = {"path": notebook.path, "type": "notebook", "kernel": {"name": "python3"}}
    kernel = lab.post("/api/sessions", session if name is None else {**session, "name": name}).json()["kernel"]["id"]
    page = follow(lab, kernel)
    page.until_idle(page.execute("import os; print('done'); os.environ['JPY_SESSION_NAME']", cell="a"))
    page.close()
    assert notebook.opened() == {"a": "done\n", "b": ""}
    assert any(repr(str(notebook.file)) in str(one.content) for one in page.received if one.kind == "execute_result")


def test_a_path_outside_the_lab_is_no_notebook(lab: LabServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside.ipynb"
    outside.write_text(json.dumps(notebook_of("a")))
    path = os.path.relpath(outside, lab.folder)
    kernel = lab.post("/api/kernels", {"name": "python3", "path": path}).json()["id"]
    [runtime] = [one for one in lab.get("/ownlab/api/snapshot").json()["runtimes"] if one["id"] == kernel]
    assert runtime["notebook"] == ""
    lab.client.delete(f"{lab.url}/api/kernels/{kernel}")


@needs_services
def test_services_with_another_name(lab: LabServer, notebook: Notebook) -> None:
    session = {"path": notebook.path, "name": "n", "type": "notebook"}
    ran = use_services(lab, session, [{"code": "print('from a')", "cellId": "a"}])
    assert ran["printed"] == ["from a\n"]
    assert notebook.opened() == {"a": "from a\n", "b": ""}


@needs_services
@pytest.mark.parametrize("folder", ["", "experiments é/"])
def test_vscode_on_this_machine(lab: LabServer, folder: str, until: Callable[..., Any]) -> None:
    """It invents the path of its session, and names its cells by the file and a number."""
    notebook = Notebook(lab, f"{folder}{os.urandom(4).hex()}.ipynb")
    stem = notebook.file.stem
    session = {
        "path": f"{stem}-jvsc-{uuid.uuid4()}{uuid.uuid4()}.ipynb",
        "name": f"{stem}-{uuid.uuid4()}.ipynb",
        "type": "notebook",
    }
    cells = [
        {"code": "print('from a')", "cellId": notebook.address("W0sZmlsZQ%3D%3D")},
        {"code": "n = 2\r\nprint('from b')", "cellId": notebook.address("W1sZmlsZQ%3D%3D")},
        {"code": "print('of no cell')", "cellId": notebook.address("W2sZmlsZQ%3D%3D")},
    ]
    ran = use_services(lab, session, cells)
    assert ran["printed"] == ["from a\n", "from b\n", "of no cell\n"]
    assert notebook.opened() == {"a": "from a\n", "b": "from b\n"}
    until(lambda: notebook.on_disk() == {"a": "from a\n", "b": "from b\n"}, "it has gone: its file is updated")


@needs_services
def test_vscode_on_another_machine(lab: LabServer, notebook: Notebook) -> None:
    """Its file has the same name as one of ours: that one is left alone, and the log has the output."""
    stem = notebook.file.stem
    session = {"path": f"{stem}-jvsc-{uuid.uuid4()}.ipynb", "name": f"{stem}-{uuid.uuid4()}.ipynb", "type": "notebook"}
    address = f"vscode-notebook-cell:/home/somebody/{notebook.path}#W0sZmlsZQ%3D%3D"
    ran = use_services(lab, session, [{"code": "print('from a')", "cellId": address}])
    assert notebook.opened() == {"a": "", "b": ""}
    log = [sys.executable, "-m", "ownlab", "runtimes", "log", ran["kernel"]]
    assert "from a\n" in subprocess.run(log, env=lab.environ, capture_output=True, text=True, check=True).stdout


def test_a_client_that_saves_its_notebook_itself_is_not_disturbed(
    lab: LabServer, notebook: Notebook, until: Callable[..., Any]
) -> None:
    """The file is not written while it is connected: VS Code would find that its document and the file differ."""
    kernel = lab.session(notebook.path)["kernel"]["id"]
    page = lab.page(kernel)
    other = Notebook(lab, f"{os.urandom(4).hex()}.ipynb")
    page.execute("print('from a')", cell="a")
    page.printed("from a")
    # Autosave has had its turn: a notebook that changed later is written.
    second = lab.page(lab.session(other.path)["kernel"]["id"])
    second.execute("print('from a')", cell="a")
    second.printed("from a")
    second.close()
    until(lambda: other.on_disk()["a"] == "from a\n", "a notebook that nobody uses is written")
    assert notebook.on_disk() == {"a": "", "b": ""}
    page.close()
    until(lambda: notebook.on_disk()["a"] == "from a\n", "it is written when its client has gone")


def test_jupyter_kernel_client(lab: LabServer, notebook: Notebook) -> None:
    """It creates no session and names no cells: what it runs is in the log of the notebook's runtime."""
    with JupyterKernelClient(server_url=lab.url, token=lab.token) as client:
        reply = client.execute("print('from a client')")
        assert reply["outputs"][0]["text"] == "from a client\n"
        kernel = str(client.id)
    log = [sys.executable, "-m", "ownlab", "runtimes", "log", kernel]
    assert "from a client\n" in subprocess.run(log, env=lab.environ, capture_output=True, text=True, check=True).stdout


def test_a_kernel_started_for_a_notebook_belongs_to_it(lab: LabServer, notebook: Notebook, follow: Open) -> None:
    """As jupyter-kernel-client does with a path."""
    kernel = lab.post("/api/kernels", {"name": "python3", "path": notebook.path}).json()["id"]
    page = follow(lab, kernel)
    page.until_idle(page.execute("print('from a')", cell="a"))
    assert notebook.opened() == {"a": "from a\n", "b": ""}
    lab.client.delete(f"{lab.url}/api/kernels/{kernel}")
