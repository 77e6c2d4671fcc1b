"""Variables of kernels in Colab mode, and how long their /content is kept."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.runtimes.content_files import remove_old_content
from ownlab.lab.runtimes.kernel_variables import colab_variables

DAY = 86400.0


def write(path: Path, metadata: dict[str, Any], *cells: str) -> str:
    code: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata}
    path.write_text(json.dumps({**notebook, "cells": [{**code, "source": each} for each in cells]}))
    return str(path)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"OWNLAB_HOME": str(tmp_path / "state"), "OWNLAB_CONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}


def test_a_plain_notebook_gets_a_plain_kernel(tmp_path: Path, environ: dict[str, str]) -> None:
    for notebook in (write(tmp_path / "plain.ipynb", {}, "print(1)"), str(tmp_path / "none.ipynb"), "", "script.py"):
        assert colab_variables(notebook, "a-runtime", environ) == {"OWNLAB_COLAB": "0"}
    (tmp_path / "damaged.ipynb").write_text("{")
    assert colab_variables(str(tmp_path / "damaged.ipynb"), "a-runtime", environ) == {"OWNLAB_COLAB": "0"}


def test_a_colab_notebook_gets_its_folders(tmp_path: Path, environ: dict[str, str]) -> None:
    notebook = write(tmp_path / "of colab.ipynb", {}, "from google.colab import drive")
    assert colab_variables(notebook, "a-runtime", environ) == {
        "OWNLAB_COLAB": "1",
        "OWNLAB_CONTENT": str(tmp_path / "state" / "content" / "a-runtime"),
        "OWNLAB_OVERLAY": str(tmp_path / "state" / "runtimes" / "a-runtime" / "overlay"),
        "OWNLAB_DRIVE": str(tmp_path / "state" / "drive"),
        "OWNLAB_DRIVE_REMOTE": "",
        "OWNLAB_HOST": sys.executable,
    }
    set_by_hand = {**environ, "OWNLAB_DRIVE_FOLDER": "/big/disk", "OWNLAB_DRIVE_REMOTE": "gdrive:"}
    variables = colab_variables(notebook, "a-runtime", set_by_hand)
    assert (variables["OWNLAB_DRIVE"], variables["OWNLAB_DRIVE_REMOTE"]) == ("/big/disk", "gdrive:")


def test_the_notebooks_own_setting_takes_precedence(tmp_path: Path, environ: dict[str, str]) -> None:
    notebook = write(tmp_path / "off.ipynb", {"ownlab": {"colab": False}, "colab": {}}, "import google.colab")
    assert colab_variables(notebook, "a-runtime", environ) == {"OWNLAB_COLAB": "0"}


def test_content_is_kept_for_some_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path))
    assert remove_old_content(7) == []
    old, new = tmp_path / "content" / "old", tmp_path / "content" / "new"
    for folder in (old, new):
        (folder / "sample_data").mkdir(parents=True)
    os.utime(old, (time.time() - 8 * DAY,) * 2)
    assert remove_old_content(7) == ["old"]
    assert os.listdir(tmp_path / "content") == ["new"]
