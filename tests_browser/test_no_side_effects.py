"""A plain `jupyter lab` of the environment that ownlab is installed in: it has nothing of ownlab, and everything of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext
from tests_browser.lab import Lab, wait_for

# What labextension/package.json disables in a lab.
REPLACED = {
    "@jupyterlab/apputils-extension:announcements",
    "@jupyterlab/hub-extension:connectionlost",
    "@jupyterlab/services-extension:server-settings",
}
# In a lab instead of the last two.
REPLACEMENTS = {"ownlab:connection-lost", "ownlab:server-settings"}
# What dependencies of ownlab install: ipywidgets, jupyter-server-proxy, and nbconvert, which JupyterLab needs.
OTHER_EXTENSIONS = {"@jupyter-widgets/jupyterlab-manager", "@jupyterhub/jupyter-server-proxy", "jupyterlab_pygments"}

# `jupyter lab` imports slowly on a busy machine.
START_SECONDS = 100

READ_PAGE = """async () => {
    await window.jupyterapp.restored;
    const config = JSON.parse(document.getElementById('jupyter-config-data').textContent);
    return {
        extensions: config.federated_extensions.map(extension => extension.name),
        disabled: Object.keys(config.disabledExtensions ?? {}),
        plugins: window.jupyterapp.listPlugins(),
        activated: window.jupyterapp.listPlugins().filter(id => window.jupyterapp.isPluginActivated(id)),
        settings: await fetch(`${config.baseUrl}lab/api/settings`).then(response => response.text())
    };
}"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab that is not started yet, with its own Jupyter configuration, in which a page can be asked for its plugins."""
    created = Lab(tmp_path)
    config = Path(created.environ["JUPYTER_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "jupyter_lab_config.json").write_text(json.dumps({"LabApp": {"expose_app_in_browser": True}}))
    try:
        yield created
    finally:
        created.clear()


@pytest.fixture
def plain_address(lab: Lab) -> Iterator[str]:
    """The address of `jupyter lab`, started as somebody without ownlab would, with the lab's configuration."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = lab.base / "jupyter.log"
    address = ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--allow-root",
                "--IdentityProvider.token=plain",
                *address,
            ],
            env={name: value for name, value in lab.environ.items() if not name.startswith("OWNLAB_")},
            cwd=lab.folder,
            stdout=output,
            stderr=output,
        )
    try:
        url = f"http://127.0.0.1:{port}/"
        wait_for(lambda: _answers(url) or server.poll() is not None, "`jupyter lab` answers", START_SECONDS)
        assert server.poll() is None, log.read_text()
        yield f"{url}lab?reset&token=plain"
    finally:
        server.terminate()
        server.wait(20)


def test_plain_jupyter_lab_is_unchanged(context: BrowserContext, plain_address: str) -> None:
    page = read_page(context, plain_address)
    assert [plugin for plugin in page["plugins"] if plugin.startswith("ownlab")] == []
    assert set(page["extensions"]) == OTHER_EXTENSIONS
    assert page["disabled"] == []
    assert "ownlab" not in page["settings"]
    assert REPLACED - set(page["activated"]) == set()


def test_lab_has_the_plugins_of_ownlab(context: BrowserContext, lab: Lab) -> None:
    page = read_page(context, lab.up().page())
    assert REPLACEMENTS - set(page["activated"]) == set()
    # The page of the proxy asks for a route that a lab replaces: page_extensions.py leaves it out.
    assert set(page["extensions"]) == {"ownlab", *OTHER_EXTENSIONS} - {"@jupyterhub/jupyter-server-proxy"}
    assert REPLACED & set(page["plugins"]) == set()
    assert "ownlab" in page["settings"]


def read_page(context: BrowserContext, address: str) -> dict[str, Any]:
    """Open JupyterLab and return its extensions and plugins."""
    page = context.new_page()
    try:
        page.goto(address)
        page.wait_for_function("window.jupyterapp !== undefined")
        read: dict[str, Any] = page.evaluate(READ_PAGE)
        return read
    finally:
        page.close()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}api", timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False
