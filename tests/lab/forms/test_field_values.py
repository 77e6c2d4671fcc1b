"""Displayed and written values of fields. tests/golden/forms/values.json is this table for the page's tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import UsageError
from ownlab.json_encoding import to_builtins
from ownlab.lab.forms.field_values import closest_match, describe_type, displayed_value, to_source
from ownlab.lab.forms.grammar import Field, parse_form

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "forms" / "values.json"

STRING, RAW, NUMBER = '{type:"string"}', '{type:"raw"}', '{type:"number"}'
WHOLE, TRUTH, DAY = '{type:"integer"}', '{type:"boolean"}', '{type:"date"}'
SLIDER, LETTERS = '{type:"slider", min:-1, max:1, step:0.1}', '["a", "b c", "it\'s"]'

# The value in the source, the annotation, the displayed value; an entered value, and the written source (None: refused).
ROWS: list[tuple[str, str, str, str, str | None]] = [
    ('"a"', STRING, "a", "b", '"b"'),
    ("'a'", STRING, "a", "b", "'b'"),
    ("'a'", STRING, "a", "it's", r"'it\'s'"),
    ('"a"', STRING, "a", "it's", '"it\'s"'),
    ('"a"', STRING, "a", 'say "x"', r'"say \"x\""'),
    ("'a'", STRING, "a", 'say "x"', "'say \"x\"'"),
    ('"a"', STRING, "a", "", '""'),
    ('"a"', STRING, "a", " a ", '" a "'),
    ('"a"', STRING, "a", r"C:\new", r'"C:\\new"'),
    ('"a"', STRING, "a", '\\"', r'"\\\""'),
    ('"a"', STRING, "a", "\\", r'"\\"'),
    ('"a"', STRING, "a", "1\n2\t3\r4\0\x7f", r'"1\n2\t3\r4\x00\x7f"'),
    ('"a"', STRING, "a", "ä😀\u4e2d", '"ä😀\u4e2d"'),
    ('"a"', STRING, "a", "\xa0\u200b\u2028\U000e0001", r'"\xa0\u200b\u2028\U000e0001"'),
    ('"a"', STRING, "a", "# @param {x}", '"# @param {x}"'),
    ('"a"', STRING, "a", "None", '"None"'),
    ('""', STRING, "", "a", '"a"'),
    ("", STRING, "", "a", '"a"'),
    ('"""a"""', STRING, "a", "b", '"b"'),
    ("'''it's'''", STRING, "it's", "b", '"b"'),
    (r'r"C:\new"', STRING, r"C:\new", r"C:\old", r'"C:\\old"'),
    ("u'a'", STRING, "a", "b", '"b"'),
    ('"a" "b"', STRING, "ab", "c", '"c"'),
    ("\"a\"'b' r'\\c'", STRING, r"ab\c", "c", '"c"'),
    (r'"\x41\u0042\U00000043\104\n\t\\\"\d"', STRING, 'ABCD\n\t\\"\\d', "c", '"c"'),
    (r'"\N{BULLET}"', STRING, r'"\N{BULLET}"', "c", '"c"'),
    (r'"\x4"', STRING, r'"\x4"', "c", '"c"'),
    ('f"{a}"', STRING, 'f"{a}"', "c", '"c"'),
    ('b"a"', STRING, 'b"a"', "c", '"c"'),
    ('"a" + b', STRING, '"a" + b', "c", '"c"'),
    ("None", STRING, "None", "c", '"c"'),
    ("os.getcwd()", STRING, "os.getcwd()", "c", '"c"'),
    ("None", RAW, "None", " [1, 2] ", "[1, 2]"),
    ("None", RAW, "None", "'a # b'", "'a # b'"),
    ("None", RAW, "None", "lambda a=1: a", "lambda a=1: a"),
    ("None", RAW, "None", "1, 2", "1, 2"),
    ("None", RAW, "None", "x if y else -z", "x if y else -z"),
    ("None", RAW, "None", "", None),
    ("None", RAW, "None", "[1, 2", None),
    ("None", RAW, "None", "'a", None),
    ("None", RAW, "None", "1 # b", None),
    ("None", RAW, "None", "1; x", None),
    ("None", RAW, "None", "1\n", "1"),
    ("None", RAW, "None", "1 +\n1", None),
    ("None", RAW, "None", "two words", None),
    ("None", RAW, "None", "a = 1", None),
    ('"a"', "", '"a"', '"b"', '"b"'),
    ('"a"', "", '"a"', "None", "None"),
    ("1", NUMBER, "1", "2.50", "2.50"),
    ("1", NUMBER, "1", "-1e-3", "-1e-3"),
    ("1", NUMBER, "1", " 10 ", "10"),
    ("1", NUMBER, "1", ".5", ".5"),
    ("1", NUMBER, "1", "1_000", "1_000"),
    ("1", NUMBER, "1", "0x1f", "0x1f"),
    ("1", NUMBER, "1", "", None),
    ("1", NUMBER, "1", "1e999", None),
    ("1", NUMBER, "1", "inf", None),
    ("1", NUMBER, "1", "nan", None),
    ("1", NUMBER, "1", "ten", None),
    ("1", NUMBER, "1", "007", None),
    ("1", NUMBER, "1", "True", None),
    ("1", NUMBER, "1", "1 2", None),
    ("1", NUMBER, "1", "١", None),
    ("(1, 2)", NUMBER, "(1, 2)", "3", "3"),
    ("final_frame", NUMBER, "final_frame", "3", "3"),
    ("1", '{type:"number", min:0, max:2}', "1", "2", "2"),
    ("1", '{type:"number", min:0, max:2}', "1", "2.01", None),
    ("1", '{type:"number", min:0}', "1", "-1", None),
    ("1", WHOLE, "1", "12", "12"),
    ("1", WHOLE, "1", "-3", "-3"),
    ("1", WHOLE, "1", "12.0", "12"),
    ("1", WHOLE, "1", "1e3", "1000"),
    ("1", WHOLE, "1", "1e22", "10000000000000000000000"),
    ("1", WHOLE, "1", "123456789012345678901234567890", "123456789012345678901234567890"),
    ("1", WHOLE, "1", "1.5", None),
    ("1", WHOLE, "1", "one", None),
    ("0", SLIDER, "0", "0.35", "0.35"),
    ("0", SLIDER, "0", "-1", "-1"),
    ("0", SLIDER, "0", "1.1", None),
    ("True", TRUTH, "True", "False", "False"),
    ("True", TRUTH, "True", "false", "False"),
    ("False", TRUTH, "False", "Yes", "True"),
    ("False", TRUTH, "False", " on ", "True"),
    ("False", TRUTH, "False", "1", "True"),
    ("True", TRUTH, "True", "0", "False"),
    ("True", TRUTH, "True", "maybe", None),
    ("True", TRUTH, "True", "", None),
    ('"2018-03-22"', DAY, "2018-03-22", "2024-02-29", '"2024-02-29"'),
    ("'2018-03-22'", DAY, "2018-03-22", "2026-12-31", "'2026-12-31'"),
    ("today()", DAY, "today()", "2026-12-31", '"2026-12-31"'),
    ('"2018-03-22"', DAY, "2018-03-22", "2023-02-29", None),
    ('"2018-03-22"', DAY, "2018-03-22", "2023-13-01", None),
    ('"2018-03-22"', DAY, "2018-03-22", "20231201", None),
    ('"2018-03-22"', DAY, "2018-03-22", "0000-01-01", None),
    ('"2018-03-22"', DAY, "2018-03-22", "", None),
    ('"a"', LETTERS, "a", "b c", '"b c"'),
    ("'a'", LETTERS, "a", "it's", r"'it\'s'"),
    ('"a"', LETTERS, "a", "B C", None),
    ('"z"', LETTERS, "z", "a", '"a"'),
    ('"a"', LETTERS + "{allow-input: true}", "a", "anything", '"anything"'),
    ("1", '[1, 2, "None"] {type:"raw"}', "1", "None", "None"),
    ("1", '[1, 2, "None"] {type:"raw"}', "1", "3", None),
    ("1", '[1, 2] {type:"raw", allow-input: true}', "1", "3 * x", "3 * x"),
    ("1", '[1, 2] {type:"raw", allow-input: true}', "1", "3 *", None),
    ("224", "[224, 448]", "224", "448", "448"),
    ('"4"', "[1, 2, 4]", "4", "2", '"2"'),
    ("1", '["1", "2"] {type:"number"}', "1", "2", "2"),
    ("True", '["False", "True"] {type:"raw"}', "True", "False", "False"),
    ("True", '["False", "True"] {type:"boolean"}', "True", "False", "False"),
]


def field_of(value: str, spec: str) -> Field:
    form = parse_form(f"x = {value} #@param {spec}")
    assert form is not None
    (field,) = form.fields
    assert field.value == value
    return field


def written(field: Field, given: str) -> str | None:
    try:
        return to_source(field, given)
    except UsageError:
        return None


@pytest.mark.parametrize(("value", "spec", "seen", "given", "text"), ROWS)
def test_a_row(value: str, spec: str, seen: str, given: str, text: str | None) -> None:
    field = field_of(value, spec)
    assert displayed_value(field) == seen
    assert written(field, given) == text


def test_generated_table_for_the_page() -> None:
    rows = []
    for value, spec, seen, given, text in ROWS:
        field: dict[str, Any] = to_builtins(field_of(value, spec))
        rows.append({"field": field, "shown": seen, "given": given, "text": text})
    table = "[\n" + ",\n".join(f" {json.dumps(row)}" for row in rows) + "\n]\n"
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(table)
    assert GOLDEN.read_text() == table


@pytest.mark.parametrize(("value", "spec", "seen"), sorted({row[:3] for row in ROWS if row[0]}))
def test_entering_the_displayed_value_keeps_the_source(value: str, spec: str, seen: str) -> None:
    assert to_source(field_of(value, spec), seen) == value


def test_invalid_python_is_refused_on_the_command_line() -> None:
    for given in ("1 if", "f(a b)", "a : b", "*", "x := 1", "(" * 1000, "-" * 100_000 + "1", "\0", "yield"):
        assert written(field_of("None", RAW), given) is None
    assert written(field_of("None", RAW), r"'\d'") == r"'\d'"  # Python would warn of it


def test_half_a_character_is_written_as_an_escape() -> None:
    assert to_source(field_of('"a"', STRING), "\ud83d") == r'"\ud83d"'
    assert displayed_value(field_of(r'"\ud83d"', STRING)) == "\ud83d"


def test_refusals_name_the_accepted_values() -> None:
    def error_of(value: str, spec: str, given: str) -> str:
        with pytest.raises(UsageError) as caught:
            to_source(field_of(value, spec), given)
        return caught.value.message

    assert error_of('"a"', '["fp16", "fp32"]', "fp1") == "x must be one of fp16, fp32; not 'fp1'. Did you mean fp16?"
    assert error_of('"a"', '["fp16", "fp32"]', "none") == "x must be one of fp16, fp32; not 'none'."
    assert error_of("1", '{type:"integer", min:1, max:10}', "11") == "x must be an integer from 1 to 10, not '11'."
    assert error_of("1", WHOLE, "1.5") == "x must be a whole number, not '1.5'."
    assert error_of("0", SLIDER, "7") == "x must be a number from -1 to 1 in steps of 0.1, not '7'."
    assert error_of("0", TRUTH, "maybe") == "x must be True or False, not 'maybe'."
    assert error_of('""', DAY, "tomorrow") == "x must be a date such as 2026-01-31, not 'tomorrow'."
    assert error_of("0", RAW, "a b") == "x must be one line of Python, such as 10, None or [1, 2]; not 'a b'."


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("", "Python"),
        (STRING, "string"),
        (WHOLE, "integer"),
        ('{type:"integer", min:1}', "integer from 1"),
        ('{type:"number", max:0.5}', "number up to 0.5"),
        ('{type:"slider", min:0, max:1234567, step:1}', "number from 0 to 1234567"),
        ('["a", "b"]', "one of a, b"),
        ('["a", "b"]{allow-input: true}', "one of a, b, or anything"),
    ],
)
def test_types_are_described(spec: str, words: str) -> None:
    assert describe_type(field_of("1", spec)) == words


def test_the_closest_name() -> None:
    assert closest_match("learning_rat", ["steps", "learning_rate"]) == "learning_rate"
    assert closest_match("zzz", ["steps", "learning_rate"]) is None
