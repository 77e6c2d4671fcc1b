"""The grammar of forms: what notebooks of the world hold, and what must not be taken for a field."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.lab.forms.grammar import Field, Form, Markdown, parse_form


def form_of(source: str, **metadata: Any) -> Form:
    form = parse_form(source, metadata)
    assert form is not None
    for field in form.fields:
        assert source[field.start : field.end] == field.value
    return form


def field_of(source: str) -> Field:
    (field,) = form_of(source).fields
    return field


def names_of(source: str) -> list[str]:
    form = parse_form(source)
    return [field.name for field in form.fields] if form else []


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("", "raw"),
        ("{}", "raw"),
        ('{type:"raw"}', "raw"),
        ('{type:"string"}', "string"),
        ("{type: 'string'}", "string"),
        ('{"type": "string"}', "string"),
        ("{type:string}", "string"),
        ('{ type : "String" }', "string"),
        ('{type="string"}', "string"),
        (r"{type:\"string\"}", "string"),
        ('{isTemplate: true, type:"string"}', "string"),
        ('{type:"number"}', "number"),
        ('{type:"integer"}', "integer"),
        ('{type:"boolean"}', "boolean"),
        ('{type:"bool"}', "boolean"),
        ('{type:"slider", min:0, max:10}', "slider"),
        ('{type:"date"}', "date"),
        ('{type:"nobody knows"}', "raw"),
        ('["a", "b"]', "dropdown"),
        ('{type:"number"} This is the frame where it starts', "number"),
        ('{type:"number"} # in pixels', "number"),
        ('{type:"number"} {form-width:"10%"}', "number"),
        ('\\ {type:"string"}', "string"),
        ('{type:"string"', "string"),
        ('{type:"string', "string"),
        (" see [the docs] {type}", "raw"),
    ],
)
@pytest.mark.parametrize("mark", ["#@param", "# @param ", "#   @param\t", " #@param "])
def test_types(mark: str, spec: str, kind: str) -> None:
    field = field_of(f"x = 1{mark}{spec}\n")
    assert (field.name, field.type, field.value, field.line) == ("x", kind, "1", 0)


@pytest.mark.parametrize(
    ("spec", "choices", "written"),
    [
        ('["a", "b"]', ("a", "b"), "string"),
        ("['a', 'b']", ("a", "b"), "string"),
        ("[ a word , https://example.org/x ]", ("a word", "https://example.org/x"), "string"),
        ('["a, b", "it\'s", "say \\"x\\""]', ("a, b", "it's", 'say "x"'), "string"),
        ('["a",]', ("a",), "string"),
        ('["a",,"b"', ("a", "b"), "string"),
        ('["1", "2"]{type:"raw"}', ("1", "2"), "raw"),
        ('[1e-4, 0.10, "None"] {type:"raw"}', ("1e-4", "0.10", "None"), "raw"),
        ('[(1, 2), f("a, b"), [3]] {type:"raw"}', ("(1, 2)", 'f("a, b")', "[3]"), "raw"),
        ('["1", "2"] {type:"integer"}', ("1", "2"), "integer"),
        ('["True", "False"] {type:"boolean"}', ("True", "False"), "boolean"),
        ('{type:"string"} ["a", "b"]', ("a", "b"), "string"),
        ('["16:9"],', ("16:9",), "string"),
        ('["16:9"] # only this', ("16:9",), "string"),
    ],
)
def test_dropdowns(spec: str, choices: tuple[str, ...], written: str) -> None:
    field = field_of(f'x = "a" #@param {spec}')
    assert (field.type, field.choices, field.value_type) == ("dropdown", choices, written)


@pytest.mark.parametrize(
    ("value", "spec", "written"),
    [
        ("2", "[1, 2, 4]", "raw"),
        ("True", "[true, false]", "raw"),
        ('"2"', "[1, 2, 4]", "string"),  # so Colab writes it
        ("2", '["1", "2"]', "string"),
        ("2", '[1, "auto"]', "string"),
        ("2", '[1, 2] {type:"string"}', "string"),
    ],
)
def test_numeric_choices_stay_numbers(value: str, spec: str, written: str) -> None:
    assert field_of(f"x = {value} #@param {spec}").value_type == written


def test_an_empty_list_makes_no_dropdown() -> None:
    field = field_of('x = "a" #@param [] {type:"string"}')
    assert (field.type, field.choices) == ("string", None)


@pytest.mark.parametrize(
    "option", ["allow-input: true", '"allow-input": true', "allow_input: True", 'allow-input: "true"']
)
def test_free_input(option: str) -> None:
    assert field_of(f'x = "c" #@param ["a", "b"] {{{option}, isTemplate: true}}').allow_input


def test_limits() -> None:
    def limits(spec: str) -> tuple[float | None, float | None, float | None]:
        field = field_of(f"x = 1 #@param {spec}")
        return field.min, field.max, field.step

    assert limits('{type:"slider"}') == (0, 100, 1)
    assert limits('{type:"slider", min:-1, max:1, step:0.1}') == (-1, 1, 0.1)
    assert limits('{type:"slider", min:"2", max:"1e1"}') == (2, 10, 1)
    assert limits(f'{{type:"slider", min:nothing, max:1e999, step:{"9" * 5000}}}') == (0, 100, 1)
    assert limits('{type:"integer", min:1}') == (1, None, None)
    assert limits('{type:"number", max:0.5}') == (None, 0.5, None)
    assert limits('{type:"string", min:1}') == (None, None, None)


def test_placeholder() -> None:
    assert field_of('x = "" #@param {type:"string", placeholder:"[your, {name}]"}').placeholder == "[your, {name}]"
    assert field_of('x = "" #@param {type:"string"}').placeholder is None


@pytest.mark.parametrize(
    ("source", "name", "value"),
    [
        ("x=1#@param", "x", "1"),
        ("x =  64  #@param", "x", "64"),
        ("\tx = 1 #@param", "x", "1"),
        ("if a:\n    x = 1 #@param", "x", "1"),
        ("\ufeffx = 1 #@param", "x", "1"),
        ("\fx = 1 #@param", "x", "1"),
        ("größe = 1 #@param", "größe", "1"),
        ("x: int = 1 #@param", "x", "1"),
        ('x: Literal["a=b", "#"] = "a" #@param', "x", '"a"'),
        ("x = #@param", "x", ""),
        ("x = (1,) #@param", "x", "(1,)"),
        ("x = {'a': [1, 2]} #@param", "x", "{'a': [1, 2]}"),
        ("x = a == b #@param", "x", "a == b"),
        ("x = f(a=1, b=2) #@param", "x", "f(a=1, b=2)"),
        ("x = lambda a=1, b=2: a #@param", "x", "lambda a=1, b=2: a"),
        ("x = y = 1 #@param", "x", "1"),
        ("x = 1; #@param", "x", "1"),
        ("x = 1; y = 2 #@param", "y", "2"),
        ("x = 'a;b=c' #@param", "x", "'a;b=c'"),
        ('x = "#@param" #@param', "x", '"#@param"'),
        ('x = "#@param {type:1}"#@param', "x", '"#@param {type:1}"'),
        ('x = "a \\" # b" #@param', "x", '"a \\" # b"'),
        ("x = '''a # b''' #@param", "x", "'''a # b'''"),
        ('x = f"{d["#"]}" #@param', "x", 'f"{d["#"]}"'),
        ("x = f'{a!r:{'#'}>{w}} {{' #@param", "x", "f'{a!r:{'#'}>{w}} {{'"),
        ("x = f\"{'}'}#\" #@param", "x", "f\"{'}'}#\""),
        ("x = rb'\\#' #@param", "x", "rb'\\#'"),
        ("x = 1 # pixels #@param", "x", "1"),
        ("x = 1  # 'a'  # @param", "x", "1"),
        ("x = 1\x0c#@param", "x", "1"),
        ('x = "a\x85b\u2028c" #@param', "x", '"a\x85b\u2028c"'),
        ("x = 1 #@param\r\ny = 2", "x", "1"),
        ("x = 1 #@param\ry = 2", "x", "1"),
        ("x = '\ud800' #@param", "x", "'\ud800'"),
    ],
)
def test_assignments(source: str, name: str, value: str) -> None:
    field = field_of(source)
    assert (field.name, field.value) == (name, value)


@pytest.mark.parametrize(
    "source",
    [
        "# x = 1 #@param",
        "#x = 1 #@param {type:'number'}",
        "x = 1 ##@param",
        "x = 1 # # @param {type:'list'}",
        "x == 1 #@param",
        "x += 1 #@param",
        "x, y = 1, 2 #@param",
        "x.y = 1 #@param",
        "x['a'] = 1 #@param",
        "x = y.z = 1 #@param",
        "(x := 1) #@param",
        "f(x=1) #@param",
        "else: x = 1 #@param",
        "if y: x = 1 #@param",
        "def f(a=1): x = 2 #@param",
        "x = 1 #@parameter",
        "x = 1 # param",
        "x = 1 @param",
        "#@param",
        "x = '''\ny = 1 #@param\n'''",
        'x = """ #@param\n"""',
        "x = [1,\n  2] #@param",
        "x = [ #@param\n  2]",
        "x = (\n  1 #@param {type:'integer'}\n)",
        "f(\n  x = 1, #@param\n)",
        "x = 1 + \\\n  2 #@param",
        "x = \\\n  2 #@param",
        "y = 1 + \\\nx = 2 #@param",
        'x = "a\\\ny = 1 #@param"',
        "!ls #@param",
        "x = !ls #@param",
        "%env X=1 #@param",
        "    !pip install a \\\n  b=1 #@param",
    ],
)
def test_assignments_that_are_not_fields(source: str) -> None:
    assert names_of(source) == []


