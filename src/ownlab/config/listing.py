"""The configuration as `ownlab config` shows it, and the commented file that it writes for a beginning."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ownlab.config.loader import LabOptions, resolve_lab_options
from ownlab.config.paths import SYSTEM_CONFIG, config_file, config_files
from ownlab.config.presets import PRESETS
from ownlab.config.settings import NONE, SETTINGS, TABLES, UNITS, Setting
from ownlab.errors import InputError

__all__ = ["ConfigFile", "Configuration", "SettingValue", "read_configuration", "write_first_config"]


class SettingValue(Struct, frozen=True):
    """One setting as it stands."""

    name: str  # limits.idle_minutes
    value: bool | int | float | str | tuple[int, ...] | None  # None: no limit, or not set
    origin: str  # --port, OWNLAB_LAB_PORT, a file's path, preset "colab", default
    meaning: str
    variable: str | None  # the environment variable that sets it


class ConfigFile(Struct, frozen=True):
    """A place where a configuration was looked for."""

    path: str
    state: Literal["used", "passed over", "not there"]  # only the first that is there is used


class Configuration(Struct, frozen=True):
    """`ownlab config --json`."""

    settings: tuple[SettingValue, ...]
    files: tuple[ConfigFile, ...]


def read_configuration(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> Configuration:
    """Every setting with its value and where that came from, and the files that were looked at."""
    options = resolve_lab_options(environ=environ, system=system)
    settings = [
        SettingValue(
            setting.name,
            getattr(options, setting.field),
            options.origins[setting.name],
            setting.meaning,
            setting.environment_variable,
        )
        for setting in SETTINGS
    ]
    return Configuration((*settings, *_units(options)), _files(environ, system))


def _units(options: LabOptions) -> list[SettingValue]:
    known = {setting.field: setting for setting in UNITS}
    return [
        SettingValue(
            f"units.{name}",
            value,
            options.origins[f"units.{name}"],
            known[name].meaning if name in known else f"What an hour of a whole {name} costs.",
            known[name].environment_variable if name in known else None,
        )
        for name, value in options.units.items()
    ]


def _files(environ: Mapping[str, str], system: Path) -> tuple[ConfigFile, ...]:
    used = config_file(environ, system)

    def state(path: Path) -> Literal["used", "passed over", "not there"]:
        if not os.path.exists(path):
            return "not there"
        return "used" if path == used else "passed over"

    return tuple(ConfigFile(str(path), state(path)) for path in config_files(environ, system))


def write_first_config(environ: Mapping[str, str] = os.environ) -> Path:
    """Write a file in which every setting stands, commented out with its default. One that is there is never touched."""
    path = config_files(environ)[0]
    try:
        os.makedirs(path.parent, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(first_config())
    except FileExistsError as exc:
        raise InputError(f"{path} is there already; it is left as it is.") from exc
    except OSError as exc:
        raise InputError(
            f"{path} cannot be written: {exc.strerror}.", hint="Set OWNLAB_CONFIG to a file of your own."
        ) from exc
    return path


def first_config() -> str:
    """The text of that file."""
    lines = [
        "# ownlab's configuration. Each line below stands for its default: take the # away to change it.",
        "# An environment variable (its name is in brackets) comes before this file, the command line before both.",
    ]
    for table in TABLES:
        lines += ["", f"[{table}]"]
        for setting in SETTINGS:
            if setting.name.startswith(f"{table}."):
                lines += _lines(setting)
    lines += ["", "[units]"]
    for setting in UNITS:
        lines += _lines(setting)
    lines += ["# By a card's name, as `ownlab machine` shows it:", '# "NVIDIA H200" = 4.0']
    return "\n".join(lines) + "\n"


def _lines(setting: Setting) -> list[str]:
    key = setting.name.partition(".")[2]
    lines = [f"# {setting.meaning} ({setting.environment_variable})"]
    if setting.name == "limits.preset":
        lines += [f"#   {preset.name}: {_words(preset.name)}" for preset in PRESETS.values()]
    if setting.default is not None:
        return [*lines, f"# {key} = {json.dumps(setting.default)}"]
    path = "/full/path.sh" if setting.name == "startup.script" else "/full/path"
    value = f'"{path}"' if setting.name.endswith((".folder", ".script", "_file")) else f'"{NONE}"'
    return [*lines, f"# {key} = {value}"]


def _words(name: str) -> str:
    preset = PRESETS[name]
    parts = [
        f"idle {preset.idle_minutes:g} min" if preset.idle_minutes else "",
        f"session {preset.session_hours:g} h" if preset.session_hours else "",
        f"{preset.gpu_hours_per_week:g} GPU hours a week" if preset.gpu_hours_per_week else "",
    ]
    return ", ".join(filter(None, parts)) or "no limits"
