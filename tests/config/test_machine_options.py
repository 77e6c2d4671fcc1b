"""Which machine and which Python are meant, and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ownlab.config.machine_options import resolve_machine_options
from ownlab.errors import InterpreterError


def environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder


def test_without_any_word_it_is_this_machine_and_our_own_python() -> None:
    options = resolve_machine_options(environ={})
    assert (options.python, options.machine_file) == (sys.executable, None)


def test_the_active_environment_comes_before_our_own(tmp_path: Path) -> None:
    options = resolve_machine_options(environ={"CONDA_PREFIX": str(environment(tmp_path / "conda"))})
    assert (options.python, options.python_origin) == (str(tmp_path / "conda/bin/python"), "CONDA_PREFIX")


def test_an_environment_without_a_python_is_passed_over(tmp_path: Path) -> None:
    assert resolve_machine_options(environ={"VIRTUAL_ENV": str(tmp_path)}).python == sys.executable


def test_the_command_line_comes_before_the_environment(tmp_path: Path) -> None:
    environ = {"OWNLAB_PYTHON": "/else", "OWNLAB_MACHINE": "else.json"}
    options = resolve_machine_options(python=str(environment(tmp_path / "venv")), machine="m.json", environ=environ)
    assert (options.python, options.python_origin) == (str(tmp_path / "venv/bin/python"), "--python")
    assert (options.machine_file, options.machine_origin) == ("m.json", "--machine")


def test_the_environment_variables_are_followed() -> None:
    options = resolve_machine_options(environ={"OWNLAB_PYTHON": "/no/python", "OWNLAB_MACHINE": "m.json"})
    assert (options.python, options.python_origin) == ("/no/python", "OWNLAB_PYTHON")
    assert (options.machine_file, options.machine_origin) == ("m.json", "OWNLAB_MACHINE")


# A name that the file system refuses, for root too: it fails as a path under a closed folder fails for others.
CLOSED = "/" + "x" * 300


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_a_folder_that_may_not_be_looked_into_is_passed_over(variable: str) -> None:
    assert resolve_machine_options(environ={variable: CLOSED}).python == sys.executable


@pytest.mark.parametrize("asked", [f"{CLOSED}/python", "~no-such-user/bin/python"])
def test_a_python_that_cannot_be_looked_at_is_left_to_be_refused_later(asked: str) -> None:
    assert resolve_machine_options(python=asked, environ={}).python == asked


def test_an_environment_is_known_by_its_name(tmp_path: Path) -> None:
    python = tmp_path / "python"
    listed = [{"name": "dl", "python": str(python), "version": "3.12"}]
    (tmp_path / "environments.json").write_text(json.dumps({"environments": listed, "declined": []}))
    environ = {"OWNLAB_HOME": str(tmp_path)}
    assert resolve_machine_options(python="dl", environ=environ).python == str(python)
    assert resolve_machine_options(environ=environ | {"OWNLAB_PYTHON": "dl"}).python == str(python)
    (tmp_path / "environments.json").write_text("[")
    with pytest.raises(InterpreterError, match="There is no environment, program or file named 'dl'"):
        resolve_machine_options(python="dl", environ=environ)
