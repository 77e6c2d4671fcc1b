"""Every setting of the lab, defined once: name, type, default, bounds and help. Standard library only: supervisors import it.

`LabOptions` declares the settings as typed attributes. Everything else is derived from these declarations: the table
SETTINGS, the environment variables, `ownlab config` and the file it writes, the help of the command line, the limits of a
runtime (config/limits.py), the policy of a shared store, and the presets that people know from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.config.setting_checks import (
    BadValue,
    Check,
    as_address,
    as_boolean,
    as_duration,
    as_file,
    as_folder,
    as_language,
    as_limit,
    as_script,
    as_shares,
    as_string,
    integer_from,
    number_from,
)
from ownlab.text import text
from ownlab.units import PARTS

__all__ = [
    "NONE",
    "PRESETS",
    "PRESET_LIMITS",
    "SETTINGS",
    "TABLES",
    "UNITS",
    "LabOptions",
    "Limit",
    "Preset",
    "Setting",
    "check_units",
    "setting_named",
]

NONE = "none"


class Preset(NamedTuple):
    """Limits under one name: setting -> value. A limit that is not there: the platform has none, or does not publish it."""

    name: str
    limits: Mapping[str, float] = {}
    sources: tuple[str, ...] = ()


# The free plans of these platforms; they change the figures from time to time. A machine of one's own needs none of them.
PRESETS = {
    preset.name: preset
    for preset in (
        Preset(NONE),
        Preset(
            "colab",
            {"idle_minutes": 90, "session_hours": 12},
            (
                "idle: the documents of github.com/googlecolab/google-colab-cli, 2026-07",
                "session: research.google.com/colaboratory/faq.html, as cited 2026-05 (24 h with Pro+)",
            ),
        ),
        Preset(
            "kaggle",
            {"session_hours": 12, "gpu_hours_per_week": 30},
            (
                "session: kaggle.com/docs/notebooks, as cited 2025-11",
                "GPU hours: kaggle.com/product-feedback/173129, as cited 2025-11 (it varies from week to week)",
            ),
        ),
    )
}


def _preset(given: object) -> str:
    if not isinstance(given, str) or given not in PRESETS:
        names = ", ".join(f'"{name}"' for name in PRESETS)
        raise BadValue(text("one of {names}", names=names))
    return given


# --- settings -----------------------------------------------------------------------------------------------------------


class Limit(NamedTuple):
    """A setting that limits a runtime: the field of `Limits` (in seconds), and how many seconds its unit has."""

    field: str
    seconds: float = 1.0
    personal: bool = False  # a shared store's policy does not apply to it


class Setting:
    """One setting. On a LabOptions object it reads the value; on the class it is this definition."""

    def __init__(
        self,
        name: str,
        default: Any,
        check: Check,
        meaning: str,
        *,
        variable: str = "",
        flag: str = "",
        limit: Limit | None = None,
        field: str = "",
    ) -> None:
        self.name = name  # as in the file: limits.idle_minutes
        self.default = default
        self.check = check
        self.meaning = meaning
        self.environment_variable = variable or "OWNLAB_" + name.replace(".", "_").upper()
        self.flag = flag  # where the command line uses another name
        self.limit = limit
        self.field = field  # of LabOptions

    def __set_name__(self, owner: type, name: str) -> None:
        self.field = name

    def __get__(self, instance: LabOptions | None, owner: type) -> Any:
        return self if instance is None else instance.__dict__.get(self.field, self.default)


def _setting(name: str, default: object, check: Check, meaning: str, **more: Any) -> Any:
    return Setting(name, default, check, meaning, **more)


# [units] is a table of names: these two, and the name of any card.
UNITS = (
    Setting("units.cpu", 0.0, number_from(0), "The price of one hour of a runtime without a card.", field="cpu"),
    Setting("units.default", 1.0, number_from(0), "The price of one hour of a whole card.", field="default"),
)


class LabOptions:
    """The settings of labs and runtimes, with their values. None: no limit, or not set."""

    language: str = _setting(
        "interface.language",
        "",
        as_language,
        "The language of commands, and of the page unless another one is chosen in its settings: en or zh_CN. Default: that of "
        "the locale (LANGUAGE, LC_ALL, LC_MESSAGES, LANG).",
        variable="OWNLAB_LANG",
        flag="lang",
    )
    port: int = _setting(
        "lab.port", 0, integer_from(0, 65535), "The port on 127.0.0.1 that the lab listens on. 0: any free port."
    )
    browser: bool = _setting("lab.browser", True, as_boolean, "Open the browser with `ownlab up`.")
    lab_engine: str = _setting(
        "lab.engine",
        "local",
        as_string,
        "Where notebooks of `ownlab up` run: local, on this machine; or slurm, also on nodes of the cluster that Slurm's commands "
        "reach from here.",
    )
    disk_warning_gb: float = _setting(
        "lab.disk_warning_gb",
        10.0,
        number_from(0),
        "Pages warn when fewer gigabytes of the disk with the lab's folder are free; of a disk below 200 GB, when less than "
        "5 % or 2 GB are free. 0: never.",
    )
    store_folder: str | None = _setting(
        "store.folder",
        None,
        as_folder,
        "The folder in which runtimes and leases are recorded. Default: the machine's shared store if there is one, "
        "otherwise your own.",
        variable="OWNLAB_STORE",
    )
    default_environment: bool = _setting(
        "environments.default",
        True,
        as_boolean,
        "Build the default environment (numpy, pandas, matplotlib, …) with `ownlab up` if there is none.",
        flag="default-environment",
    )
    environments_folder: str | None = _setting(
        "environments.folder",
        None,
        as_folder,
        "The folder of the environments that ownlab creates. Default: ~/.local/share/ownlab/environments.",
    )
    package_index: str = _setting(
        "environments.index",
        "",
        as_address,
        "The package index for environments that ownlab creates. Default: what uv or pip is configured to use, else PyPI.",
    )
    torch_index: str = _setting(
        "environments.torch_index",
        "https://download.pytorch.org/whl",
        as_address,
        "PyTorch's own index, or a mirror of it. The folder of a build (cu130, cpu) is added to it.",
    )
    run_engine: str = _setting(
        "run.engine",
        "local",
        as_string,
        "What starts scripts of `ownlab run`: local, this machine; or slurm, the cluster that Slurm's commands reach from here.",
        flag="engine",
    )
    shares: tuple[int, ...] = _setting(
        "runtimes.shares", (2,), as_shares, "The numbers of equal parts a card may be divided into: [2] offers halves."
    )
    on_end_seconds: float = _setting(
        "runtimes.on_end_seconds",
        30.0,
        number_from(0, 3600),
        "The time that functions registered with ownlab.on_end have to save their work.",
        limit=Limit("on_end"),
    )
    cell_mb: int = _setting(
        "journal.cell_mb",
        256,
        integer_from(1, 4096),
        "How many megabytes of a cell's output are kept. Of longer output the beginning and the end are kept, and the "
        "cell says so.",
    )
    backlog_mb: int = _setting(
        "journal.backlog_mb",
        64,
        integer_from(4, 4096),
        "How many megabytes of output wait in memory for a page, or a server, that does not read. Beyond that pages read it "
        "from disk later, and other clients are disconnected.",
    )
    keep_days: float = _setting(
        "journal.keep_days",
        7.0,
        number_from(0),
        "How many days the journal of an ended runtime is kept once its notebook contains all of it.",
    )
    history_days: float = _setting(
        "history.keep_days",
        90.0,
        number_from(0),
        "How many days versions of notebooks are kept. Named versions are kept until they are purged.",
    )
    history_mb: float = _setting(
        "history.max_mb",
        200.0,
        number_from(1),
        "How many megabytes the versions of one notebook may take. The oldest are removed first, named ones never.",
    )
    content_keep_days: float = _setting(
        "content.keep_days",
        7.0,
        number_from(0),
        "How many days the /content folder of an ended runtime is kept (in the state folder, under content).",
    )
    drive_folder: str | None = _setting(
        "drive.folder",
        None,
        as_folder,
        "The folder that drive.mount shows as MyDrive. Default: ~/.local/share/ownlab/drive, or drive in OWNLAB_HOME.",
    )
    drive_remote: str = _setting(
        "drive.remote",
        "",
        as_string,
        'The rclone remote that drive.mount shows instead of a folder, such as "gdrive:".',
    )
    data_stage_folder: str | None = _setting(
        "data.stage_folder",
        None,
        as_folder,
        "The folder on a fast local disk that `ownlab data stage` copies data sets to. Default: ~/.cache/ownlab/staged.",
    )
    data_stage_gb: float | None = _setting(
        "data.stage_gb",
        None,
        as_limit,
        "How many gigabytes the copies of `ownlab data stage` may take together. The ones that were used least recently are "
        "removed for new ones, never those that a process has open.",
    )
    startup_script: str | None = _setting(
        "startup.script",
        None,
        as_script,
        "A script that runs for every kernel: a .sh file before the kernel starts, in its folder; a .py file in its "
        "namespace before the first cell.",
    )
    metrics_token_file: str | None = _setting(
        "metrics.token_file",
        None,
        as_file,
        "A file with a token that gives Prometheus access to /ownlab/metrics and nothing else. Default: only the lab's "
        "own token has access.",
    )
    preset: str = _setting(
        "limits.preset", NONE, _preset, "The limits of a known platform: none, colab or kaggle.", flag="limits"
    )
    idle_minutes: float | None = _setting(
        "limits.idle_minutes",
        None,
        as_limit,
        "Stop a runtime after this many minutes without work. A busy runtime is never stopped for idleness.",
        limit=Limit("idle", 60),
    )
    unattended_gpu_minutes: float | None = _setting(
        "limits.unattended_gpu_minutes",
        None,
        as_limit,
        "Stop a runtime that holds a card after this many minutes without work and without an open page. Running a cell of "
        "its notebook starts it again.",
        limit=Limit("unattended", 60),
    )
    session_hours: float | None = _setting(
        "limits.session_hours", None, as_limit, "The maximum lifetime of a runtime.", limit=Limit("session", 3600)
    )
    gpu_hours_per_week: float | None = _setting(
        "limits.gpu_hours_per_week",
        None,
        as_limit,
        "How many hours of a whole card a person may use per week (Monday to Sunday, UTC).",
        limit=Limit("card_seconds_per_week", 3600),
    )
    warn_minutes: float = _setting(
        "limits.warn_minutes",
        10.0,
        number_from(0),
        "How many minutes before the end people are warned.",
        limit=Limit("warn", 60, personal=True),
    )
    extend_minutes: float = _setting(
        "limits.extend_minutes",
        60.0,
        number_from(0),
        "How many minutes one extension adds. 0: a runtime cannot be extended.",
        limit=Limit("extend", 60),
    )

    slurm_partition: str = _setting(
        "slurm.partition",
        "",
        as_string,
        "The partition of runs on a Slurm cluster. Default: the cluster's own.",
        flag="partition",
    )
    slurm_account: str = _setting(
        "slurm.account", "", as_string, "The account that runs on a Slurm cluster are charged to.", flag="account"
    )
    slurm_qos: str = _setting(
        "slurm.qos", "", as_string, "The quality of service (QOS) of runs on a Slurm cluster.", flag="qos"
    )
    slurm_time: str = _setting(
        "slurm.time",
        "",
        as_duration,
        "The time limit of runs on a Slurm cluster: 90 (minutes), 12:00:00 or 2-00:00:00. Default: that of the partition.",
        flag="time",
    )
    slurm_options: str = _setting(
        "slurm.options",
        "",
        as_string,
        'Further options of sbatch that a site requires, as in a shell: "--constraint=a100 --cpus-per-gpu=8".',
    )
    slurm_poll_seconds: float = _setting(
        "slurm.poll_seconds",
        5.0,
        number_from(0.1, 3600),
        "Slurm is asked for the state of a run at most once in so many seconds.",
    )
    slurm_deadline_seconds: float = _setting(
        "slurm.deadline_seconds", 60.0, number_from(1, 3600), "How long a command of Slurm may take to answer."
    )

    def __init__(
        self, *, units: Mapping[str, float] | None = None, origins: Mapping[str, str] | None = None, **values: Any
    ) -> None:
        unknown = values.keys() - {setting.field for setting in SETTINGS}
        if unknown:
            raise TypeError(f"unknown settings: {', '.join(sorted(unknown))}")
        self.__dict__.update(values)
        # The price of an hour: without a card ("cpu"), of a whole card by its name, of any other card ("default").
        self.units: dict[str, float] = dict(units or {each.field: each.default for each in UNITS})
        # Setting -> --port, OWNLAB_LAB_PORT, the path of a file, preset "colab", default.
        self.origins: dict[str, str] = dict(origins or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabOptions) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]  # it holds dictionaries

    def __repr__(self) -> str:
        changed = {each.field: value for each in SETTINGS if (value := getattr(self, each.field)) != each.default}
        return f"LabOptions({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def _values(self) -> tuple[object, ...]:
        return (*(getattr(self, setting.field) for setting in SETTINGS), self.units, self.origins)

    def units_for(self, kind: str | None, cards: int = 1, parts: int = PARTS) -> float:
        """Return the price of one hour of a runtime with `parts` twelfths of each of `cards` cards. kind None: no card."""
        if kind is None:
            return self.units["cpu"]
        return self.units.get(kind, self.units["default"]) * cards * parts / PARTS


SETTINGS: tuple[Setting, ...] = tuple(each for each in vars(LabOptions).values() if isinstance(each, Setting))
# The limits that a preset sets: those that are off by default.
PRESET_LIMITS = tuple(setting.field for setting in SETTINGS if setting.limit is not None and setting.default is None)
TABLES = tuple(dict.fromkeys(setting.name.partition(".")[0] for setting in SETTINGS))


def setting_named(name: str) -> Setting:
    """Return the definition of a setting: setting_named("limits.idle_minutes")."""
    return next(setting for setting in SETTINGS if setting.name == name)


def check_units(given: object) -> float:
    """Check the price of an hour of a card, in units that the group chooses."""
    price: float = number_from(0)(given)
    return price
