"""Our routes in a Jupyter server that `ownlab up` did not start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


def test_the_routes_work_in_a_plain_jupyter_server(
    new_lab: Callable[..., LabServer], until: Callable[..., Any]
) -> None:
    lab = new_lab()
    options = [
        f"--ServerApp.port={lab.port}",
        f"--ServerApp.root_dir={lab.folder}",
        "--ServerApp.jpserver_extensions=ownlab.lab.server.extension=True",
        "--ServerApp.allow_root=True",
        "--ServerApp.open_browser=False",
        f"--IdentityProvider.token={lab.token}",
    ]
    with lab.log.open("ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options], env=lab.environ, stdout=log, stderr=log
        )

    def snapshot() -> httpx.Response | None:
        if server.poll() is not None:
            pytest.fail(lab.log.read_text())
        try:
            return lab.client.get(f"{lab.url}/ownlab/api/snapshot")
        except httpx.TransportError:
            return None

    try:
        answer = until(snapshot, "it answers")
        assert answer.status_code == 200, lab.log.read_text()
        assert len(answer.json()["cards"]) == 4
        kernel = lab.post("/api/kernels", {"name": "ownlab-cpu"}).json()["id"]
        assert [runtime["id"] for runtime in lab.get("/ownlab/api/snapshot").json()["runtimes"]] == [kernel]
    finally:
        server.terminate()
        server.wait(60)
    # A server that adopts nothing leaves nothing behind.
    until(lambda: not (lab.home / "runtimes" / kernel).exists(), "its kernel ended with it")
