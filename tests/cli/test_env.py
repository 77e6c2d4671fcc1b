"""`ownlab env` from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Valid = Callable[[str, str], Any]


def test_an_environment_becomes_runtime_types_and_goes_again(world: Any, valid: Valid) -> None:
    assert "None was added" in world.run("env").stdout
    added = world.run("env", "add", "mine", "--python", sys.prefix)
    assert added.returncode == 0, added.stderr
    assert "Added mine: Python 3" in added.stdout
    assert "ownlab-mine-cpu" in os.listdir(world.env["OWNLAB_KERNELS"])
    (listed,) = valid(world.run("env", "list", "--json").stdout, "env")["environments"]
    assert listed["name"] == "mine"
    assert "mine (½ × NVIDIA GeForce GTX 1080 Ti)" in world.run("types").stdout
    (removed,) = valid(world.run("env", "remove", "mine", "--json").stdout, "env")["environments"]
    assert removed == listed
    assert "ownlab-mine-cpu" not in os.listdir(world.env["OWNLAB_KERNELS"])


def test_one_without_ipykernel_is_refused_with_exit_code_4(world: Any) -> None:
    bare = world.root / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    ran = world.run("env", "add", "bare", env={"VIRTUAL_ENV": str(bare)})
    assert ran.returncode == 4
    assert f"{bare}/bin/python has no ipykernel" in ran.stderr
    assert f"{bare}/bin/python -m pip install ipykernel" in ran.stderr


def test_wrong_use_has_exit_code_2(world: Any) -> None:
    for arguments in (("add", "Mine", "--python", sys.prefix), ("remove", "mine"), ("add",)):
        ran = world.run("env", *arguments)
        assert ran.returncode == 2
        assert "Traceback" not in ran.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a folder read-only")
def test_in_an_environment_that_is_not_ones_own_to_write(world: Any) -> None:
    kernels, home = Path(world.env["OWNLAB_KERNELS"]), Path(world.env["OWNLAB_HOME"])
    kernels.mkdir(parents=True)
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    ownlab = [sys.executable, "-m", "ownlab", "env", "add", "mine", "--python", sys.prefix]
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", str(kernels), *ownlab]
    ran = subprocess.run(argv, env=world.env, capture_output=True, text=True, timeout=60, check=False)
    if "unshare:" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"not in this container: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    assert "ownlab-mine-cpu" in os.listdir(home / "share" / "jupyter" / "kernels")
