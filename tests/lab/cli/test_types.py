"""`ownlab types` as a process."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CARD = "NVIDIA GeForce GTX 1080 Ti"


Valid = Callable[[str, str], Any]


def test_types_are_listed_written_and_removed(world: Any, valid: Valid) -> None:
    kernels = Path(world.env["OWNLAB_KERNELS"])
    listed = world.run("types")
    assert listed.returncode == 0, listed.stderr
    assert f"Python 3 (4 × {CARD})" in listed.stdout
    assert "not installed yet" in listed.stdout
    assert not kernels.exists(), "looking changes nothing"

    refreshed = world.run("types", "refresh")
    assert "The list has changed." in refreshed.stderr
    assert "not installed yet" not in refreshed.stdout
    assert len(os.listdir(kernels)) == 5
    assert "Nothing has changed." in world.run("types", "refresh").stderr

    removed = valid(world.run("types", "--json", "remove").stdout, "types-removed")
    assert removed == {"folder": str(kernels), "removed": 5}
    assert os.listdir(kernels) == []


def test_json_output(world: Any, valid: Valid) -> None:
    document = valid(world.run("types", "refresh", "--json").stdout, "types")
    assert [listed["type"]["label"] for listed in document["types"]][:3] == [
        "Python 3 (CPU)",
        f"Python 3 (1 × {CARD})",
        f"Python 3 (½ × {CARD})",
    ]
    assert all(listed["written"] for listed in document["types"])


def test_types_of_removed_cards_are_reported(world: Any, machines: Path) -> None:
    world.run("types", "refresh")
    now = {"OWNLAB_MACHINE": str(machines / "cpu.json")}
    ran = world.run("types", env=now)
    assert "no longer available: ownlab-1-nvidia-geforce-gtx-1080-ti" in ran.stdout
    assert "`ownlab doctor` shows why" in ran.stdout
    world.run("types", "refresh", env=now)
    assert os.listdir(world.env["OWNLAB_KERNELS"]) == ["ownlab-cpu"]


def test_an_unwritable_folder_is_reported(world: Any) -> None:
    (world.root / "file").touch()
    ran = world.run("types", "refresh", env={"OWNLAB_KERNELS": str(world.root / "file" / "kernels")})
    assert ran.returncode == 3
    assert "OWNLAB_KERNELS" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another real user")
def test_in_a_read_only_installation(world: Any) -> None:
    own = f"{world.env['OWNLAB_HOME']}/share/jupyter"
    for arguments in (("types", "refresh"), ("types",)):
        ran = world.run_without_rights(*arguments)
        assert ran.returncode == 0, ran.stderr
        assert f"Kernelspecs for Jupyter: {own}/kernels\n" in ran.stdout
        assert f"papermill or VS Code, run: export JUPYTER_PATH={own}\n" in ran.stdout
    assert len(os.listdir(f"{own}/kernels")) == 5
    assert stat.S_IMODE(os.stat(world.env["OWNLAB_HOME"]).st_mode) == 0o700
    assert "JUPYTER_PATH" not in world.run("types").stdout


@pytest.mark.parametrize("name", ["ownlab-cpu", "cpu", "python3"])
def test_every_name_of_a_type_is_accepted_by_run(world: Any, name: str) -> None:
    (world.folder / "n.ipynb").write_text(
        '{"cells": [], "metadata": {"kernelspec": {"name": "ownlab-cpu"}}, "nbformat": 4, "nbformat_minor": 5}'
    )
    assert "ownlab-cpu" in world.run("types").stdout
    ran = world.run("run", "-t", name, "work/n.ipynb")
    assert ran.returncode == 0, ran.stderr
