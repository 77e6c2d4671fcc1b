"""The configuration as it is shown, and the file to begin with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ownlab.config.listing import ConfigFile, read_configuration, write_initial_config
from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import PRESET_LIMITS, PRESETS, SETTINGS, UNITS, LabOptions
from ownlab.errors import InputError


def test_every_setting_is_shown_with_its_origin(tmp_path: Path) -> None:
    system = tmp_path / "etc.toml"
    system.write_text('[units]\n"NVIDIA H200" = 4\n')
    configuration = read_configuration({"HOME": str(tmp_path), "OWNLAB_LAB_PORT": "8888"}, system)
    shown = {setting.name: setting for setting in configuration.settings}
    assert set(shown) == {setting.name for setting in (*SETTINGS, *UNITS)} | {"units.NVIDIA H200"}
    assert (shown["lab.port"].value, shown["lab.port"].origin) == (8888, "OWNLAB_LAB_PORT")
    assert (shown["units.NVIDIA H200"].value, shown["units.NVIDIA H200"].origin) == (4.0, str(system))
    own = ConfigFile(str(tmp_path / ".config/ownlab/config.toml"), "not there")
    assert configuration.files == (own, ConfigFile(str(system), "used"))


def test_the_first_file_changes_nothing_and_is_never_overwritten(tmp_path: Path) -> None:
    environ = {"OWNLAB_CONFIG": str(tmp_path / "new" / "config.toml")}
    path = write_initial_config(environ)
    options = resolve_lab_options(environ=environ)
    assert options == LabOptions(origins=options.origins)
    path.write_text("[lab]\n")
    with pytest.raises(InputError, match="exists already"):
        write_initial_config(environ)
    assert path.read_text() == "[lab]\n"


def test_every_line_of_the_first_file_can_be_used(tmp_path: Path) -> None:
    environ = {"OWNLAB_CONFIG": str(tmp_path / "config.toml")}
    path = write_initial_config(environ)
    path.write_text(re.sub(r'(?m)^# (?=[\w"][\w ]*"? = )', "", path.read_text()))
    options = resolve_lab_options(environ=environ)
    written = {name for name, origin in options.origins.items() if origin == str(path)}
    assert written == set(options.origins)
    assert (options.store_folder, options.units["NVIDIA H200"]) == ("/full/path", 4.0)


def test_every_figure_of_a_preset_has_a_source() -> None:
    for preset in PRESETS.values():
        assert len(preset.sources) == len(preset.limits)
        assert set(preset.limits) <= set(PRESET_LIMITS)
        assert all(re.search(r"20\d\d-\d\d", source) for source in preset.sources)
