"""`ownlab form` as a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.command_line import Ownlab

Valid = Callable[[str, str], Any]

CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "metadata": {}, "source": "#@title not this one"},
    {
        "cell_type": "code", "id": "train", "metadata": {"cellView": "form"}, "outputs": [], "execution_count": None,
        "source": [
            "#@title ## Train\n", "#@markdown words\n", 'steps = 10 #@param {type:"integer", min:1, max:100}\n',
            "precision = 'fp16' #@param [\"fp16\", \"fp32\"] {allow-input: true}\n",
            'name = "😀" #@param {type:"string", placeholder:"a name"}',
        ],
    },
    {"cell_type": "code", "id": "hidden", "metadata": {"cellView": "form"}, "source": "1", "outputs": []},
    {"cell_type": "code", "metadata": {}, "source": "#@markdown alone", "outputs": []},
]  # fmt: skip


def save(path: Path, cells: object = CELLS, **rest: Any) -> str:
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **rest}))
    return str(path)


def test_terminal_output(ownlab: Ownlab, tmp_path: Path) -> None:
    path = save(tmp_path / "my notebook.ipynb")
    ran = ownlab("form", path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "Cell 2  Train  code hidden\n"
        "  steps      10  integer from 1 to 100\n"
        "  precision  'fp16'  one of fp16, fp32, or anything\n"
        '  name       "😀"  string\n'
        "\n"
        "Cell 4  (no title)\n"
        "\n"
        f"Set them for a run: ownlab run '{path}' -p NAME=VALUE\n"
    )


def test_json_output(ownlab: Ownlab, tmp_path: Path, valid: Valid) -> None:
    document = valid(ownlab("form", save(tmp_path / "a.ipynb"), "--json").stdout, "form")
    empty = {"choices": None, "allow_input": False, "min": None, "max": None, "step": None, "placeholder": None}
    steps = {**empty, "name": "steps", "type": "integer", "value": "10", "min": 1, "max": 100, "line": 2}
    precision = {**empty, "name": "precision", "type": "dropdown", "value": "'fp16'", "choices": ["fp16", "fp32"]}
    name = {**empty, "name": "name", "type": "string", "value": '"😀"', "placeholder": "a name", "line": 4}
    assert document == [
        {
            "cell": 1, "id": "train", "title": "## Train", "hidden": True,
            "fields": [steps, {**precision, "allow_input": True, "line": 3}, name],
        },
        {"cell": 3, "id": None, "title": None, "hidden": False, "fields": []},
    ]  # fmt: skip


def test_a_notebook_without_forms(ownlab: Ownlab, tmp_path: Path) -> None:
    path = save(tmp_path / "a.ipynb", CELLS[:1])
    ran = ownlab("form", path)
    assert ran.returncode == 0
    assert ran.stdout.startswith(f"No cell of {path} has a form.\n")
    assert "#@param" in ran.stdout
    assert json.loads(ownlab("form", path, "--json").stdout) == []


def test_lone_surrogates_and_control_characters_are_replaced(ownlab: Ownlab, tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": "#@title \ud83d\x1b[31m\nx = '\ud83d' #@param"}
    path = save(tmp_path / "a.ipynb", [cell])
    ran = ownlab("form", path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    (form,) = json.loads(ownlab("form", path, "--json").stdout)
    assert form["fields"][0]["value"] == "'\N{REPLACEMENT CHARACTER}'"


def test_a_notebook_in_an_old_format(ownlab: Ownlab, tmp_path: Path) -> None:
    cell = {"cell_type": "code", "input": "x = 1 #@param", "language": "python", "metadata": {}, "outputs": []}
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [cell]}]}))
    (form,) = json.loads(ownlab("form", str(path), "--json").stdout)
    assert [field["name"] for field in form["fields"]] == ["x"]


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "{}", '{"nbformat": 4, "cells": 5}', '{"nbformat": 99}'])
def test_an_invalid_notebook_is_refused(ownlab: Ownlab, tmp_path: Path, content: str | None, valid: Valid) -> None:
    path = tmp_path / "a.ipynb"
    if content is not None:
        path.write_text(content)
    ran = ownlab("form", str(path), "--json")
    assert ran.returncode == 3
    assert valid(ran.stdout, "error")["error"]["kind"] == "InputError"
    assert str(path) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_wrong_usage_is_refused(ownlab: Ownlab) -> None:
    assert ownlab("form").returncode == 2
    assert "-p NAME=VALUE" in ownlab("form", "--help").stdout
