"""The folders in which ownlab keeps its files."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ownlab.config.paths import (
    config_file,
    config_files,
    kernels_export,
    kernels_folder,
    missing_config,
    state_folder,
)
from ownlab.errors import LabError


def test_the_state_folder_is_ours_alone(tmp_path: Path) -> None:
    folder = state_folder({"HOME": str(tmp_path)})
    assert folder == tmp_path / ".local/state/ownlab"
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.local/state/ownlab"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/ownlab"),
        ({"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/ownlab"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x", "OWNLAB_HOME": "/o"}, "/o"),
    ],
)
def test_the_nearest_word_counts(environ: dict[str, str], expected: str) -> None:
    assert str(state_folder(environ, make=False)) == expected


def test_a_state_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="Cannot create the state folder") as raised:
        state_folder({"OWNLAB_HOME": str(tmp_path / "file" / "state")})
    assert "OWNLAB_HOME" in raised.value.hint


def test_the_systems_configuration_counts_where_it_is_the_only_one(tmp_path: Path) -> None:
    system, environ = tmp_path / "etc.toml", {"HOME": str(tmp_path)}
    own = tmp_path / ".config/ownlab/config.toml"
    assert config_file(environ, system) == own
    system.touch()
    assert config_file(environ, system) == system
    own.parent.mkdir(parents=True)
    own.touch()
    assert config_file(environ, system) == own
    assert config_files({**environ, "OWNLAB_CONFIG": "/c.toml"}, system) == (Path("/c.toml"),)


def test_kernelspecs_go_into_our_own_environment() -> None:
    assert kernels_folder({}) == Path(sys.prefix) / "share/jupyter/kernels"
    assert kernels_folder({"OWNLAB_KERNELS": "/k/kernels"}) == Path("/k/kernels")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[str]:
    """An environment that we may not write: root is asked under another real user, by which access(2) goes."""
    folder = tmp_path / "administrators"
    folder.mkdir(mode=0o555)
    own = os.getuid()
    try:
        if own == 0:
            os.setreuid(65534, 0)
        yield str(folder)
    finally:
        if own == 0:
            os.setreuid(0, 0)
        folder.chmod(0o755)


def test_in_an_administrators_environment_kernelspecs_are_the_persons_own(tmp_path: Path, closed: str) -> None:
    home = tmp_path / "my home"
    environ = {"OWNLAB_HOME": str(home)}
    assert kernels_folder(environ, prefix=closed) == home / "share/jupyter/kernels"
    assert not home.exists(), "looking changes nothing"
    assert kernels_folder({**environ, "OWNLAB_KERNELS": "/k/kernels"}, prefix=closed) == Path("/k/kernels")
    export = f"export JUPYTER_PATH='{home}/share/jupyter'"
    assert kernels_export(environ, prefix=closed) == export
    assert kernels_export({**environ, "JUPYTER_PATH": "/opt"}, prefix=closed) == f"{export}:$JUPYTER_PATH"
    assert kernels_export({**environ, "JUPYTER_PATH": f"/opt:{home}/share/jupyter/"}, prefix=closed) == ""


def test_in_our_own_environment_jupyter_needs_no_word(tmp_path: Path) -> None:
    assert kernels_folder({}, prefix=str(tmp_path / "new")) == tmp_path / "new/share/jupyter/kernels"
    assert kernels_export({}, prefix=str(tmp_path / "new")) == ""
    assert kernels_export({"OWNLAB_KERNELS": "/k/kernels"}) == "export JUPYTER_PATH=/k"


def test_a_named_configuration_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    named = {"OWNLAB_CONFIG": str(tmp_path / "c.toml")}
    assert str(tmp_path / "c.toml") in missing_config(named)
    (tmp_path / "c.toml").touch()
    assert missing_config(named) == ""
    assert missing_config({"HOME": str(tmp_path)}) == ""
