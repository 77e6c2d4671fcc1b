"""The forms of a whole notebook, and its parameters."""

from __future__ import annotations

import copy
import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import UsageError
from ownlab.lab.forms.notebook_forms import find_forms
from ownlab.lab.forms.parameters import find_parameters, set_parameters

STEPS = 'steps = 10 #@param {type:"integer", min:1}'


def code(source: Any, **rest: Any) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, **rest}


def notebook_of(*cells: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def test_only_code_has_forms() -> None:
    notebook = notebook_of(
        {"cell_type": "markdown", "source": "#@title A", "metadata": {}},
        {"cell_type": "raw", "source": STEPS, "metadata": {}},
        code("#@title B", id="b"),
        code("1"),
        code(["#@title C\n", "x = 1 #@param"], metadata={"id": "colab's", "cellView": "form"}),
    )
    forms = find_forms(notebook)
    assert [
        (found_form.cell, found_form.id, found_form.form.title, found_form.form.hidden) for found_form in forms
    ] == [
        (2, "b", "B", False),
        (4, "colab's", "C", True),
    ]
    assert forms[1].form.fields[0].start == len("#@title C\nx = ")


@pytest.mark.parametrize("cells", [None, 1, {}, "#@title A"])
def test_a_notebook_without_cells(cells: Any) -> None:
    assert find_forms({"cells": cells}) == ()
    assert find_forms({}) == ()


def test_damaged_cells_are_skipped() -> None:
    damaged: list[Any] = [
        None,
        [],
        {},
        code(None),
        code(["x", 1]),
        code(7),
        {"cell_type": "code"},
        {"source": "#@title A"},
    ]
    forms = find_forms(notebook_of(*damaged, code("#@title B", metadata=None, id=5)))
    assert [(found_form.cell, found_form.id) for found_form in forms] == [(len(damaged), None)]


def test_parameters_come_by_name_in_the_order_of_their_first_places() -> None:
    notebook = notebook_of(code(f"b = 1 #@param\n{STEPS}"), code("a = 1 #@param\nb = 2 #@param", id="i"))
    assert [
        (parameter.name, [(place.cell, place.id) for place in parameter.locations])
        for parameter in find_parameters(notebook)
    ] == [
        ("b", [(0, None), (1, "i")]),
        ("steps", [(0, None)]),
        ("a", [(1, "i")]),
    ]


def filled(source: Any, **given: object) -> Any:
    notebook = notebook_of(code(source))
    set_parameters(notebook, given)
    return notebook["cells"][0]["source"]


def test_values_are_written_into_the_source() -> None:
    assert filled(f"# 😀\n{STEPS}\nprint(steps)", steps="25") == f"# 😀\n{STEPS.replace('10', '25')}\nprint(steps)"
    assert filled('a = 1 #@param\nb = "x" #@param {type:"string"}\n', b="it's", a="[1, 2]") == (
        'a = [1, 2] #@param\nb = "it\'s" #@param {type:"string"}\n'
    )
    assert filled("a = #@param {type:'string'}", a="") == "a = \"\"#@param {type:'string'}"


def test_lines_stay_lines() -> None:
    assert filled(["# 1\n", f"{STEPS}\n", "", "a = 1 #@param"], steps="25", a="2") == [
        "# 1\n", f"{STEPS.replace('10', '25')}\n", "", "a = 2 #@param",
    ]  # fmt: skip
    assert filled(["ste", "ps = 1", "0", "0 #@param"], steps="7") == ["ste", "ps = 7", "", " #@param"]


def test_a_name_in_several_cells_is_set_in_all() -> None:
    notebook = notebook_of(code("a = 1 #@param"), code("if b:\n  a = 2 #@param\nelse:\n  a = 3 #@param"))
    set_parameters(notebook, {"a": "9"})
    assert [cell["source"] for cell in notebook["cells"]] == [
        "a = 9 #@param",
        "if b:\n  a = 9 #@param\nelse:\n  a = 9 #@param",
    ]


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (5, '{type:"integer"}', "5"),
        (5.0, '{type:"integer"}', "5"),
        (2.5, '{type:"number"}', "2.5"),
        (Fraction(1, 4), '{type:"number"}', "0.25"),
        (True, '{type:"boolean"}', "True"),
        (0, '{type:"boolean"}', "False"),
        (5, '{type:"string"}', '"5"'),
        (Path("a/b"), '{type:"string"}', '"a/b"'),
        (datetime.date(2026, 1, 31), '{type:"date"}', '"2026-01-31"'),
        (datetime.datetime(2026, 1, 31, 12), '{type:"date"}', '"2026-01-31"'),
        ([1, "a", None], "", "[1, 'a', None]"),
        (None, "", "None"),
        (float("inf"), "", 'float("inf")'),
        ("abc", "", "abc"),
        (0.0001, '[1e-4, 1e-3] {type:"raw"}', "1e-4"),
        (2, '["1", "2"]', '"2"'),
        (False, '["True", "False"] {type:"raw"}', "False"),
    ],
)
def test_python_values(value: object, spec: str, text: str) -> None:
    assert filled(f"a = _ #@param {spec}", a=value) == f"a = {text} #@param {spec}"


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"steps": "20", "stesp": "1"}, "The notebook has no parameter stesp. Did you mean steps?", "--help"),
        ({"steps": "20", "zzz": "1"}, "The notebook has no parameter zzz.", "--help"),
        ({"b": "2", "steps": "0"}, "steps must be an integer from 1, not '0'.", ""),
        ({"b": "2", "steps": [1]}, "steps must be a whole number, not '[1]'.", ""),
        ({"steps": "20", "b": "x"}, "b must be a whole number, not 'x'.", ""),
    ],
)
def test_a_refused_value_changes_nothing(given: dict[str, object], message: str, hint: str) -> None:
    notebook = notebook_of(code(STEPS), code("b = 1 #@param"), code('b = 1 #@param {type:"integer"}'))
    before = copy.deepcopy(notebook)
    with pytest.raises(UsageError) as caught:
        set_parameters(notebook, given)
    assert caught.value.message == message
    assert hint in caught.value.hint
    assert notebook == before


def test_a_notebook_without_parameters_explains_how_to_add_one() -> None:
    with pytest.raises(UsageError, match="no parameters, so a cannot be set") as caught:
        set_parameters(notebook_of(code("a = 1")), {"a": "2"})
    assert "#@param" in caught.value.hint
