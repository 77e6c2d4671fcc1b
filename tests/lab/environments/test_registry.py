"""Named environments: real interpreters, with and without ipykernel."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ownlab.errors import InterpreterError, RecordError, UsageError
from ownlab.lab.environments.registry import (
    add_environment,
    find_python,
    list_environments,
    own_python,
    remove_environment,
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"OWNLAB_HOME": str(tmp_path / "home")}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without anything in it."""
    folder = tmp_path_factory.mktemp("venv") / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def test_an_environment_is_added_listed_and_removed(environ: dict[str, str], tmp_path: Path) -> None:
    added = add_environment("torch", sys.executable, environ)
    assert (added.python, added.version) == (sys.executable, sys.version.split()[0])
    assert added.ipykernel
    assert list_environments(environ) == (added,)
    path = tmp_path / "home" / "environments.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert remove_environment("torch", environ) == added
    assert list_environments(environ) == ()


def test_without_ipykernel_it_is_refused_with_the_install_command(environ: dict[str, str], bare: Path) -> None:
    python = find_python(str(bare), environ)
    assert python == str(bare / "bin/python"), "the link itself, which makes it that environment's"
    with pytest.raises(InterpreterError, match="has no ipykernel") as raised:
        add_environment("bare", python, environ)
    assert f"{python} -m pip install ipykernel" in raised.value.hint
    assert list_environments(environ) == ()


def test_a_broken_ipykernel_is_recognised(environ: dict[str, str], bare: Path) -> None:
    (packages,) = (bare / "lib").glob("python*/site-packages")
    (packages / "ipykernel.py").write_text("raise RuntimeError('half an installation')\n")
    try:
        with pytest.raises(InterpreterError, match="RuntimeError: half an installation"):
            add_environment("broken", str(bare / "bin/python"), environ)
    finally:
        (packages / "ipykernel.py").unlink()


@pytest.mark.parametrize("python", ["/not/there", "/bin/true", "/bin/false"])
def test_something_that_is_not_python_is_refused(environ: dict[str, str], python: str) -> None:
    with pytest.raises(InterpreterError):
        add_environment("odd", python, environ)


@pytest.mark.parametrize("name", ["", "default", "Torch", "-x", "a b", "../x", "x" * 41, "é"])
def test_invalid_names_are_refused(environ: dict[str, str], name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid name"):
        add_environment(name, sys.executable, environ)


def test_names_are_unique(environ: dict[str, str]) -> None:
    add_environment("torch", sys.executable, environ)
    with pytest.raises(UsageError, match="already"):
        add_environment("torch", sys.executable, environ)


def test_removing_an_unknown_environment_lists_the_known_ones(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError) as raised:
        remove_environment("torch", environ)
    assert raised.value.hint == "None has been added yet."


def test_a_damaged_file_is_reported(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "environments.json").write_text('{"environments": [{"name": 5}]}')
    with pytest.raises(RecordError, match="is damaged"):
        list_environments(environ)


def test_concurrent_additions_are_both_kept(environ: dict[str, str]) -> None:
    adding = [threading.Thread(target=add_environment, args=(name, sys.executable, environ)) for name in ("a", "b")]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()
    assert [environment.name for environment in list_environments(environ)] == ["a", "b"]


def test_the_active_environment_is_the_default(bare: Path) -> None:
    assert find_python(None, {"VIRTUAL_ENV": str(bare)}) == str(bare / "bin/python")


@pytest.mark.parametrize("environ", [{}, {"VIRTUAL_ENV": sys.prefix}])
def test_our_own_environment_cannot_be_added(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is always available"):
        find_python(None, environ)


def test_our_own_interpreter_has_a_single_name() -> None:
    answer = [
        subprocess.run(
            [path, "-c", "from ownlab.lab.environments.registry import own_python; print(own_python())"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for path in (sys.executable, os.path.join(os.path.dirname(sys.executable), "python3"))
    ]
    assert set(answer) == {own_python()}
