"""Sixty beginner's questions, worked out by hand by somebody who had not seen the code (README.md), asked as a user would.

Commands run in this process; a server that has imported torch stands in for the Python with torch, since an import takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.questions.checks import CHECKS, DISPUTED, MISSED, RATIOS, Place, speed

from ownlab.cli.main import cli
from ownlab.errors import OwnlabError

HERE = Path(__file__).parent
HELD = json.loads((HERE / "held.json").read_text())
QUESTIONS: dict[str, dict[str, Any]] = {question["id"]: question for question in HELD["questions"]}
_UNITS = {"MiB": 1 / 1024, "GiB": 1, "M": 1e6}

Answering = Callable[[str], str]


@pytest.fixture(scope="module")
def warm_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of a program that runs Python programs as the interpreter with torch does, without its start."""
    python = HERE.parents[1] / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    folder = tmp_path_factory.mktemp("warm")
    program, address = folder / "python", folder / "socket"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{HERE / "warm_torch.py"}" ask "{address}" "$@"\n')
    program.chmod(0o755)
    with subprocess.Popen(
        [str(python), str(HERE / "warm_torch.py"), "serve", str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield str(program)
        server.stdin.close()  # it ends itself


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands read."""
    made = tmp_path_factory.mktemp("questions")
    for name, content in HELD["inputs"].items():
        (made / name).write_text(content)
    return made


@pytest.fixture(scope="module")
def answering(folder: Path, request: pytest.FixtureRequest) -> Answering:
    """Run a command once, and return what it prints."""
    known: dict[str, str] = {}

    def answer(command: str) -> str:
        if command not in known:
            if "TORCH" in command:
                command_line = command.replace("TORCH", request.getfixturevalue("warm_torch"))
            else:
                command_line = command
            with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()) as printed:
                patched.chdir(folder)
                try:
                    cli.main(args=shlex.split(command_line)[1:], prog_name="ownlab", standalone_mode=False)
                except OwnlabError as exc:
                    printed.write(str(exc))
            known[command] = printed.getvalue()
        return known[command]

    return answer


def figure(text: str, pattern: str) -> float:
    """The figure that a pattern finds, in GiB or as it stands."""
    found = re.search(pattern, text)
    assert found is not None, f"{pattern!r} is not in:\n{text}"
    number, _, unit = found[1].replace(",", "").partition(" ")
    unit = found[2] if len(found.groups()) > 1 else unit
    return float(number) * _UNITS.get(unit, 1)


def test_every_figure_of_the_questions_is_looked_for() -> None:
    assert list(CHECKS) == list(QUESTIONS)
    for name, question in QUESTIONS.items():
        asked = {each["what"] for each in question["numbers"]}
        assert set(CHECKS[name].figures) | CHECKS[name].without == asked, name
    assert all(what in CHECKS[name].without for name, what in RATIOS)
    assert sum(len(checks.without) for checks in CHECKS.values()) - len(RATIOS) <= 13


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", list(CHECKS))
def test_a_question(name: str, answering: Answering, request: pytest.FixtureRequest) -> None:
    if name in MISSED:
        request.applymarker(pytest.mark.xfail(reason=MISSED[name], strict=False))
    question, checks = QUESTIONS[name], CHECKS[name]
    commands = [*question["commands"], *checks.further]

    def text_of(place: Place) -> str:
        return answering(commands[place[0]])

    for each in question["numbers"]:
        what, low, high = each["what"], each["low"], each["high"]
        if (name, what) in DISPUTED:
            low, high, _ = DISPUTED[name, what]
        if what in checks.figures:
            assert low <= figure(text_of(checks.figures[what]), checks.figures[what][1]) <= high, what
        elif (name, what) in RATIOS:
            number, card, other = RATIOS[name, what]
            ladder = text_of((number, ""))
            assert low <= figure(ladder, speed(card)) / figure(ladder, speed(other)) <= high, what
    for place in checks.says:
        assert re.search(place[1], text_of(place)), f"{place[1]!r} is not in:\n{text_of(place)}"
    for place in checks.never:
        assert not re.search(place[1], text_of(place)), f"{place[1]!r} is in:\n{text_of(place)}"