def test_unclosed_strings_and_brackets_swallow_nothing() -> None:
    assert names_of("print(\nx = 1 #@param\ny = [2] #@param") == ["x", "y"]
    assert names_of("print(']'\nx = 1 #@param") == ["x"]
    assert names_of("print('a\nx = 1 #@param") == ["x"]
    assert names_of('y = """\nx = 1 #@param') == ["x"]
    assert field_of('x = " #@param {type:"raw"}').value == '"'
    assert field_of('x = it\'s #@param {type:"raw"}').value == "it's"
    assert field_of("x = [1, #@param").value == "[1,"


def test_magics() -> None:
    for magic in ("%%time", "%%capture out --no-stderr", "%%timeit -n 1"):
        assert names_of(f"{magic}\nx = '''\ny = 1 #@param\n'''\nz = 1 #@param") == ["z"]
        form = form_of(f"\n#@title Above\n{magic}\nz = 1 #@param")
        assert (form.title, [field.name for field in form.fields]) == ("Above", ["z"])
    assert names_of("!echo 'it(\n%cd \"\nx = 1 #@param") == ["x"]
    assert names_of("files = !ls (\nx = 1 #@param") == ["x"]
    assert names_of("x = 7 %2 #@param\ny = 1 #@param") == ["x", "y"]


