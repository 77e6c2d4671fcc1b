"""The Chinese examples are the English ones in other words: the same cells, code, forms and commands."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from pathlib import Path
from typing import Any

import msgspec
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from ownlab.lab.forms.grammar import Field, Form, parse_form
from ownlab.lab.service import examples
from ownlab.lab.service.examples import list_examples, place_example, read_example
from ownlab.languages import ENGLISH, LANGUAGES, PSEUDO

NAMES = [example.name for example in list_examples()]
CHINESE = re.compile("[\u4e00-\u9fff\uff00-\uffef]")  # and full-width punctuation
ENGLISH_WORDS = re.compile(r"^(?! ).*[A-Za-z]{2,}[,.:]? +[a-z]{2,}")  # an indented line is a command
# What matplotlib draws with its own font.
PLOT_WORDS = ("label", "title", "xlabel", "ylabel")
PLOT_METHODS = ("annotate", "set_title", "set_xticks", "set_yticks", "text")


def cells(name: str, language: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(read_example(name, language))["cells"]
    return found


def code_cells(name: str, language: str) -> list[str]:
    return ["".join(cell["source"]) for cell in cells(name, language) if cell["cell_type"] == "code"]


def prose(name: str, language: str) -> list[str]:
    return ["".join(cell["source"]) for cell in cells(name, language) if cell["cell_type"] == "markdown"]


def as_python(cell: str) -> str:
    return str(TransformerManager().transform_cell(cell))  # type: ignore[no-untyped-call]


def comments(cell: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(as_python(cell)).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def words(string: ast.AST) -> str:
    """The text of a string, without the values in it."""
    parts = string.values if isinstance(string, ast.JoinedStr) else [string]
    return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def values(string: ast.AST) -> list[str]:
    """What a string is filled with, in any order: another language may name it in another one."""
    parts = string.values if isinstance(string, ast.JoinedStr) else []
    return sorted(ast.dump(part) for part in parts if isinstance(part, ast.FormattedValue))


def assert_same_code(english: Any, chinese: Any) -> None:
    """Equal but for strings that are Chinese; those are filled with the same values."""
    if isinstance(english, list):
        assert len(english) == len(chinese)
        for one, other in zip(english, chinese, strict=True):
            assert_same_code(one, other)
    elif not isinstance(english, ast.AST):
        assert english == chinese
    elif is_string(chinese) and CHINESE.search(words(chinese)):
        assert is_string(english)
        assert values(english) == values(chinese), (words(english), words(chinese))
    else:
        assert type(english) is type(chinese), (ast.unparse(english), ast.unparse(chinese))
        for field in english._fields:
            assert_same_code(getattr(english, field, None), getattr(chinese, field, None))


def test_every_language_has_every_example() -> None:
    folder = Path(examples.__file__).parent
    for language in set(LANGUAGES) - {ENGLISH}:
        assert sorted(path.name for path in (folder / language).iterdir()) == sorted(f"{name}.json" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_notebooks_differ_in_sources_only(name: str) -> None:
    english, chinese = (json.loads(read_example(name, language)) for language in (ENGLISH, "zh_CN"))
    for notebook in (english, chinese):
        for cell in notebook["cells"]:
            assert "".join(cell.pop("source"))
    assert english == chinese


@pytest.mark.parametrize("name", NAMES)
def test_the_code_is_the_same(name: str) -> None:
    for english, chinese in zip(code_cells(name, ENGLISH), code_cells(name, "zh_CN"), strict=True):
        assert_same_code(ast.parse(as_python(english)), ast.parse(as_python(chinese)))


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("x = 1", "x = 2"),
        ("f('a b')", "f('a c')"),
        ("f(f'{n} files')", "f('文件')"),
        ("f(f'{n:,} files')", "f(f'{n} 个文件')"),
        ("f('files', 1)", "f('文件')"),
        ("f('files')", "g('文件')"),
        ("f(files)", "f('文件')"),
    ],
)
def test_other_code_is_noticed(english: str, chinese: str) -> None:
    with pytest.raises(AssertionError):
        assert_same_code(ast.parse(english), ast.parse(chinese))


@pytest.mark.parametrize("name", NAMES)
def test_the_forms_have_the_same_fields(name: str) -> None:
    def without_words(form: Form | None) -> list[Any]:
        if form is None:
            return []
        # Positions count characters, and titles have another length.
        parts = [msgspec.structs.replace(part, start=0, end=0) for part in form.parts if isinstance(part, Field)]
        return [form.hidden, form.auto, form.vertical, form.width, len(form.parts), parts]

    for english, chinese in zip(code_cells(name, ENGLISH), code_cells(name, "zh_CN"), strict=True):
        form = parse_form(chinese)
        assert without_words(parse_form(english)) == without_words(form)
        for shown in [] if form is None else [form.title, *(getattr(part, "text", None) for part in form.parts)]:
            assert shown is None or CHINESE.search(shown), shown


@pytest.mark.parametrize("name", NAMES)
def test_what_people_read_is_chinese(name: str) -> None:
    for english, chinese in zip(code_cells(name, ENGLISH), code_cells(name, "zh_CN"), strict=True):
        noted = comments(chinese)
        assert len(noted) == len(comments(english))
        assert [comment for comment in noted if not (CHINESE.search(comment) or comment.startswith("#@param"))] == []
        for node in ast.walk(ast.parse(as_python(chinese))):
            if isinstance(node, ast.FunctionDef) and (documented := ast.get_docstring(node)) is not None:
                assert CHINESE.search(documented), documented
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and ast.unparse(node.func) == "print"):
                shown = [words(part) for part in ast.walk(node) if is_string(part)]
                assert [each for each in shown if ENGLISH_WORDS.search(each) and not CHINESE.search(each)] == []
    for cell in prose(name, "zh_CN"):
        assert all(CHINESE.search(paragraph) for paragraph in cell.split("\n\n")), cell


@pytest.mark.parametrize("name", NAMES)
def test_plots_have_letters_of_their_font_only(name: str) -> None:
    for cell in code_cells(name, "zh_CN"):
        for node in ast.walk(ast.parse(as_python(cell))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                drawn: list[ast.AST] = [given.value for given in node.keywords if given.arg in PLOT_WORDS]
                drawn += node.args if node.func.attr in PLOT_METHODS else []
                assert [text for each in drawn if CHINESE.search(text := ast.unparse(each))] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_prose_has_the_same_code(name: str) -> None:
    """Code in sentences, commands in blocks, headings and lists."""

    def outline(cell: str) -> list[Any]:
        blocks = re.findall(r"^```sh\n(.*?)^```", cell, re.DOTALL | re.MULTILINE)
        commands = [line.partition(" #")[0].rstrip() for block in blocks for line in block.splitlines()]
        marks = re.findall(r"^(?:#+|-|\d+\.) ", cell, re.MULTILINE)
        return [sorted(re.findall(r"`[^`\n]+`", cell)), commands, marks]

    for english, chinese in zip(prose(name, ENGLISH), prose(name, "zh_CN"), strict=True):
        assert outline(english) == outline(chinese)


def test_an_example_is_placed_in_a_language(tmp_path: Path) -> None:
    path = tmp_path / place_example(str(tmp_path), "welcome", "zh_CN")
    assert path == tmp_path / "examples" / "welcome.ipynb"
    assert "# 欢迎来到你的实验室" in path.read_text("utf-8")
    # It is the user's now: the page in another language opens it as it is.
    place_example(str(tmp_path), "welcome", ENGLISH)
    assert path.read_bytes() == read_example("welcome", "zh_CN")
    assert read_example("welcome", PSEUDO) == read_example("welcome")
