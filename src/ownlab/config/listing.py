"""The configuration as `ownlab config` lists it, and the commented file that `ownlab config --init` writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import SYSTEM_CONFIG, config_file, config_files
from ownlab.config.settings import NONE, PRESETS, SETTINGS, TABLES, UNITS, LabOptions, Preset, Setting
from ownlab.errors import InputError
from ownlab.text import facts, in_english, template, text

__all__ = ["ConfigFile", "Configuration", "SettingValue", "read_configuration", "write_initial_config"]


class SettingValue(Struct, frozen=True):
    """One setting with its value."""

    name: str  # limits.idle_minutes
    value: bool | int | float | str | tuple[int, ...] | None  # None: no limit, or not set
    origin: str  # --port, OWNLAB_LAB_PORT, a file's path, preset "colab", default
    meaning: str
    variable: str | None  # the environment variable that sets it


class ConfigFile(Struct, frozen=True):
    """A path that was searched for a configuration."""

    path: str
    state: Literal["used", "passed over", "not there"]  # only the first that is there is used


class Configuration(Struct, frozen=True):
    """`ownlab config --json`."""

    settings: tuple[SettingValue, ...]
    files: tuple[ConfigFile, ...]


def read_configuration(environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG) -> Configuration:
    """Return every setting with its value and origin, and the files that were searched."""
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
            known[name].meaning if name in known else text("The price of one hour of a whole {name}.", name=name),
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


def write_initial_config(environ: Mapping[str, str] = os.environ) -> Path:
    """Write a file with every setting, commented out, with its default. An existing file is never changed."""
    path = config_files(environ)[0]
    try:
        os.makedirs(path.parent, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(initial_config())
    except FileExistsError as exc:
        raise InputError(text("{path} exists already. It was not changed.", path=path)) from exc
    except OSError as exc:
        raise InputError(
            text("Cannot write {path}: {reason}.", path=path, reason=exc.strerror),
            hint=text("Set OWNLAB_CONFIG to a file that you can write."),
        ) from exc
    return path


def initial_config() -> str:
    """Return the content of that file."""
    lines = [
        "# Configuration of ownlab. Each line below shows a default: remove the # to change it.",
        "# Environment variables (their names are in brackets) take precedence over this file; the command line over both.",
    ]
    for table in TABLES:
        lines += ["", f"[{table}]"]
        for setting in SETTINGS:
            if setting.name.startswith(f"{table}."):
                lines += _lines(setting)
    lines += ["", "[units]"]
    for setting in UNITS:
        lines += _lines(setting)
    lines += ["# By the name of a card, as `ownlab machine` shows it:", '# "NVIDIA H200" = 4.0']
    return "\n".join(lines) + "\n"


def _lines(setting: Setting) -> list[str]:
    key = setting.name.partition(".")[2]
    lines = [f"# {setting.meaning} ({setting.environment_variable})"]
    if setting.name == "limits.preset":
        lines += [f"#   {preset.name}: {in_english(_summary(preset))}" for preset in PRESETS.values()]
    if setting.default is not None:
        return [*lines, f"# {key} = {json.dumps(setting.default)}"]
    path = "/full/path.sh" if setting.name == "startup.script" else "/full/path"
    value = f'"{path}"' if setting.name.endswith(("folder", ".script", "_file")) else f'"{NONE}"'
    return [*lines, f"# {key} = {value}"]


def _summary(preset: Preset) -> str:
    templates = {
        "idle_minutes": template("idle {limit:g} min"),
        "session_hours": template("session {limit:g} h"),
        "gpu_hours_per_week": template("{limit:g} GPU hours per week"),
    }
    return facts(*(templates[name].fill(limit=limit) for name, limit in preset.limits.items())) or text("no limits")
