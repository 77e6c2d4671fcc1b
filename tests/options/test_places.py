"""Where things are kept."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from ownlab.errors import LabError
from ownlab.options.places import config_file, config_files, kernels_folder, state_folder


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


def test_a_state_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="cannot be made") as raised:
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
