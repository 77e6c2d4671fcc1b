"""The lab's configuration: one TOML file, the environment, the command line, resolved once; each value with its origin."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field

from ownlab.config.paths import SYSTEM_CONFIG, config_file
from ownlab.config.presets import PRESETS
from ownlab.config.settings import NONE, SETTINGS, TABLES, UNITS, BadValue, Setting, check_units
from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.units import PARTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT", "LabOptions", "resolve_lab_options"]

DEFAULT = "default"
# Variables as near as this to one of ours are taken for misspelt; others may be anybody's.
_NEAR_VARIABLE = 0.85


class LabOptions(Struct, frozen=True):
    """How labs and runtimes are set up. None: no limit."""

    port: int = 0
    browser: bool = True
    store_folder: str | None = None
    shares: tuple[int, ...] = (2,)
    on_end_seconds: float = 30.0
    cell_mb: int = 256
    keep_days: float = 7.0
    content_keep_days: float = 7.0
    drive_folder: str | None = None
    drive_remote: str = ""
    metrics_token_file: str | None = None
    startup_script: str | None = None
    preset: str = NONE
    idle_minutes: float | None = None
    session_hours: float | None = None
    gpu_hours_per_week: float | None = None
    warn_minutes: float = 10.0
    extend_minutes: float = 60.0
    # What an hour costs: of no card ("cpu"), of a whole card by its name, of any other ("default").
    units: dict[str, float] = field(default_factory=lambda: {unit.field: float(str(unit.default)) for unit in UNITS})
    origins: dict[str, str] = {}  # setting -> --port, OWNLAB_LAB_PORT, the file's path, preset "colab", default

    @property
    def limits(self) -> dict[str, Any]:
        """In seconds, by the names of `lab.runtimes.plan.Limits`, which this room may not import: Limits(**limits)."""
        return {
            "idle": _seconds(self.idle_minutes, 60),
            "session": _seconds(self.session_hours, 3600),
            "card_seconds_per_week": _seconds(self.gpu_hours_per_week, 3600),
            "warn": self.warn_minutes * 60,
            "extend": self.extend_minutes * 60,
            "on_end": self.on_end_seconds,
        }

    def units_for(self, kind: str | None, cards: int = 1, parts: int = PARTS) -> float:
        """What an hour of a runtime costs that holds `parts` twelfths of each of `cards` cards of a kind; None: no card."""
        if kind is None:
            return self.units["cpu"]
        return self.units.get(kind, self.units["default"]) * cards * parts / PARTS


def _seconds(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


class _Given(NamedTuple):
    """A value as somebody wrote it."""

    value: object
    origin: str
    error: type[OwnlabError] = InputError


def resolve_lab_options(
    *, environ: Mapping[str, str] = os.environ, system: Path = SYSTEM_CONFIG, **flags: object
) -> LabOptions:
    """From the command line (`flags`, by the names of LabOptions' fields; None: not given), the environment, the file.

    Raises InputError where the file or a variable holds what is no setting, or no value for it.
    """
    path = config_file(environ, system)
    written = _read_file(path)
    _refuse_unknown(written, path)
    _refuse_misspelt(environ)
    fields: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        given = _find(setting, flags, environ, written, path)
        fields[setting.field], origins[setting.name] = _checked(setting, given)
    _fill_from_preset(fields, origins)
    units, unit_origins = _resolve_units(environ, written, path)
    return LabOptions(**fields, units=units, origins=origins | unit_origins)


def _find(
    setting: Setting,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    written: Mapping[str, Any],
    path: Path,
) -> _Given:
    flag = flags.get(setting.field)
    if flag is not None:
        called = setting.flag or setting.field
        name = f"no-{called}" if flag is False else called
        return _Given(flag, "--" + name.replace("_", "-"), UsageError)
    if environ.get(setting.environment_variable):
        return _Given(environ[setting.environment_variable], setting.environment_variable)
    table, _, key = setting.name.partition(".")
    if key in written.get(table, {}):
        return _Given(written[table][key], str(path))
    return _Given(setting.default, DEFAULT)


def _checked(setting: Setting, given: _Given) -> tuple[Any, str]:
    try:
        return setting.check(given.value), given.origin
    except BadValue as exc:
        name = f"{given.origin}: {setting.name}" if os.sep in given.origin else given.origin
        raise given.error(f"{name} must be {exc}, not {_shown(given.value)}.") from exc


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _fill_from_preset(fields: dict[str, Any], origins: dict[str, str]) -> None:
    """What nobody said of a limit is as the preset says."""
    preset = PRESETS[fields["preset"]]
    for name in ("idle_minutes", "session_hours", "gpu_hours_per_week"):
        if origins[f"limits.{name}"] == DEFAULT and preset.name != NONE:
            fields[name] = getattr(preset, name)
            origins[f"limits.{name}"] = f'preset "{preset.name}"'


def _resolve_units(
    environ: Mapping[str, str], written: Mapping[str, Any], path: Path
) -> tuple[dict[str, float], dict[str, str]]:
    units: dict[str, float] = {}
    origins: dict[str, str] = {}
    for setting in UNITS:
        units[setting.field], origins[setting.name] = _checked(setting, _find(setting, {}, environ, written, path))
    for card, value in written.get("units", {}).items():
        if card not in units:
            kind = Setting(f'units."{card}"', card, None, check_units, "")
            units[card], origins[f"units.{card}"] = _checked(kind, _Given(value, str(path)))
    return units, origins


# --- the file ---------------------------------------------------------------------------------------------------------


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            written: dict[str, Any] = tomllib.load(file)
            return written
    except FileNotFoundError:
        return {}
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise InputError(f"{path} is no valid TOML: {exc}.", hint="See https://toml.io for how it is written.") from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"{path} is no text in UTF-8: byte {exc.start} is {exc.object[exc.start]:#x}.") from exc


def _refuse_unknown(written: Mapping[str, Any], path: Path) -> None:
    known = {setting.name for setting in (*SETTINGS, *UNITS)}
    for name, value in _names_in(written):
        table, _, key = name.partition(".")
        if table == "units" and key and not _like_unit(key):
            continue
        if name in (*TABLES, "units") and not isinstance(value, dict):
            raise InputError(f"{path}: {table} is a table: write [{table}], and its settings below.")
        if name not in known:
            near = _nearest(name, known)
            hint = f" Did you mean {near}?" if near else " `ownlab config` lists them all."
            raise InputError(f"{path}: {name} is no setting.{hint}")


def _names_in(written: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """limits.preset, …; of what is no table, or an empty one that is none of ours, the name alone."""
    for table, value in written.items():
        if isinstance(value, dict) and (value or table in (*TABLES, "units")):
            yield from ((f"{table}.{key}", inner) for key, inner in value.items())
        else:
            yield table, value


def _like_unit(key: str) -> bool:
    """cpus, defualt: no card is called like this."""
    names = [setting.field for setting in UNITS]
    return key not in names and bool(difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.75))


def _nearest(name: str, known: set[str]) -> str | None:
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    if close:
        return close[0]
    last = {full.partition(".")[2]: full for full in known}  # the right key in the wrong table, or in none
    close = difflib.get_close_matches(name.rpartition(".")[2], sorted(last), n=1, cutoff=0.7)
    return last[close[0]] if close else None


def _refuse_misspelt(environ: Mapping[str, str]) -> None:
    known = [setting.environment_variable for setting in (*SETTINGS, *UNITS)]
    prefixes = tuple(f"OWNLAB_{table.upper()}_" for table in (*TABLES, "units"))
    for name in environ:
        if name.startswith(prefixes) and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR_VARIABLE)
            if close:
                raise InputError(f"the variable {name} is no setting. Did you mean {close[0]}?")
