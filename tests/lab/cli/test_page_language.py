"""The language in which pages begin."""

from __future__ import annotations

import click
import pytest

from ownlab.cli.options import language_variables
from ownlab.config.settings import LabOptions
from ownlab.lab.cli.up import _Options, _page_language
from ownlab.lab.service.watchdog import Start
from ownlab.languages import LANGUAGE_OPTION

CHINESE = {"LANG": "zh_CN.UTF-8"}


@pytest.mark.parametrize(
    ("option", "setting", "environ", "expected"),
    [
        ("zh_CN", "en", {}, "zh_CN"),
        ("en", "zh_CN", CHINESE, "en"),
        ("", "zh_CN", {}, "zh_CN"),
        ("", "en", CHINESE, "en"),
        ("", "", CHINESE, "zh_CN"),
        ("", "", {"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, ""),
        ("", "", {"LANG": "fr_FR.UTF-8"}, ""),  # JupyterLab may speak French
        ("", "", {}, ""),
    ],
)
def test_the_option_then_the_setting_then_the_locale(
    option: str, setting: str, environ: dict[str, str], expected: str
) -> None:
    options = _Options("/lab", LabOptions(language=setting), environ, True, [], None)
    with click.Context(click.Command("up")) as context:
        if option:
            context.meta[LANGUAGE_OPTION] = option
        assert _page_language(options) == expected


def test_the_server_is_started_with_it() -> None:
    assert Start("/lab", 4001, "secret", {}, None, "zh_CN").arguments() == ("--port", "4001", "--language", "zh_CN")
    assert Start("/lab", 4001, "secret", {}).arguments() == ("--port", "4001")


def test_kernels_and_terminals_get_the_option() -> None:
    with click.Context(click.Command("up")) as context:
        assert language_variables() == {}
        context.meta[LANGUAGE_OPTION] = "zh_CN"
        assert language_variables() == {"OWNLAB_LANG": "zh_CN"}
