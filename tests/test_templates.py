"""Templates of sentences are literals where they are marked, and finished sentences are never changed.

Translations are extracted from the calls of `text`, `template`, `plural` and `listing`, so each needs its literal. Sentences
of data files are fields of the type `Template` of their records.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
DEFINITIONS = {"ownlab.text": SRC / "ownlab/text.py", "ownlab_guest.text": SRC / "ownlab_guest/text.py"}
SOURCES = sorted(path for path in SRC.glob("ownlab*/**/*.py") if path not in DEFINITIONS.values())

# Marking function -> the arguments that are templates.
MARKS = {"text": slice(0, 1), "template": slice(0, 1), "plural": slice(1, 3), "listing": slice(1, 2)}
# Only the two modules themselves make these: everything else marks a literal.
TYPES = ("Text", "Template")
JOINS = ("facts", "lines", "sentence", "sentences")
CHANGES = {
    "capitalize",
    "format",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rpartition",
    "rstrip",
    "strip",
    "swapcase",
    "title",
    "upper",
}


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What a module calls the functions of the text modules: name there -> name here."""
    return {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in DEFINITIONS
        for alias in node.names
    }


def template_arguments(call: ast.Call, function: str) -> list[ast.expr]:
    named = [keyword.value for keyword in call.keywords if function == "listing" and keyword.arg == "template"]
    return [*call.args[MARKS[function]], *named]


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def unmarked(tree: ast.Module) -> Iterator[str]:
    """Yield each use of a marking function that extraction does not understand."""
    names = imported_names(tree)
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    # A parameter or a variable with the name of a marking function.
    others = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    others |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = names.get(node.func.id)
            if function in MARKS and not all(map(is_literal, template_arguments(node, function))):
                yield f"{node.lineno}: the template is not a literal: {ast.unparse(node)}"
            if function in TYPES:
                yield f"{node.lineno}: made without a mark: {ast.unparse(node)}"
        elif isinstance(node, ast.Name) and names.get(node.id) in MARKS and id(node) not in called:
            if node.id not in others:
                yield f"{node.lineno}: a marking function is passed on: {node.id}"
        elif isinstance(node, ast.ImportFrom) and node.module in ("ownlab", "ownlab_guest"):
            yield from (f"{node.lineno}: import the functions" for alias in node.names if alias.name == "text")


def functions_returning_text(trees: dict[Path, ast.Module]) -> set[str]:
    """Names of functions that return a Text by their annotation, and of no other function."""
    with_text: set[str] = set()
    others: set[str] = set()
    for tree in trees.values():
        texts = {here for here, there in imported_names(tree).items() if there == "Text"}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                made = node.returns is not None and ast.unparse(node.returns).strip("'\"") in texts
                (with_text if made else others).add(node.name)
    return with_text - others


class Sentences:
    """Which expressions of a module are finished sentences, as far as it can be seen in the source."""

    def __init__(self, tree: ast.Module, functions: set[str]) -> None:
        self.functions = functions | {
            here for here, there in imported_names(tree).items() if there in (*MARKS, *JOINS) and there != "template"
        }

    def includes(self, node: ast.expr, local: set[str]) -> bool:
        if isinstance(node, ast.Name):
            return node.id in local
        if isinstance(node, ast.Attribute):
            return node.attr in ("message", "hint") and isinstance(node.value, ast.Name) and node.value.id == "exc"
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name):
            return node.func.id in self.functions
        return isinstance(node.func, ast.Attribute) and node.func.attr == "fill"

    def local_names(self, nodes: list[ast.AST]) -> set[str]:
        values: dict[str, list[ast.expr]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, []).append(node.value)
        return {name for name, given in values.items() if all(self.includes(value, set()) for value in given)}


