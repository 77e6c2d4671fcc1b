"""Which extensions of the user's environments the page gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.server.page_extensions import add_to_page, find_extensions, link_extensions

WIDGETS = 'register("default", "@jupyter-widgets/base", [2])'


def install(prefix: Path, name: str, version: str = "1.0.0", code: str = "", **build: Any) -> Path:
    """Install a page extension as pip does."""
    folder = prefix / "share" / "jupyter" / "labextensions" / name
    (folder / "static").mkdir(parents=True)
    (folder / "static" / "remoteEntry.js").write_text(code)
    made = {"load": "static/remoteEntry.js", **build}
    content = {
        "name": name,
        "version": version,
        "jupyterlab": {"_build": made, "disabledExtensions": ["@jupyterlab/a"]},
    }
    (folder / "package.json").write_text(json.dumps(content))
    return folder


def python_of(prefix: Path) -> str:
    return str(prefix / "bin" / "python")


def test_widgets_and_renderers_and_nothing_else(tmp_path: Path) -> None:
    install(tmp_path, "bqplot", code=WIDGETS, extension="./extension", style="./style")
    install(tmp_path, "jupyterlab-plotly", mimeExtension="./mimeExtension")
    install(tmp_path, "@scope/both", code="a theme", mimeExtension="./mimeExtension", extension="./extension")
    install(tmp_path, "a-theme", code="changes the page", extension="./extension")
    for name in ("ownlab", "@ownlab/more", "@jupyterlab/git", "@jupyter-widgets/jupyterlab-manager"):
        install(tmp_path, name, code=WIDGETS, extension="./extension", mimeExtension="./mimeExtension")
    install(tmp_path, "outside", mimeExtension="./m", load="../../../../bin/python")
    (install(tmp_path, "damaged") / "package.json").write_text("{")
    (install(tmp_path, "for-jupyterlab-2") / "package.json").write_text('{"name": "old", "version": "1"}')
    found = find_extensions([python_of(tmp_path), python_of(tmp_path)])
    assert {name: dict(each.entry) for name, each in found.items()} == {
        "bqplot": {"name": "bqplot", "load": "static/remoteEntry.js", "extension": "./extension", "style": "./style"},
        "jupyterlab-plotly": {
            "name": "jupyterlab-plotly", "load": "static/remoteEntry.js", "mimeExtension": "./mimeExtension",
        },
        "@scope/both": {"name": "@scope/both", "load": "static/remoteEntry.js", "mimeExtension": "./mimeExtension"},
    }  # fmt: skip


@pytest.mark.parametrize("versions", [("1.9.2", "1.10.0"), ("1.10.0", "1.9.2")])
def test_the_newest_of_several_environments(tmp_path: Path, versions: tuple[str, str]) -> None:
    for number, version in enumerate(versions):
        install(tmp_path / str(number), "bqplot", version, WIDGETS, extension="./extension")
    found = find_extensions([python_of(tmp_path / "0"), python_of(tmp_path / "1"), "/nowhere/bin/python"])
    assert found["bqplot"].version == "1.10.0"
    assert found["bqplot"].folder.is_relative_to(tmp_path / str(versions.index("1.10.0")))


def test_only_static_files_are_linked(tmp_path: Path) -> None:
    served = tmp_path / "served"
    install(tmp_path, "bqplot", code=WIDGETS, extension="./extension")
    install(tmp_path, "@scope/renderer", mimeExtension="./mimeExtension")
    link_extensions(find_extensions([python_of(tmp_path)]), served)
    assert (served / "bqplot" / "static" / "remoteEntry.js").read_text() == WIDGETS
    assert (served / "@scope" / "renderer" / "static" / "remoteEntry.js").is_file()
    assert not (served / "bqplot" / "package.json").exists()
    # An extension that is gone is not served any more, and its own files are untouched.
    found = find_extensions([python_of(tmp_path)])
    del found["bqplot"]
    link_extensions(found, served)
    assert not (served / "bqplot").exists()
    assert (tmp_path / "share/jupyter/labextensions/bqplot/static/remoteEntry.js").is_file()


def test_a_page_gets_no_extension_whose_server_part_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNLAB_KERNELS", str(tmp_path / "kernels"))
    own = [{"name": "ownlab"}, {"name": "@jupyterhub/jupyter-server-proxy"}, {"name": "jupyterlab_pygments"}]
    page = add_to_page({"federated_extensions": own, "appName": "x"}, tmp_path / "extensions")
    assert page == {"federated_extensions": [{"name": "ownlab"}, {"name": "jupyterlab_pygments"}], "appName": "x"}
    assert add_to_page({}, tmp_path / "extensions") == {"federated_extensions": []}
