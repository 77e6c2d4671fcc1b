"""`ownlab open` with a real web server and real labs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

if TYPE_CHECKING:
    from tests.command_line import World

CELL = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": "import google.colab"}
NOTEBOOK = {
    "cells": [{**CELL, "execution_count": None}],
    "metadata": {"unknown": 1},
    "nbformat": 4,
    "nbformat_minor": 5,
}
Valid = Callable[[str, str], Any]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a web server, and the folder that it serves."""
    folder = tmp_path / "web"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


def test_a_url_is_opened_in_the_running_lab(running_lab: World, web: tuple[str, Path], valid: Valid) -> None:
    address, folder = web
    (folder / "my work.ipynb").write_text(json.dumps(NOTEBOOK))
    lab = running_lab.lab()
    for number, name in enumerate(("my work.ipynb", "my work (1).ipynb")):
        ran = running_lab.run("open", f"{address}/my%20work.ipynb", "--folder", "work", "--json")
        assert ran.returncode == 0, ran.stderr
        opened = valid(ran.stdout, "open")
        path = running_lab.folder / name
        assert (opened["notebook"], opened["copied"], opened["colab"]) == (str(path), True, True)
        assert path.read_text() == json.dumps(NOTEBOOK), number
        assert opened["lab"]["pid"] == lab["pid"]
        assert opened["lab"]["address"] == f"{lab['url']}lab/tree/{quote(name)}?token={lab['token']}"
        assert running_lab.ask("GET", f"api/contents/{quote(name)}", lab)["type"] == "notebook"


def test_a_folder_inside_a_lab_uses_that_lab(running_lab: World, web: tuple[str, Path]) -> None:
    address, folder = web
    (folder / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    below = running_lab.folder / "pro ject"
    below.mkdir()
    ran = running_lab.run("open", f"{address}/n.ipynb", "--folder", str(below))
    assert ran.returncode == 0, ran.stderr
    assert f"{running_lab.lab()['url']}lab/tree/pro%20ject/n.ipynb?token=" in ran.stdout
    assert f"notebook  {below / 'n.ipynb'}\n" in ran.stdout
    assert f"from      {address}/n.ipynb\n" in ran.stdout
    assert "This notebook was written for Colab" in ran.stdout
    assert f"Stop it: ownlab down {running_lab.folder}" in ran.stdout
    # A file of the lab stays where it is.
    ran = running_lab.run("open", str(below / "n.ipynb"), "--folder", "work", "--json")
    assert json.loads(ran.stdout)["copied"] is False
    assert "Saved" not in ran.stderr
    assert os.listdir(below) == ["n.ipynb"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (None, "", "There is nothing at"),
        ("page.ipynb", "<!DOCTYPE html>", "is a web page"),
        ("text.ipynb", "hello", "is not JSON"),
        ("other.ipynb", "{}", "JSON of another kind"),
    ],
)
def test_an_invalid_notebook_is_not_saved(
    world: World, web: tuple[str, Path], name: str | None, text: str, words: str, valid: Valid
) -> None:
    address, folder = web
    if name:
        (folder / name).write_text(text)
    ran = world.run("open", f"{address}/{name or 'none.ipynb'}?token=geheim", "--folder", "work", "--json")
    assert ran.returncode == 3
    assert words in valid(ran.stdout, "error")["error"]["message"]
    assert "geheim" not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    assert os.listdir(world.folder) == []
    assert world.processes() == []


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("https://colab.research.google.com/drive/1AbC", 3, "Google Drive"),
        ("github.com/o/r", 3, "a folder on GitHub"),
        ("file:///etc/passwd", 2, "not a web address"),
        ("https://ann:geheim@127.0.0.1/n.ipynb", 2, "a password"),
        ("none.ipynb", 3, "does not exist"),
        ("work", 3, "is not a regular file"),
    ],
)
def test_what_cannot_be_opened_is_refused(world: World, source: str, code: int, words: str) -> None:
    ran = world.run("open", source, "--folder", "work")
    assert ran.returncode == code
    assert words in ran.stderr
    assert "geheim" not in ran.stderr
    assert os.listdir(world.folder) == []
    assert world.run("open", "x.ipynb", "--folder", "nowhere").returncode == 3


def test_a_lab_is_started_if_none_is_running(world: World) -> None:
    (world.root / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    ran = world.run("open", "n.ipynb", "--folder", "work", "--no-browser")
    assert ran.returncode == 0, ran.stderr
    assert f"Saved as {world.folder / 'n.ipynb'}" in ran.stderr
    lab = world.lab()
    assert f"Open in your lab: {lab['url']}lab/tree/n.ipynb?token={lab['token']}\n" in ran.stdout
    assert lab["folder"] == str(world.folder)
    assert os.listdir(world.folder) == ["n.ipynb"]  # and no welcome notebook
    assert world.run("down", "work").returncode == 0


def test_a_lab_that_does_not_start_is_explained(world: World, valid: Valid) -> None:
    broken = world.root / "broken" / "jupyterlab"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError(\"No module named 'tornado'\")\n")
    (world.folder / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    ran = world.run("open", "work/n.ipynb", "--folder", "work", "--json", env={"PYTHONPATH": str(broken.parent)})
    assert ran.returncode == 3
    assert "The installation is incomplete" in ran.stderr
    assert valid(ran.stdout, "error")["error"]["exit_code"] == 3


def test_modules_in_the_working_folder_are_not_imported(running_lab: World) -> None:
    script = os.path.join(os.path.dirname(sys.executable), "ownlab")
    folder = running_lab.folder / "strangers"
    folder.mkdir()
    for name in ("click.py", "json.py", "secrets.py", "ownlab.py"):
        (folder / name).write_text("raise SystemExit('taken')")
    (folder / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    ran = subprocess.run(
        [script, "open", "n.ipynb", "--json"], cwd=folder, env=running_lab.env, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["notebook"] == str(folder / "n.ipynb")


def test_the_browser_opens_the_notebook(running_lab: World) -> None:
    seen, browser = running_lab.root / "seen", running_lab.root / "browser-of-open"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.new && mv {seen}.new {seen}\n')
    browser.chmod(0o755)
    (running_lab.folder / "b.ipynb").write_text(json.dumps(NOTEBOOK))
    ran = running_lab.run("open", "work/b.ipynb", "--folder", "work", env={"BROWSER": str(browser)})
    assert ran.returncode == 0, ran.stderr
    led = running_lab.until(lambda: seen.exists() and seen.read_text())
    assert running_lab.lab()["token"] not in led
    assert urlsplit(led).hostname == "127.0.0.1"