def scopes(tree: ast.Module) -> Iterator[list[ast.AST]]:
    """Yield the nodes of each function, and those of the module outside functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    outside: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, functions):
            yield list(ast.walk(node))
        else:
            outside.append(node)
            waiting += ast.iter_child_nodes(node)
    yield outside


def changed(tree: ast.Module, functions: set[str]) -> Iterator[str]:
    """Yield each place where a finished sentence is changed."""
    known = Sentences(tree, functions)
    for nodes in scopes(tree):
        local = known.local_names(nodes)
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                wrong = node.func.attr in CHANGES and known.includes(node.func.value, local)
            elif isinstance(node, ast.Subscript):
                wrong = known.includes(node.value, local)
            elif isinstance(node, ast.BinOp):
                sides = (node.left, node.right)
                glued = any(known.includes(side, local) for side in sides) and not any(map(is_space, sides))
                wrong = glued or changes_first_letter(node)
            else:
                continue
            if wrong:
                yield f"{node.lineno}: {ast.unparse(node)}"


def is_space(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.strip()


def changes_first_letter(node: ast.BinOp) -> bool:
    """Whether an expression is `name[0].upper() + …`."""
    call = node.left
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("upper", "lower")
        and isinstance(call.func.value, ast.Subscript)
    )


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in SOURCES}


def test_templates_are_literals(trees: dict[Path, ast.Module]) -> None:
    found = [f"{path.relative_to(SRC)}:{place}" for path, tree in trees.items() for place in unmarked(tree)]
    assert not found, "\n".join(found)
    marked = sum(len(imported_names(tree)) for tree in trees.values())
    assert marked > 500, "the names of the marking functions have changed: this test checks nothing"


def test_finished_sentences_are_not_changed(trees: dict[Path, ast.Module]) -> None:
    functions = functions_returning_text(trees)
    found = {f"{path.relative_to(SRC)}:{place}" for path, tree in trees.items() for place in changed(tree, functions)}
    assert not found, "\n".join(sorted(found))


@pytest.mark.parametrize(
    "code",
    [
        "text(name)",
        "text(f'The file {name}.')",
        "text('a' if name else 'b')",
        "text(TABLE[name])",
        "template(name)",
        "plural(1, 'one', name)",
        "listing(names, template=name)",
        "list(map(text, names))",
        "Text(name, {})",
        "from ownlab import text",
    ],
)
def test_a_template_that_is_not_a_literal_is_found(code: str) -> None:
    tree = ast.parse(f"from ownlab.text import Text, listing, plural, template, text\n{code}\n")
    assert list(unmarked(tree))


@pytest.mark.parametrize(
    "code",
    [
        "text('The file is missing.').upper()",
        "text('The file is missing.').rstrip('.')",
        "message = text('The file is missing.')\nprint(message.capitalize())",
        "title[0].upper() + title[1:]",
        "text('The file is missing.') + ' Look for it.'",
        "END.fill(name=name)[:-1]",
        "describe(1).replace('one', 'two')",
        "try: pass\nexcept OSError as exc:\n  exc.message.rstrip('.')",
    ],
)
def test_a_changed_sentence_is_found(code: str) -> None:
    tree = ast.parse(f"from ownlab.text import text\n{code}\n")
    assert list(changed(tree, {"describe"}))


def test_marked_literals_are_accepted() -> None:
    tree = ast.parse(
        "from ownlab.text import listing, plural, template, text\n"
        "END = template('The file {name} '\n 'is missing.')\n"
        "print(text('It is {place}.', place=name.upper()), plural(2, 'one', '{n} files'), listing(names), END.fill(name=name))\n"
    )
    assert not list(unmarked(tree))
    assert not list(changed(tree, set()))


# Functions that show a string -> the positions of what they show.
SHOWS = {
    "Text": (0,),
    "RichText": (0,),
    "labelled": (1, 2),
    "working": (0,),
    "echo": (0,),
    "print": (0,),
    "notify": (0,),
    "_line": (1, 2),
    "_heading": (1,),
    "_print": (0,),
    "confirm": (0,),
    "prompt": (0,),
}
_LETTERS = re.compile(r"[A-Za-z]{3}")
# Names and code: of programs, units and figures.
SHOWN_NAMES = re.compile(
    r"ownlab: |torch |NVIDIA |CUDA|cuDNN|numpy |TFLOP|GiB|ownlab\.data\.open|SHA-256|Colab|PID|munge|root|(?: {2}|^)(?:ownlab|scp|ssh|ps|sudo|sh|\() ?"
)


def shown_unmarked(tree: ast.Module) -> Iterator[str]:
    """Yield each string with words that is shown without a mark, where it stands in the call itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for position in SHOWS.get(name, ()):
            argument = node.args[position] if len(node.args) > position else None
            for words in literal_parts(argument):
                if _LETTERS.search(words) and not SHOWN_NAMES.search(words):
                    yield f"{node.lineno}: {name}: {words!r}"


def literal_parts(node: ast.expr | None) -> Iterator[str]:
    """Yield the literals of an expression that become part of its value, but not those within other calls."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from literal_parts(part.value if isinstance(part, ast.FormattedValue) else part)
    elif isinstance(node, ast.IfExp):
        yield from literal_parts(node.body)
        yield from literal_parts(node.orelse)
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        for side in node.values if isinstance(node, ast.BoolOp) else (node.left, node.right):
            yield from literal_parts(side)


def test_what_is_shown_is_marked(trees: dict[Path, ast.Module]) -> None:
    commands = {
        path: tree for path, tree in trees.items() if "server" not in path.parts and "ownlab_guest" not in path.parts
    }
    found = [f"{path.relative_to(SRC)}:{place}" for path, tree in commands.items() for place in shown_unmarked(tree)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "labelled(out, 'memory', content)",
        "labelled(out, label, f'{n} cards')",
        "out.print('Host', style='bold')",
        "click.echo('Done.')",
        "Text('notes' if notes else '')",
        "with working('Reading'): pass",
    ],
)
def test_a_string_that_is_shown_without_a_mark_is_found(code: str) -> None:
    assert list(shown_unmarked(ast.parse(code)))


def test_marked_and_meaningless_strings_are_accepted() -> None:
    code = "labelled(out, text('memory'), f'{used} {total}')\nout.print(text('Host'))\nclick.echo(', ')\nText('─' * 3)"
    assert not list(shown_unmarked(ast.parse(code)))
