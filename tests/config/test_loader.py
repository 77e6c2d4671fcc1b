"""The lab's configuration: precedence, the origin of each value, and invalid configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ownlab.config.limits import Limits, limits_of
from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import InputError, UsageError


def resolve(path: Path, text: str = "", environ: dict[str, str] | None = None, **flags: Any) -> LabOptions:
    file = path / "config.toml"
    file.write_text(text)
    return resolve_lab_options(environ={"OWNLAB_CONFIG": str(file), **(environ or {})}, **flags)


def test_without_any_word_there_are_no_limits(tmp_path: Path) -> None:
    options = resolve_lab_options(environ={"OWNLAB_CONFIG": str(tmp_path / "none.toml")})
    assert options == LabOptions(origins=options.origins)
    assert set(options.origins.values()) == {"default"}
    assert limits_of(options) == Limits()


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    text = "[lab]\nport = 1\nbrowser = false\n[runtimes]\non_end_seconds = 5\n"
    environ = {"OWNLAB_LAB_PORT": "2", "OWNLAB_LAB_BROWSER": "yes"}
    options = resolve(tmp_path, text, environ, port=3, browser=None)
    assert (options.port, options.browser, options.on_end_seconds) == (3, True, 5.0)
    assert options.origins["lab.port"] == "--port"
    assert options.origins["lab.browser"] == "OWNLAB_LAB_BROWSER"
    assert options.origins["runtimes.on_end_seconds"] == str(tmp_path / "config.toml")


def test_how_much_is_kept_of_what_runtimes_say_and_how_long(tmp_path: Path) -> None:
    options = resolve(tmp_path, "[journal]\ncell_mb = 64\n", {"OWNLAB_JOURNAL_KEEP_DAYS": "0.5"})
    assert (options.cell_mb, options.keep_days) == (64, 0.5)
    assert (LabOptions().cell_mb, LabOptions().keep_days) == (256, 7)


def test_a_flag_that_switches_off_is_named_as_people_type_it(tmp_path: Path) -> None:
    options = resolve(tmp_path, browser=False)
    assert (options.browser, options.origins["lab.browser"]) == (False, "--no-browser")


def test_a_preset_fills_settings_that_are_not_given(tmp_path: Path) -> None:
    options = resolve(tmp_path, '[limits]\npreset = "kaggle"\nsession_hours = "none"\nidle_minutes = 5\n')
    assert (options.idle_minutes, options.session_hours, options.gpu_hours_per_week) == (5, None, 30)
    assert options.origins["limits.gpu_hours_per_week"] == 'preset "kaggle"'
    assert options.origins["limits.session_hours"] == str(tmp_path / "config.toml")


def test_limits_are_in_seconds_by_the_names_of_a_plan(tmp_path: Path) -> None:
    options = resolve(tmp_path, environ={"OWNLAB_LIMITS_PRESET": "colab", "OWNLAB_LIMITS_EXTEND_MINUTES": "0"})
    assert limits_of(options) == Limits(idle=5400, session=43200, extend=0)


def test_units_are_by_the_hour_of_a_whole_card(tmp_path: Path) -> None:
    options = resolve(tmp_path, '[units]\ncpu = 0.1\n"NVIDIA H200" = 4\n', {"OWNLAB_UNITS_DEFAULT": "2"})
    assert options.units_for(None) == 0.1
    assert options.units_for("NVIDIA H200", cards=2) == 8
    assert options.units_for("NVIDIA H200", parts=6) == 2
    assert options.units_for("Tesla T4") == 2
    assert options.origins["units.NVIDIA H200"] == str(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nidle_minuts = 5\n", "unknown setting limits.idle_minuts. Did you mean limits.idle_minutes?"),
        ("[limts]\nidle_minutes = 5\n", "unknown setting limts.idle_minutes. Did you mean limits.idle_minutes?"),
        ("[lab]\nidle_minutes = 5\n", "unknown setting lab.idle_minutes. Did you mean limits.idle_minutes?"),
        ("port = 5\n", "unknown setting port. Did you mean lab.port?"),
        ("[kernels]\n", "unknown setting kernels. `ownlab config` lists all settings."),
        ("limits = 5\n", "limits must be a table: write [limits] and its settings below it."),
        ("[units]\ndefualt = 5\n", "unknown setting units.defualt. Did you mean units.default?"),
        ('[units]\n"NVIDIA H200" = "dear"\n', 'units."NVIDIA H200" must be a number of at least 0, not "dear".'),
        ("[lab]\nport = 70000\n", "lab.port must be a whole number from 0 to 65535, not 70000."),
        ("[lab]\nport = true\n", "lab.port must be a whole number from 0 to 65535, not true."),
        ("[journal]\ncell_mb = 0\n", "journal.cell_mb must be a whole number from 1 to 4096, not 0."),
        ("[journal]\ncell_mb = 1.5\n", "journal.cell_mb must be a whole number from 1 to 4096, not 1.5."),
        ("[journal]\nkeep_days = -1\n", "journal.keep_days must be a number of at least 0, not -1."),
        ("[lab]\nbrowser = 1\n", "lab.browser must be true or false, not 1."),
        (
            "[limits]\nidle_minutes = 0\n",
            'limits.idle_minutes must be a number above 0, or "none" for no limit, not 0.',
        ),
        ("[limits]\nwarn_minutes = nan\n", "limits.warn_minutes must be a number of at least 0, not NaN."),
        ('[limits]\npreset = "Colab"\n', 'limits.preset must be one of "none", "colab", "kaggle", not "Colab".'),
        ("[runtimes]\nshares = [2, 5]\n", "runtimes.shares must be a list of numbers of parts"),
        ('[store]\nfolder = "here"\n', 'store.folder must be the full path of a folder, not "here".'),
        ('[startup]\nscript = "/a.txt"\n', "startup.script must be the full path of a script"),
        ("[lab]\nport =\n", "is not valid TOML: Invalid value (at line 2, column 7)."),
        ("[lab]\nport = 1\n[lab]\n", "is not valid TOML"),
    ],
)
def test_errors_in_a_configuration_file_are_explained(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        resolve(tmp_path, text)
    assert raised.value.message.startswith(str(tmp_path / "config.toml"))
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"OWNLAB_LAB_PORT": "http"}, 'OWNLAB_LAB_PORT must be a whole number from 0 to 65535, not "http".'),
        (
            {"OWNLAB_LIMITS_IDLE_MINUTS": "5"},
            "Unknown environment variable OWNLAB_LIMITS_IDLE_MINUTS. Did you mean OWNLAB_LIMITS_ID",
        ),
    ],
)
def test_an_error_in_a_variable_is_explained(tmp_path: Path, environ: dict[str, str], words: str) -> None:
    with pytest.raises(InputError) as raised:
        resolve(tmp_path, "", environ)
    assert words in raised.value.message


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    resolve(tmp_path, "", {"OWNLAB_LAB_SOMETHING_ELSE": "x", "OWNLAB_RUNTIME": "x", "OWNLAB_LAB_PORT": ""})


def test_shares_from_a_variable(tmp_path: Path) -> None:
    assert resolve(tmp_path, "", {"OWNLAB_RUNTIMES_SHARES": "4, 2"}).shares == (2, 4)
    assert resolve(tmp_path, "[runtimes]\nshares = []\n").shares == ()


def test_a_wrong_flag_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--port must be a whole number"):
        resolve(tmp_path, port=-1)


def test_a_file_that_is_no_text_or_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"[lab]\nport = 1 # \xff\n")
    with pytest.raises(InputError, match="not UTF-8 text"):
        resolve_lab_options(environ={"OWNLAB_CONFIG": str(tmp_path / "bytes.toml")})
    with pytest.raises(InputError, match="is a folder, not a file"):
        resolve_lab_options(environ={"OWNLAB_CONFIG": str(tmp_path)})


def test_the_preset_is_named_as_the_command_line_calls_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--limits must be one of"):
        resolve(tmp_path, preset="nope")
    assert resolve(tmp_path, preset="colab").origins["limits.preset"] == "--limits"
