"""Properties of every cell: nothing raises, untouched fields stay unchanged, written values read back."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from ownlab.errors import UsageError
from ownlab.lab.forms.field_values import displayed_value, to_source
from ownlab.lab.forms.grammar import Field, Form, parse_form
from ownlab.lab.forms.parameters import find_parameters, set_parameters

# No timing is asserted, and nothing is kept between runs.
often = settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])

# Pieces that mean something to the parser, so that random text is not always rubbish.
PIECES = [
    "x = ", "y: int = ", "#@param ", "# @title ", "#@markdown ", "{", "}", "[", "]", "(", ")", '"', "'", '"""', "'''", "`",
    "\\", "\\\n", "\n", "\r\n", "\r", "\f", "\x85", "\u2028", "\ufeff", "\ud800", "😀", ";", "=", "==", ":=", ",", ":", "#",
    "f\"{", "r'", "%%time\n", "%%bash\n", "!ls ", "%cd ", "if a:\n    ", "lambda a=1: ", "1", "abc", "type", "string", "slider",
    "min", "1e999", "allow-input", "true", "display-mode", "form", " ", "\t",
]  # fmt: skip
rubbish = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join) | st.text(
    st.characters(exclude_categories=()), max_size=60
)

values = st.sampled_from(
    ["1", "-2.5", "True", '"a"', "'it\\'s'", '"#@param"', "None", "[1, 'a;b']", 'f"{x["#"]}"', "(1,)", "lambda a=1: a", "", "q.z(a=1)",
     'r"C:\\new"', '"""a"""', '"😀"', "x == 1"]
)  # fmt: skip
specs = st.sampled_from(
    ["", '{type:"string"}', '{type: "raw"}', '{type:"number"}', '{type:"integer", min:-5, max:50}', '{type:"boolean"}',
     '{type:"slider", min:0, max:10, step:0.5}', '{type:"date"}', '["a", "it\'s", "c d"]', '[1, 2]{type:"raw"}', "[1, 2]",
     '["a"] {allow-input: true}', '{type:"string", placeholder:"x"} # words', "[1, 2, 'None'] {type:'raw', 'allow-input': true}"]
)  # fmt: skip
others = st.sampled_from(
    ["#@title T { run: 'auto' }", "#@markdown **b** 😀", "print('x = 1 #@param')", "# z = 1 #@param", "", "s = '''\na = 1 #@param\n'''",
     "!echo '", "d = {\n  'a': 1,\n}", "if True:\n    pass", "x = 1 + \\\n  2"]
)  # fmt: skip


@st.composite
def field_lines(draw: st.DrawFn) -> str:
    name, gap = draw(st.sampled_from(["x", "steps", "größe", "_a1"])), draw(st.sampled_from(["", " ", "  ", "\t"]))
    indent = draw(st.sampled_from(["", "    ", "\t"]))
    return f"{indent}{name}{gap}={gap}{draw(values)}{gap}#{gap}@param {draw(specs)}"


sources = st.lists(field_lines() | others, min_size=1, max_size=8).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)
typed = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    [
        "1",
        "2.5",
        "7",
        "True",
        "no",
        "2026-01-31",
        "a",
        "it's",
        "None",
        "[1, 2]",
        "'a # b'",
        "x = 1",
        "1 # 2",
        '"',
        "#@param",
        "\\",
    ]
)


def fields_of(source: str) -> tuple[Field, ...]:
    form = parse_form(source)
    return form.fields if form else ()


def written(source: str, field: Field, text: str) -> str:
    return source[: field.start] + text + source[field.end :]


def without_values(form: Form | None) -> Any:
    """Everything that does not move when a value changes."""
    assert form is not None
    parts = [
        structs.replace(part, value="", start=0, end=0, value_type="raw") if isinstance(part, Field) else part
        for part in form.parts
    ]
    return structs.replace(form, parts=tuple(parts))


@often
@given(rubbish)
def test_unusual_text_is_survived(source: str) -> None:
    for field in fields_of(source):
        assert source[field.start : field.end] == field.value
        assert field.value == field.value.strip()
        assert "\n" not in field.value
        assert "\r" not in field.value


@often
@given(rubbish | sources)
def test_an_untouched_field_changes_nothing(source: str) -> None:
    for field in fields_of(source):
        if field.value:
            assert to_source(field, displayed_value(field)) == field.value


@often
@given(sources, typed, st.data())
def test_a_changed_field_changes_only_its_own_value(source: str, given_text: str, data: st.DataObject) -> None:
    fields = fields_of(source)
    assume(fields)
    place = data.draw(st.integers(0, len(fields) - 1))
    field = fields[place]
    try:
        text = to_source(field, given_text)
    except UsageError:
        return
    changed = written(source, field, text)
    again = fields_of(changed)
    assert without_values(parse_form(changed)) == without_values(parse_form(source))
    assert [each.value for each in again] == [text if each is field else each.value for each in fields]
    moved = len(text) - len(field.value)
    assert [each.start for each in again] == [
        each.start + (moved if each.start > field.start else 0) for each in fields
    ]


@often
@given(sources, typed)
def test_a_written_value_reads_back(source: str, given_text: str) -> None:
    for field in fields_of(source):
        try:
            text = to_source(field, given_text)
        except UsageError:
            continue
        (again,) = [each for each in fields_of(written(source, field, text)) if each.start == field.start]
        assert again.value == text
        if field.type in ("string", "date"):
            assert displayed_value(again) == given_text
        assert to_source(again, displayed_value(again)) == text


@often
@given(st.lists(sources, min_size=1, max_size=3), st.booleans(), st.data())
def test_parameters_are_set_only_in_their_fields(cells: list[str], as_lines: bool, data: st.DataObject) -> None:
    def source(text: str) -> str | list[str]:
        return text.splitlines(keepends=True) if as_lines else text

    notebook: dict[str, Any] = {
        "cells": [{"cell_type": "code", "metadata": {}, "source": source(text)} for text in cells]
    }
    before = copy.deepcopy(notebook)
    same = {
        parameter.name: displayed_value(parameter.locations[0].field)
        for parameter in find_parameters(notebook)
        if len(parameter.locations) == 1
    }
    set_parameters(notebook, {name: value for name, value in same.items() if value})
    assert notebook == before
    names = [parameter.name for parameter in find_parameters(notebook)]
    wanted = {name: data.draw(typed) for name in names}
    try:
        set_parameters(notebook, wanted)
    except UsageError:
        assert notebook == before
        return
    for old, new in zip(before["cells"], notebook["cells"], strict=True):
        assert type(old["source"]) is type(new["source"])
    assert [[place.cell for place in parameter.locations] for parameter in find_parameters(notebook)] == [
        [place.cell for place in parameter.locations] for parameter in find_parameters(before)
    ]
