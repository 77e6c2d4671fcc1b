"""Commands in Chinese: what they print is Chinese, and what they write into files is English."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.lab.cli.test_run import write

if TYPE_CHECKING:
    from tests.command_line import World

CHINESE = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]+")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")


@pytest.fixture
def chinese(world: World) -> World:
    world.env["OWNLAB_LANG"] = "zh_CN"
    return world


def chinese_in_files(folder: Path) -> dict[str, list[str]]:
    """The Chinese words in each file, also where JSON has escaped them."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content = _ESCAPED.sub(
                lambda match: chr(int(match[1], 16)), path.read_bytes().decode("utf-8", errors="ignore")
            )
            # Random bytes of a database are sometimes one character of Chinese.
            words = [word for word in CHINESE.findall(content) if len(word) > 2]
            if words:
                found[str(path.relative_to(folder))] = words
    return found


def test_a_failed_run_is_reported_in_chinese_and_recorded_in_english(chinese: World) -> None:
    failing = write(chinese.folder, "fails.ipynb", "print(1)", "1/0")
    dying = write(chinese.folder, "dies.ipynb", "import os", "os.kill(os.getpid(), 9)")
    ran = chinese.run("run", str(failing), "-t", "cpu")
    assert ran.returncode == 1
    assert "失败" in ran.stderr
    died = chinese.run("run", str(dying), "-t", "cpu")
    assert CHINESE.search(died.stderr)
    assert "The cell ended its own kernel" in (chinese.folder / "dies-run.ipynb").read_text()
    swept = chinese.run("run", str(failing), "-t", "cpu", "--sweep", "x=1,2")
    assert CHINESE.search(swept.stdout + swept.stderr)
    assert chinese_in_files(chinese.root) == {}


def test_a_run_in_the_background_starts_in_chinese_and_logs_in_english(chinese: World) -> None:
    notebook = write(chinese.folder, "fails.ipynb", "1/0")
    started = chinese.run("run", str(notebook), "-t", "cpu", "--detach")
    assert started.returncode == 0
    assert CHINESE.search(started.stdout)
    chinese.until(lambda: any("ZeroDivisionError" in path.read_text() for path in chinese.root.rglob("run.log")))
    chinese.until(lambda: (chinese.folder / "fails-run.ipynb").exists())
    assert chinese_in_files(chinese.root) == {}


def test_an_error_before_the_background_is_in_the_language_of_the_terminal(chinese: World) -> None:
    notebook = write(chinese.folder, "fine.ipynb", "1")
    refused = chinese.run("run", str(notebook), "-t", "no-such-type", "--detach")
    assert refused.returncode != 0
    assert CHINESE.search(refused.stderr)


def test_a_written_configuration_is_english_and_data_sets_are(chinese: World) -> None:
    assert CHINESE.search(chinese.run("config", "--init").stdout)
    photos = chinese.root / "photos"
    photos.mkdir()
    for number in range(4):
        (photos / f"{number}.txt").write_text(str(number))
    packed = chinese.run("data", "pack", str(photos), "-o", str(chinese.root / "packed"))
    assert packed.returncode == 0, packed.stderr
    assert CHINESE.search(packed.stdout + packed.stderr)
    staged = chinese.run("data", "stage", str(photos), env={"XDG_CACHE_HOME": str(chinese.root / "cache")})
    assert staged.returncode == 0, staged.stderr
    assert chinese_in_files(chinese.root) == {}


def test_json_is_english_unless_lang_is_given(chinese: World) -> None:
    notebook = write(chinese.folder, "fails.ipynb", "1/0")
    english = json.loads(chinese.run("run", str(notebook), "-t", "cpu", "--json").stdout)
    translated = json.loads(chinese.run("--lang", "zh_CN", "run", str(notebook), "-t", "cpu", "--json").stdout)
    assert english["status"] == translated["status"] == "failed"
    assert not CHINESE.search(english["reason"])


SPEAKING = """
import os, ownlab
for call in (lambda: ownlab.on_end(3), lambda: ownlab.data.open("missing")):
    try:
        call()
    except (TypeError, ValueError) as exc:
        print(exc)
print(os.environ["OWNLAB_LANG"])
"""


@pytest.mark.parametrize("way", ["option", "setting", "locale"])
def test_functions_in_a_kernel_speak_the_language_of_the_command(world: World, way: str) -> None:
    notebook = write(world.folder, "speaks.ipynb", SPEAKING)
    command, environ = ["run", str(notebook), "-t", "cpu"], {"LC_ALL": "C.UTF-8"}
    if way == "option":
        command, environ = ["--lang", "zh_CN", *command], {"OWNLAB_LANG": "en"}
    elif way == "setting":
        Path(world.env["OWNLAB_CONFIG"]).write_text('[interface]\nlanguage = "zh_CN"\n')
    else:
        environ = {"LC_ALL": "zh_CN.UTF-8"}
    ran = world.run(*command, env=environ)
    first, second, language = ran.stdout.splitlines()[:3]
    assert (first, language) == ("on_end 接受函数，不能是 3", "zh_CN")
    assert CHINESE.search(second)
