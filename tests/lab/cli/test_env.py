"""`ownlab env` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Valid = Callable[[str, str], Any]


def test_an_environment_is_added_and_removed_with_its_runtime_types(world: Any, valid: Valid) -> None:
    assert "There are no environments." in world.run("env").stdout
    added = world.run("env", "add", "mine", "--python", sys.prefix)
    assert added.returncode == 0, added.stderr
    assert "Added mine: Python 3" in added.stdout
    assert "ownlab-mine-cpu" in os.listdir(world.env["OWNLAB_KERNELS"])
    (listed,) = valid(world.run("env", "list", "--json").stdout, "env")["environments"]
    assert listed["name"] == "mine"
    assert "mine (½ × NVIDIA GeForce GTX 1080 Ti)" in world.run("types").stdout
    assert world.run("env", "add", "other", "--python", sys.prefix).returncode == 0
    left = valid(world.run("env", "remove", "other", "--json").stdout, "env")["environments"]
    assert left == [listed]
    assert "Removed mine." in world.run("env", "remove", "mine").stdout
    assert "ownlab-mine-cpu" not in os.listdir(world.env["OWNLAB_KERNELS"])


def test_an_environment_without_ipykernel_is_refused(world: Any) -> None:
    bare = world.root / "bare one"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    ran = world.run("env", "add", "bare", env={"VIRTUAL_ENV": str(bare)})
    assert ran.returncode == 4
    assert f"{bare}/bin/python has no ipykernel" in ran.stderr
    assert f"'{bare}/bin/python' -m pip install ipykernel" in ran.stderr
    assert "not a Python interpreter" not in ran.stderr


def test_wrong_use_has_exit_code_2(world: Any) -> None:
    for arguments in (("add", "Mine", "--python", sys.prefix), ("remove", "mine"), ("add",)):
        ran = world.run("env", *arguments)
        assert ran.returncode == 2
        assert "Traceback" not in ran.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another real user")
def test_in_a_read_only_installation(world: Any) -> None:
    ran = world.run_without_rights("env", "remove", "mine")
    assert "There is no environment" in ran.stderr
    assert world.run("env", "add", "mine", "--python", sys.prefix).returncode == 0
    assert world.run_without_rights("env", "remove", "mine").returncode == 0
    assert "ownlab-cpu" in os.listdir(Path(world.env["OWNLAB_HOME"]) / "share" / "jupyter" / "kernels")


def test_a_path_that_is_not_an_interpreter_is_refused(world: Any) -> None:
    (world.root / "text").write_text("no program")
    (world.root / "text").chmod(0o644)
    for path, words in (
        ("text", "is not executable"),
        ("work", "does not contain bin/python"),
        ("no", "does not exist"),
    ):
        ran = world.run("env", "add", "x", "--python", str(world.root / path))
        assert ran.returncode == 4
        assert words in ran.stderr
        assert "PATH" not in ran.stderr
