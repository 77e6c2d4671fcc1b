"""Reads the configuration: one TOML file, the environment and the command line; each value with its origin."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ownlab.config.paths import SYSTEM_CONFIG, config_file
from ownlab.config.setting_checks import BadValue
from ownlab.config.settings import (
    NONE,
    PRESET_LIMITS,
    PRESETS,
    SETTINGS,
    TABLES,
    UNITS,
    LabOptions,
    Setting,
    check_units,
)
from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.input_files import parse_toml, read_bytes
from ownlab.text import text
from ownlab.units import MIB

__all__ = ["DEFAULT", "read_setting", "resolve_lab_options"]

DEFAULT = "default"
_MAX_BYTES = MIB  # every setting, with comments, takes less than 10 kB
# A variable that resembles one of ours this much is reported as misspelt; others may belong to other programs.
_SIMILAR_VARIABLE = 0.85


class _Given(NamedTuple):
    """A value as a person wrote it."""

    value: object
    origin: str
    error: type[OwnlabError] = InputError


def resolve_lab_options(
    *, environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG, **flags: object
) -> LabOptions:
    """Resolve every setting: command line first (`flags`, by the fields of LabOptions; None: not given), then environment, then file.

    Raises InputError when the file or a variable contains an unknown setting or a bad value.
    """
    path = config_file(environ, system)
    content = _read_file(path)
    _refuse_unknown_settings(content, path)
    _refuse_misspelt_variables(environ)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        given = _find(setting, flags, environ, content, path)
        values[setting.field], origins[setting.name] = _check(setting, given)
    _apply_preset(values, origins)
    units, unit_origins = _resolve_units(environ, content, path)
    return LabOptions(**values, units=units, origins=origins | unit_origins)


def _find(
    setting: Setting,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    content: Mapping[str, Any],
    path: Path,
) -> _Given:
    flag = flags.get(setting.field)
    if flag is not None:
        option = setting.flag or setting.field
        name = f"no-{option}" if flag is False else option
        return _Given(flag, "--" + name.replace("_", "-"), UsageError)
    if environ.get(setting.environment_variable):
        return _Given(environ[setting.environment_variable], setting.environment_variable)
    table, _, key = setting.name.partition(".")
    if key in content.get(table, {}):
        return _Given(content[table][key], str(path))
    return _Given(setting.default, DEFAULT)


def _check(setting: Setting, given: _Given) -> tuple[Any, str]:
    try:
        return setting.check(given.value), given.origin
    except BadValue as exc:
        name = f"{given.origin}: {setting.name}" if os.sep in given.origin else given.origin
        expected, value = exc.args[0], json.dumps(given.value, ensure_ascii=False, default=str)
        message = text("{name} must be {expected}, not {value}.", name=name, expected=expected, value=value)
        raise given.error(message) from exc


def _apply_preset(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Take limits that nobody set from the preset."""
    preset = PRESETS[values["preset"]]
    for name in PRESET_LIMITS:
        if origins[f"limits.{name}"] == DEFAULT and preset.name != NONE:
            values[name] = preset.limits.get(name)
            origins[f"limits.{name}"] = f'preset "{preset.name}"'


def _resolve_units(
    environ: Mapping[str, str], content: Mapping[str, Any], path: Path
) -> tuple[dict[str, float], dict[str, str]]:
    units: dict[str, float] = {}
    origins: dict[str, str] = {}
    for setting in UNITS:
        units[setting.field], origins[setting.name] = _check(setting, _find(setting, {}, environ, content, path))
    for card, value in content.get("units", {}).items():
        if card not in units:
            kind = Setting(f'units."{card}"', None, check_units, "", field=card)
            units[card], origins[f"units.{card}"] = _check(kind, _Given(value, str(path)))
    return units, origins


# --- the file ---------------------------------------------------------------------------------------------------------


def _read_file(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {}
    return parse_toml(read_bytes(path, max_bytes=_MAX_BYTES), str(path))


def read_setting(name: str, path: Path) -> str:
    """Return the text of one setting of the file; "" if it is not there, or the file is damaged, which others report."""
    table, _, key = name.partition(".")
    try:
        given = _read_file(path).get(table)
    except OwnlabError:
        return ""
    found = given.get(key) if isinstance(given, dict) else None
    return found if isinstance(found, str) else ""


def _refuse_unknown_settings(content: Mapping[str, Any], path: Path) -> None:
    known = {setting.name for setting in (*SETTINGS, *UNITS)}
    for name, value in _names_in(content):
        table, _, key = name.partition(".")
        if table == "units" and key and not _resembles_unit(key):
            continue
        if name in (*TABLES, "units") and not isinstance(value, dict):
            raise InputError(
                text(
                    "{path}: {table} must be a table: write [{table}] and its settings below it.",
                    path=path,
                    table=table,
                )
            )
        if name not in known:
            raise _unknown_setting(name, path, _nearest(name, known))


def _unknown_setting(name: str, path: Path, near: str | None) -> InputError:
    if near:
        return InputError(text("{path}: unknown setting {name}. Did you mean {near}?", path=path, name=name, near=near))
    return InputError(text("{path}: unknown setting {name}. `ownlab config` lists all settings.", path=path, name=name))


def _names_in(content: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield limits.preset, …; for a value outside any table, or an empty table that is not ours, its name alone."""
    for table, value in content.items():
        if isinstance(value, dict) and (value or table in (*TABLES, "units")):
            yield from ((f"{table}.{key}", inner) for key, inner in value.items())
        else:
            yield table, value


def _resembles_unit(key: str) -> bool:
    """Whether a key is a misspelt unit (cpus, defualt) and not the name of a card."""
    names = [setting.field for setting in UNITS]
    return key not in names and bool(difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.75))


def _nearest(name: str, known: set[str]) -> str | None:
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    if close:
        return close[0]
    last = {full.partition(".")[2]: full for full in known}  # the right key in the wrong table, or in none
    close = difflib.get_close_matches(name.rpartition(".")[2], sorted(last), n=1, cutoff=0.7)
    return last[close[0]] if close else None


def _refuse_misspelt_variables(environ: Mapping[str, str]) -> None:
    known = [setting.environment_variable for setting in (*SETTINGS, *UNITS)]
    prefixes = tuple(f"OWNLAB_{table.upper()}_" for table in (*TABLES, "units"))
    for name in environ:
        if name.startswith(prefixes) and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=_SIMILAR_VARIABLE)
            if close:
                message = text("Unknown environment variable {name}. Did you mean {near}?", name=name, near=close[0])
                raise InputError(message)
