"""How the server starts, and when it refuses to start."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from traitlets.config.loader import LazyConfigValue

from ownlab.lab.server.app import lab_config, settle_lazy_values
from ownlab.lab.service.labs import lab_id

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


def test_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "state"))
    config = lab_config(str(tmp_path), 4711, "secret")
    assert (config.ServerApp.ip, config.ServerApp.port, config.ServerApp.port_retries) == ("127.0.0.1", 4711, 0)
    assert config.ServerApp.root_dir == str(tmp_path)
    assert config.ServerApp.open_browser is False
    assert config.IdentityProvider.token == "secret"
    assert config.OwnlabKernelManager.ownlab_lab == lab_id(tmp_path)
    assert config.OwnlabSessionManager.database_filepath == str(
        tmp_path / "state" / "labs" / f"{lab_id(tmp_path)}.sessions.db"
    )


def test_nothing_is_left_that_grows_with_each_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traitlets doubles a value that is added to another one whenever it makes an object with such a configuration."""
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "state"))
    config = lab_config(str(tmp_path), 4711, "secret")
    settle_lazy_values(config)
    values = [value for section in config.values() for value in section.values()]
    assert not any(isinstance(value, LazyConfigValue) for value in values)
    assert config.IdentityProvider.token == "secret"


def test_the_page_has_our_extension_and_those_of_the_user(new_lab: Callable[..., LabServer]) -> None:
    """Extensions in folders that the user's configuration names stay available."""
    lab = new_lab()
    extra = lab.folder.parent / "extra" / "theirs"
    extra.mkdir(parents=True)
    (extra / "package.json").write_text(
        json.dumps({"name": "theirs", "version": "1.0.0", "jupyterlab": {"_build": {"load": "static/none.js"}}})
    )
    config = Path(lab.environ["JUPYTER_CONFIG_DIR"])
    config.mkdir(parents=True, exist_ok=True)
    settings = {"LabApp": {"extra_labextensions_path": [str(extra.parent)]}}
    (config / "jupyter_lab_config.json").write_text(json.dumps(settings))
    lab.start()
    page = lab.get("/lab").text
    data = re.search(r'id="jupyter-config-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert {"ownlab", "theirs"} <= {extension["name"] for extension in json.loads(data[1])["federated_extensions"]}


def test_a_lab_requires_a_token(new_lab: Callable[..., LabServer]) -> None:
    lab = new_lab()
    command = [sys.executable, "-m", "ownlab.lab.server", "--folder", str(lab.folder), "--port", str(lab.port)]
    ran = subprocess.run(command, env=lab.environ, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 2
    assert "OWNLAB_TOKEN is not set" in ran.stderr


def test_a_port_in_use(new_lab: Callable[..., LabServer]) -> None:
    lab = new_lab()
    with socket.socket() as other:
        other.bind(("127.0.0.1", lab.port))
        other.listen()
        assert lab.spawn().wait(60) == 3
    assert f"Port {lab.port} is in use" in lab.log.read_text()


def test_a_folder_has_one_server(lab: LabServer, free_port: Callable[[], int]) -> None:
    assert lab.process is not None
    first, lab.port = lab.port, free_port()
    try:
        assert lab.spawn().wait(60) == 3
    finally:
        lab.port = first
    assert f"is already served by process {lab.process.pid}" in lab.log.read_text()
    assert lab.get("/api/status").status_code == 200


def test_child_processes_do_not_see_the_token(lab: LabServer) -> None:
    page = lab.page(lab.session()["kernel"]["id"])
    assert page.run("import os; print([name for name in os.environ if 'TOKEN' in name])") == "[]\n"


def test_a_notebook_from_elsewhere_gets_a_runtime(lab: LabServer) -> None:
    """Every Colab notebook asks for "python3", which would otherwise see all cards and end with the server."""
    session = lab.session("from-colab.ipynb", kernel="python3")
    assert session["kernel"]["name"] == "python3"
    shown = lab.page(session["kernel"]["id"]).run("import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))")
    assert shown == "''\n"


def test_the_cpu_type_is_listed_once_as_python3(lab: LabServer) -> None:
    listed = lab.get("/api/kernelspecs").json()
    names = [kernelspec["spec"]["display_name"] for kernelspec in listed["kernelspecs"].values()]
    assert names.count("Python 3 (CPU)") == 1
    assert "Python 3 (ipykernel)" not in names
    assert listed["default"] == "python3"
    assert lab.session("by-type.ipynb", kernel="ownlab-cpu")["kernel"]["name"] == "python3"


def test_the_lab_record_while_running_and_after_the_end(lab: LabServer) -> None:
    assert lab.process is not None
    path = lab.home / "labs" / f"{lab_id(lab.folder)}.json"
    record = json.loads(path.read_bytes())
    assert (record["pid"], record["port"], record["state"]) == (lab.process.pid, lab.port, "ready")
    assert record["url"] == f"{lab.url}/"
    assert path.stat().st_mode & 0o777 == 0o600
    lab.post("/api/shutdown")
    assert lab.process.wait(60) == 0
    assert json.loads(path.read_bytes())["state"] == "down"
    lab.start()


def test_start_up_imports_only_what_it_needs() -> None:
    """Modules that the first request does not need are imported after the server listens."""
    code = "import sys, ownlab.lab.server.app, ownlab.lab.server.extension, ownlab.lab.server.kernels, ownlab.lab.server.connection\n"
    late = [
        "ownlab.machine.reader",
        "ownlab.lab.runtimes.snapshot",
        "ownlab.lab.runtimes.cards",
        "ownlab.render.documents",
    ]
    code += f"print([name for name in {late} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert ran.stdout.strip() == "[]"
