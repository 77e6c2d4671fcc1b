"""Every setting of the lab: its name, its default, which values it takes, and what it means in a sentence."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import NamedTuple

from ownlab.config.presets import PRESETS

__all__ = ["NONE", "SETTINGS", "SHARES", "TABLES", "UNITS", "BadValue", "Setting", "check_units"]

NONE = "none"
# A card is booked in twelfths: into these many equal parts it can be divided.
SHARES = (2, 3, 4, 6, 12)


class BadValue(Exception):
    """What a setting must be: "a whole number from 0 to 65535"."""


Check = Callable[[object], object]


class Setting(NamedTuple):
    """One setting. `check` gives the value as it is kept, and raises BadValue; text comes from environment variables."""

    name: str  # as in the file: limits.idle_minutes
    field: str  # of LabOptions
    default: object
    check: Check
    meaning: str
    variable: str = ""
    flag: str = ""  # where the command line calls it otherwise

    @property
    def environment_variable(self) -> str:
        """limits.idle_minutes -> OWNLAB_LIMITS_IDLE_MINUTES."""
        return self.variable or "OWNLAB_" + self.name.replace(".", "_").upper()


def _number(least: float, most: float) -> Callable[[object], float]:
    words = f"a number of at least {least:g}" if math.isinf(most) else f"a number from {least:g} to {most:g}"

    def check(given: object) -> float:
        number = _as_number(given, words)
        if not least <= number <= most:
            raise BadValue(words)
        return number

    return check


def _as_number(given: object, words: str) -> float:
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError as exc:
            raise BadValue(words) from exc
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        raise BadValue(words)
    return float(given)


def _whole(least: int, most: int) -> Callable[[object], int]:
    words = f"a whole number from {least} to {most}"

    def check(given: object) -> int:
        number = _as_number(given, words)
        if not number.is_integer() or not least <= number <= most:
            raise BadValue(words)
        return int(number)

    return check


def _limit(given: object) -> float | None:
    words = f'a number above 0, or "{NONE}" for no limit'
    if given is None or given == NONE:
        return None
    number = _as_number(given, words)
    if number <= 0:
        raise BadValue(words)
    return number


def _boolean(given: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(given, str) and given.lower() in words:
        return words[given.lower()]
    if not isinstance(given, bool):
        raise BadValue("true or false")
    return given


def _preset(given: object) -> str:
    if not isinstance(given, str) or given not in PRESETS:
        raise BadValue("one of " + ", ".join(f'"{name}"' for name in PRESETS))
    return given


def _path(what: str) -> Callable[[object], str | None]:
    def check(given: object) -> str | None:
        if given is None:
            return None
        path = os.path.expanduser(given) if isinstance(given, str) else ""
        if not os.path.isabs(path):
            raise BadValue(f"the full path of a {what}")
        return os.path.normpath(path)

    return check


_folder = _path("folder")


def _script(given: object) -> str | None:
    words = "the full path of a script that ends in .sh or .py"
    if given is None:
        return None
    path = os.path.expanduser(given) if isinstance(given, str) else ""
    if not os.path.isabs(path) or not path.endswith((".sh", ".py")):
        raise BadValue(words)
    return os.path.normpath(path)


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise BadValue("a text")
    return given


def _shares(given: object) -> tuple[int, ...]:
    words = f"a list of numbers of parts, each one of {', '.join(map(str, SHARES))}: [2] offers halves, [] whole cards"
    if isinstance(given, str):
        given = [int(part) if part.strip().isdecimal() else part for part in given.split(",") if part.strip()]
    if not isinstance(given, (list, tuple)) or any(part is True or part not in SHARES for part in given):
        raise BadValue(words)
    return tuple(sorted(set(given)))


SETTINGS = (
    Setting("lab.port", "port", 0, _whole(0, 65535), "Where the lab listens on 127.0.0.1. 0: any free port."),
    Setting("lab.browser", "browser", True, _boolean, "Whether `ownlab up` opens the browser."),
    Setting(
        "store.folder",
        "store_folder",
        None,
        _folder,
        "Where runtimes and leases are recorded. Unset: the machine's shared store where there is one, else your own.",
        variable="OWNLAB_STORE",
    ),
    Setting(
        "runtimes.shares", "shares", (2,), _shares, "Into how many parts a card may be divided: [2] offers halves."
    ),
    Setting(
        "runtimes.on_end_seconds",
        "on_end_seconds",
        30.0,
        _number(0, 3600),
        "How long functions given to ownlab.on_end may take to save their work.",
    ),
    Setting(
        "journal.cell_mb",
        "cell_mb",
        256,
        _whole(1, 4096),
        "Megabytes of a cell's outputs that are kept; of more the beginning and the end are, and the cell says so.",
    ),
    Setting(
        "journal.keep_days",
        "keep_days",
        7.0,
        _number(0, math.inf),
        "How long the journal of a runtime that ended stays, once its notebook holds all of it.",
    ),
    Setting(
        "content.keep_days",
        "content_keep_days",
        7.0,
        _number(0, math.inf),
        "How long the /content of a runtime stays after its end. It is in the state folder, under content.",
    ),
    Setting(
        "drive.folder",
        "drive_folder",
        None,
        _folder,
        "What drive.mount shows as MyDrive. Unset: a folder of your own that stays, ~/.local/share/ownlab/drive.",
    ),
    Setting(
        "drive.remote",
        "drive_remote",
        "",
        _text,
        'What drive.mount shows instead, through rclone: a remote of its configuration, such as "gdrive:".',
    ),
    Setting(
        "startup.script",
        "startup_script",
        None,
        _script,
        "A script for every kernel: .sh runs before it in its folder, .py in its namespace before the first cell.",
    ),
    Setting(
        "metrics.token_file",
        "metrics_token_file",
        None,
        _path("file"),
        "A file with a token that lets Prometheus read /ownlab/metrics, and nothing else. Unset: the lab's own token alone.",
    ),
    Setting(
        "limits.preset", "preset", NONE, _preset, "Limits as people know them: none, colab or kaggle.", flag="limits"
    ),
    Setting(
        "limits.idle_minutes",
        "idle_minutes",
        None,
        _limit,
        "End a runtime that did nothing for so long. Never a busy one.",
    ),
    Setting("limits.session_hours", "session_hours", None, _limit, "The longest a runtime may live."),
    Setting(
        "limits.gpu_hours_per_week",
        "gpu_hours_per_week",
        None,
        _limit,
        "Hours of a whole card that a person may use from Monday to Sunday (UTC).",
    ),
    Setting(
        "limits.warn_minutes", "warn_minutes", 10.0, _number(0, math.inf), "How long before the end people are warned."
    ),
    Setting(
        "limits.extend_minutes",
        "extend_minutes",
        60.0,
        _number(0, math.inf),
        "What one extension gives. 0: a runtime may not be extended.",
    ),
)

TABLES = tuple(dict.fromkeys(setting.name.partition(".")[0] for setting in SETTINGS))

# [units] is a table of names: these two, and any card's.
UNITS = (
    Setting("units.cpu", "cpu", 0.0, _number(0, math.inf), "What an hour of a runtime without a card costs."),
    Setting("units.default", "default", 1.0, _number(0, math.inf), "What an hour of a whole card costs."),
)


def check_units(given: object) -> float:
    """What an hour of a card costs, in units of the group's own choice."""
    return _number(0, math.inf)(given)
