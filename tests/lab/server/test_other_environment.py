"""Colab notebooks in an environment without ownlab: Colab's own IPython and ipykernel, in an old Python if there is one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.runs.conftest import code, printed
from tests.lab.server.stream_page import StreamPage, is_status

from ownlab.lab.secrets.store import grant, set_secret

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

ENVIRONMENT = Path(__file__).parents[3] / ".venv-colab"

FORM = '#@title Who\nwho = "nobody"  #@param {type:"string"}\nprint(who)'
# What each prints, in the page and with `ownlab run`.
CELLS = {
    "import os, sys\nprint(sys.version_info >= (3, 9), sys.prefix)": f"True {ENVIRONMENT}\n",
    "import google.colab, ownlab\nprint(os.getcwd(), os.listdir(), callable(ownlab.on_end))": "/content ['sample_data'] True\n",
    "import importlib.util\nprint(importlib.util.find_spec('msgspec'), 'google.colab' in str(get_ipython()))": "None True\n",
    "# Words before it.\n%%shell\necho one; echo two >&2": "one\ntwo\n",
    "!pip --version | grep -o ' from .*/lib/'\nprint(_exit_code)": f" from {ENVIRONMENT}/lib/\n0\n",
    "!python -c 'import google.colab as c; print(c.__name__)'": "google.colab\n",
    "from google.colab import files\nprint(files.upload())": "Saving a.txt to a.txt\n{'a.txt': b'given'}\n",
    "files.download('/content/a.txt')": "",
    "from google.colab import userdata\nprint(len(userdata.get('TOKEN')))": "7\n",
    "from google.colab import drive\ndrive.mount('/content/drive')": "Mounted at /content/drive\n",
    "with open('/content/drive/MyDrive/kept.txt', 'a') as file: print(file.write('kept'))": "4\n",
}


@pytest.fixture(scope="module")
def kernel_type(lab: LabServer) -> str:
    """The environment, added as a user adds it."""
    if not ENVIRONMENT.exists():
        pytest.skip("no .venv-colab: `scripts/setup test` makes it")
    ran = ownlab(lab, "env", "add", "other", "--python", str(ENVIRONMENT))
    assert "with ipykernel 6.17.1" in ran.stdout
    set_secret("TOKEN", "abc-xyz", lab.environ)
    return "ownlab-other-cpu"


def ownlab(lab: LabServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ownlab", *arguments]
    ran = subprocess.run(command, env=lab.environ, cwd=lab.folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran


def write(lab: LabServer, name: str, *cells: str) -> Path:
    path = lab.folder / name
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [code(each) for each in cells]}
    path.write_text(json.dumps(notebook))
    return path


def test_colab_api_in_ownlab_run(lab: LabServer, kernel_type: str, tmp_path: Path) -> None:
    path = write(lab, "colab.ipynb", FORM, *CELLS)
    grant("TOKEN", str(path), lab.environ)
    (tmp_path / "a.txt").write_text("given")
    folders = ("--uploads", str(tmp_path), "--outputs", str(tmp_path / "outputs"))
    ownlab(lab, "run", path.name, "-t", kernel_type, "-p", "who=Ann", *folders)
    assert printed(lab.folder / "colab-run.ipynb") == ["Ann\n", *CELLS.values()]
    assert (tmp_path / "outputs" / "a.txt").read_text() == "given"


def test_a_plain_notebook_has_no_colab_api(lab: LabServer, kernel_type: str) -> None:
    asks = "import sys\n!read x || echo nobody"
    ends = "import ownlab\nownlab.on_end(print, 'saved')\nprint('google' in sys.modules, type(get_ipython()).__name__)"
    ownlab(lab, "run", write(lab, "plain.ipynb", asks, ends).name, "-t", kernel_type)
    assert printed(lab.folder / "plain-run.ipynb") == ["nobody\n", "False ZMQInteractiveShell\nsaved\n"]


def test_colab_api_in_the_page(lab: LabServer, kernel_type: str) -> None:
    path = write(lab, "page.ipynb", FORM, *CELLS)
    runtime = lab.session(path.name, kernel_type)["kernel"]["id"]
    line = StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{runtime}/channels", lab.token)
    page = Person(lab, runtime, line)
    asked = f"{FORM}\nfrom getpass import getpass\nprint(input('name? '), len(getpass()))\n!read x; echo got $x"
    assert page.run(asked) == "nobody\nAnn 3\ngot Ann\n"
    for cell, expected in CELLS.items():
        assert page.run(cell) == expected
    assert page.downloads == ["given"]
    assert page.run("from google.colab import output\nprint(output.eval_js('6 * 7'))") == "42\n"
    line.close()


class Person:
    """The user and the page: answers the requests of the kernel."""

    def __init__(self, lab: LabServer, runtime: str, page: StreamPage) -> None:
        self._lab, self._page = lab, page
        self._routes = f"{lab.url}/ownlab/api/runtimes/{runtime}"
        self.downloads: list[str] = []

    def run(self, cell: str) -> str:
        """Run a cell and return what it prints."""
        request = self._page.execute(cell, allow_stdin=True)
        while True:
            message = self._page.next()
            if message.parent.get("msg_id") != request:
                continue
            if message.kind == "input_request":
                self._page.answer(message, "Ann")
            elif message.kind == "colab_request" and "colab_msg_id" in message.metadata:
                data = self._answer(message.metadata["colab_request_type"], message.content["request"])
                value = {"type": "colab_reply", "colab_msg_id": message.metadata["colab_msg_id"], "data": data}
                self._page.send("input_reply", {"value": value, "status": "ok"}, channel="stdin", parent=message.header)
            elif message.kind == "error":
                pytest.fail(f"{cell}: {message.content}")
            elif is_status(message, "idle"):
                return self._page.printed(request)

    def _answer(self, kind: str, request: dict[str, Any]) -> object:
        client = self._lab.client
        if kind == "ownlab_upload":
            where = {"folder": request["target_dir"], "number": 1, "offset": 0}
            put = client.put(f"{self._routes}/uploads", params=where, content=b"given").raise_for_status()
            return {"files": [{"name": "a.txt", "path": put.json()["path"]}]}
        if kind == "ownlab_download":
            self.downloads.append(client.get(f"{self._routes}/download", params=request).raise_for_status().text)
            return {}
        if kind == "ownlab_grant":
            client.post(f"{self._routes}/secrets", json={"key": request["key"]}).raise_for_status()
            return {"granted": True}
        assert kind == "cell_javascript_eval"
        return 42
