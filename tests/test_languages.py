"""Which language a command speaks, and what it then says."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from translations.catalogues import read_catalogue
from translations.extraction import extract

from ownlab.cli.main import cli
from ownlab.languages import choose_language, command_language, known_language, translations


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zh_CN.UTF-8", "zh_CN"),
        ("zh-Hans", "zh_CN"),
        ("zh-Hans-SG", "zh_CN"),
        ("ZH", "zh_CN"),
        ("en_GB.UTF-8", "en"),
        ("C.UTF-8", "en"),
        ("zh_TW.UTF-8", None),
        ("zh-Hant", None),
        ("de_DE@euro", None),
        ("", None),
    ],
)
def test_names_of_languages(name: str, expected: str | None) -> None:
    assert known_language(name) == expected


@pytest.mark.parametrize(
    ("environ", "setting", "expected"),
    [
        ({}, "", "en"),
        ({"LANG": "zh_CN.UTF-8"}, "", "zh_CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "", "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "", "en"),
        ({"LANGUAGE": "de:zh_CN", "LANG": "de_DE.UTF-8"}, "", "zh_CN"),
        ({"LANGUAGE": "zh_CN", "LANG": "C.UTF-8"}, "", "en"),
        ({"LANGUAGE": "zh_CN", "LANG": "en_US.UTF-8"}, "", "zh_CN"),
        ({"LANG": "en_US.UTF-8"}, "zh_CN", "zh_CN"),
        ({"LANG": "en_US.UTF-8", "OWNLAB_LANG": "en"}, "zh_CN", "en"),
        ({"OWNLAB_LANG": "tlh", "LANG": "zh_CN"}, "", "zh_CN"),
        ({"LANG": "fr_FR.UTF-8"}, "", "en"),
    ],
)
def test_precedence(environ: dict[str, str], setting: str, expected: str) -> None:
    assert choose_language(environ, setting=setting) == expected


def test_an_option_before_the_command_wins_and_one_behind_it_is_the_commands(tmp_path: Path) -> None:
    environ = {"OWNLAB_LANG": "en", "HOME": str(tmp_path)}
    assert command_language(["--lang", "zh_CN", "doctor"], environ) == "zh_CN"
    assert command_language(["--lang=zh", "doctor"], environ) == "zh_CN"
    assert command_language(["run", "train.py", "--lang", "zh_CN"], environ) == "en"


def test_a_json_document_is_english_unless_the_option_asks_for_another_language(tmp_path: Path) -> None:
    environ = {"LANG": "zh_CN.UTF-8", "HOME": str(tmp_path)}
    assert command_language(["doctor", "--json"], environ) == "en"
    assert command_language(["--lang", "zh_CN", "doctor", "--json"], environ) == "zh_CN"


def test_the_setting_is_read_from_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[interface]\nlanguage = "zh_CN"\n')
    assert command_language(["doctor"], {"OWNLAB_CONFIG": str(config)}) == "zh_CN"
    config.write_text("[interface\n")  # damaged: what reads all settings reports it
    assert command_language(["doctor"], {"OWNLAB_CONFIG": str(config)}) == "en"


def test_the_pseudo_language_marks_sentences_but_not_what_only_arranges_values() -> None:
    translate = translations("qps")
    assert translate is not None
    assert translate("The driver {version} is old.") == "⟦Ťhé đrîvér {version} îš ölđ.⟧"
    assert translate("{s0}, {s1:,}") == "{s0}, {s1:,}"
    assert translate("\b\nownlab up") == "\b\n⟦öwñlåb ûp⟧"
    assert translations("en") is None


def ownlab(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "OWNLAB_LANG"))}
    return subprocess.run(
        [sys.executable, "-m", "ownlab", *arguments],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_unknown_language_is_refused() -> None:
    refused = ownlab("--lang", "tlh", "gpus")
    assert refused.returncode == 2
    assert "Unknown language 'tlh'. Choose en or zh_CN." in refused.stderr


CHINESE = re.compile("[\u4e00-\u9fff]")
needs_catalogues = pytest.mark.skipif(
    not read_catalogue("zh_CN", "ownlab").get("Commands"), reason="the Chinese catalogues are not filled in"
)
MACHINE = str(Path(__file__).parent / "machines" / "v100-driver418.json")


@needs_catalogues
@pytest.mark.parametrize(
    "command", ["--help", "fit --help", "data pack --help", "gpus advise --help", "clouds cost --help"]
)
def test_help_is_chinese(command: str) -> None:
    shown = ownlab(*command.split(), LANG="zh_CN.UTF-8").stdout
    assert shown.startswith("用法：")
    sentences = [line for line in shown.splitlines() if re.search(r"[a-z]{3,} [a-z]{2,} [a-z]{2,}", line)]
    # What is left of Latin words in a row is code.
    assert [line for line in sentences if not CHINESE.search(line) and "ownlab " not in line] == []


@needs_catalogues
def test_errors_are_chinese() -> None:
    unknown = ownlab("fitt", OWNLAB_LANG="zh_CN")
    assert unknown.returncode == 2
    assert "未知命令" in unknown.stderr
    assert "ownlab fit" in unknown.stderr
    missing = ownlab("run", "missing.ipynb", OWNLAB_LANG="zh_CN")
    assert CHINESE.search(missing.stderr)


@needs_catalogues
def test_texts_in_json_follow_the_option_alone() -> None:
    arguments = ("doctor", "--json", "--machine", MACHINE)
    english = json.loads(ownlab(*arguments, OWNLAB_LANG="zh_CN").stdout)
    chinese = json.loads(ownlab("--lang", "zh_CN", *arguments).stdout)
    assert not CHINESE.search(json.dumps(english, ensure_ascii=False))
    assert CHINESE.search(chinese["verdict"]["sentence"])
    for ours, theirs in zip(english["findings"], chinese["findings"], strict=True):
        assert (ours["code"], ours["severity"], ours.keys()) == (theirs["code"], theirs["severity"], theirs.keys())
        assert CHINESE.search(theirs["title"])
        assert CHINESE.search(theirs["meaning"])


@needs_catalogues
def test_an_error_in_json_follows_the_option_alone() -> None:
    refused = ownlab("run", "missing.ipynb", "--json", OWNLAB_LANG="zh_CN")
    assert json.loads(refused.stdout)["error"]["message"] == "There is no notebook missing.ipynb."
    refused = ownlab("--lang", "zh_CN", "run", "missing.ipynb", "--json")
    assert CHINESE.search(json.loads(refused.stdout)["error"]["message"])


@needs_catalogues
def test_pages_are_chinese_by_paragraphs() -> None:
    page = json.loads(ownlab("--lang", "zh_CN", "doctor", "--explain", "driver-old", "--json").stdout)
    assert page["severity"] == "error"
    assert all(CHINESE.search(paragraph) for paragraph in page["page"].split("\n\n"))


def test_the_same_findings_in_both_languages() -> None:
    """Rules recognise messages by their words, so no sentence of ours may stand between them and a message."""
    paste = Path(__file__).parent / "pastes" / "errors" / "fwd-804-gtx1650.txt"
    codes = [
        [
            finding["code"]
            for finding in json.loads(ownlab("--lang", language, "doctor", "--json", "--from", str(paste)).stdout)[
                "findings"
            ]
        ]
        for language in ("en", "zh_CN")
    ]
    assert codes[0] == codes[1] != []


def test_the_help_of_every_command_is_in_the_catalogues() -> None:
    known = {message.template for message in extract()}

    def missing(command: click.Command, name: str) -> Iterator[str]:
        words = [
            command.help,
            command.epilog,
            *(each.help for each in command.params if isinstance(each, click.Option)),
        ]
        for paragraph in (part for word in words if word for part in inspect.cleandoc(word).split("\n\n")):
            if paragraph not in known:
                yield f"{name}: {paragraph}"
        if isinstance(command, click.Group):
            context = click.Context(command)
            for each in command.list_commands(context):
                below = command.get_command(context, each)
                assert below is not None
                yield from missing(below, f"{name} {each}")

    assert list(missing(cli, "ownlab")) == []


READ = """
import sys
read = []
sys.addaudithook(lambda event, given: read.append(str(given[0])) if event == "open" and str(given[0]).endswith(".mo") else None)
from ownlab.cli.entry_point import main
sys.argv = ["ownlab", *sys.argv[1:]]
try:
    main()
finally:
    print(len(read), *read, file=sys.stderr)
"""


@pytest.mark.parametrize(("language", "catalogues"), [("en", 0), ("zh_CN", 1)])
def test_english_reads_no_catalogue_and_chinese_only_what_it_needs(language: str, catalogues: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", READ, "gpus", "4090"],
        env={**os.environ, "OWNLAB_LANG": language},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len([path for path in ran.stderr.split()[1:] if "/ownlab/locale/" in path]) == catalogues
