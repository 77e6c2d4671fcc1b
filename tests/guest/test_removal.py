"""Factory reset in a real environment: what a notebook brought is uninstalled, what it replaced is put back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.colab.kernel_process import SECONDS
from tests.guest.wheels import make_wheel

LAUNCH = Path(__file__).parents[2] / "src" / "ownlab_guest" / "launch.py"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The only folder from which the environment installs."""
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "1.0", "app_thing", requires="Base.Thing")
    make_wheel(folder, "2.0", "base_thing")
    make_wheel(folder, "3.0", "extra_thing")
    for version in ("1.0", "1.5", "2.0"):
        make_wheel(folder, version, "own_thing")
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> str:
    """The interpreter of a new environment with `own` 1.0."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True, timeout=SECONDS)
    made = str(folder / "env" / "bin" / "python")
    install = [made, "-m", "pip", "install", "-q", "own-thing==1.0"]
    subprocess.run(install, check=True, timeout=SECONDS, env=environ(wheels))
    return made


def environ(wheels: Path) -> dict[str, str]:
    return {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}


def ask(python: str, wheels: Path, function: str, *pip: str) -> dict[str, Any]:
    module = "shell.packages" if function == "restore" else "shell.removal"
    ran = subprocess.run(
        [python, str(LAUNCH), module, function, json.dumps({"pip": pip})],
        capture_output=True, text=True, timeout=SECONDS, check=True, env=environ(wheels),
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def versions(python: str) -> dict[str, str]:
    """The packages of tests that are installed."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json"], capture_output=True, check=True, timeout=SECONDS
    )
    found = {each["name"]: each["version"] for each in json.loads(listed.stdout)}
    return {name: version for name, version in found.items() if name.endswith("-thing")}


def test_what_notebooks_did_is_undone_and_nothing_else(python: str, wheels: Path) -> None:
    """A notebook installs three packages, and replaces one of the environment twice."""
    for requirements in (["app-thing==1.0", "extra-thing==3.0", "own-thing==1.5"], ["own-thing==2.0"]):
        assert ask(python, wheels, "restore", *requirements)["failed"] == ""
    assert versions(python) == {"app-thing": "1.0", "base-thing": "2.0", "extra-thing": "3.0", "own-thing": "2.0"}

    wanted = ("base-thing==2.0", "extra_thing==3.0", "pip==1.0", "own-thing==2.0", "never-installed==1", "--all")
    planned = ask(python, wheels, "removable", *wanted)
    assert planned == {
        "removable": ["extra-thing==3.0"],
        "restorable": ["own-thing==1.0"],
        "needed": [{"name": "base-thing", "by": "app-thing"}],
        "own": ["pip"],
    }
    # Together with what needs it, it can go.
    both = ask(python, wheels, "removable", "base-thing", "app-thing")
    assert both["removable"] == ["app-thing==1.0", "base-thing==2.0"]

    done = {"removed": ["extra-thing"], "restored": ["own-thing==1.0"], "failed": ""}
    assert ask(python, wheels, "remove", *wanted) == done
    assert versions(python) == {"app-thing": "1.0", "base-thing": "2.0", "own-thing": "1.0"}
    # A notebook from elsewhere names what this environment has by itself.
    assert ask(python, wheels, "removable", "own-thing==1.0")["own"] == ["own-thing"]
    assert ask(python, wheels, "remove", *wanted) == {"removed": [], "restored": [], "failed": ""}


def test_a_version_that_cannot_be_had_any_more_is_left_alone(python: str, wheels: Path, tmp_path: Path) -> None:
    assert ask(python, wheels, "restore", "own-thing==2.0")["failed"] == ""
    answer = ask(python, tmp_path, "remove", "own-thing==2.0")
    assert (answer["removed"], answer["restored"]) == ([], [])
    assert "own-thing==1.0" in answer["failed"]
    assert versions(python)["own-thing"] == "2.0"
    assert ask(python, wheels, "remove", "own-thing==2.0")["restored"] == ["own-thing==1.0"]