def test_cells_of_other_languages_have_fields_too() -> None:
    source = '%%bash\n#@title Ask\nCOUNT=3 # @param {type:"slider", min:1, max:4}\ncase x in\n a) echo ${#x};;\nesac\nNAME="a" #@param'
    form = form_of(source)
    assert form.title == "Ask"
    assert [(field.name, field.type, field.value) for field in form.fields] == [
        ("COUNT", "slider", "3"),
        ("NAME", "raw", '"a"'),
    ]


def test_markdown_stands_between_fields_in_order() -> None:
    form = form_of(
        "#@markdown ## Head\nx = 1 #@param\n# @markdown\n  #@markdown  --- \ny = 2 #@param\nz = 3 #@markdown no"
    )
    assert [part.text if isinstance(part, Markdown) else part.name for part in form.parts] == [
        "## Head", "x", "", "---", "y",
    ]  # fmt: skip
    assert [part.line for part in form.parts] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("#@title", ""),
        ("#@title ## Train  ", "## Train"),
        ("#   @title Train {it}", "Train {it}"),
        ('# @title Train { display-mode: "form" }', "Train"),
        ("#@title {run:'auto'}", ""),
        ("#@title A\n#@title B", "A"),
        ("import os #@title no\n#@title A", "A"),
        ("def f():\n    #@title A", "A"),
    ],
)
def test_titles(line: str, title: str) -> None:
    assert form_of(line).title == title


def test_options_of_a_title() -> None:
    form = form_of('#@title A { display-mode: "form", run: "auto", vertical-output: true, form-width: "50%" }')
    assert form == Form("A", (), hidden=True, auto=True, vertical=True, width="50%")
    form = form_of("#@title A {vertical-output: false, form-width: 150px, unknown: 1}")
    assert form == Form("A", (), width="150px")


def test_the_cells_view_goes_before_the_titles() -> None:
    shown, hidden = "#@title A", '#@title A {display-mode: "form"}'
    assert form_of(shown, cellView="form").hidden
    assert not form_of(hidden, cellView="both").hidden
    assert not form_of(hidden, cellView="code").hidden
    assert form_of(hidden, cellView=None).hidden
    assert form_of(hidden, cellView=["form"]).hidden


def test_hidden_code_is_a_form_by_itself() -> None:
    assert form_of("import os", cellView="form") == Form(None, (), hidden=True)
    assert parse_form("import os", {"cellView": "both"}) is None


@pytest.mark.parametrize(
    "source", ["", "x = 1", "# a comment", "'''\n#@title A\n'''", "#@titles", "##@title A", "@title"]
)
def test_no_form(source: str) -> None:
    assert parse_form(source) is None


def test_lines_are_counted_as_python_counts_them() -> None:
    source = "a = '\x85\x1c\u2029' #\v\r\n\rb = 1 #@param\n\n\nc = 1 #@param"
    assert [(field.name, field.line) for field in form_of(source).fields] == [("b", 2), ("c", 5)]


def test_brackets_without_end_are_read_without_recursion() -> None:
    for bracket in "[{(":
        assert names_of(f"x = 1 #@param [{bracket * 100_000}") == ["x"]
