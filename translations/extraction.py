"""Finds everything that people read in the Python sources: templates, help of commands, pages of rules, sentences of data files.

Templates are literals where they are marked (tests/test_templates.py), so they are found without running anything. The domain
of a message says which catalogue it belongs to: "doctor" for the doctor's findings, "pages" for the pages of rules, "ownlab"
for everything else.
"""

from __future__ import annotations

import ast
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from ownlab.catalog.cards import load_cards
from ownlab.catalog.platforms import load_platforms
from ownlab.instruments.top.verdict_rules import load_rules
from ownlab.machine.records import Machine
from ownlab.machine.terminal import label_of
from ownlab.text import Template, Text

__all__ = ["DOMAINS", "Message", "extract"]

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
DOMAINS = ("ownlab", "doctor", "pages")
_DOCTOR = "src/ownlab/instruments/doctor/"

# Function of ownlab.text -> which of its arguments are templates.
_MARKS = {
    "text": slice(0, 1),
    "template": slice(0, 1),
    "translated": slice(0, 1),
    "plural": slice(1, 3),
    "listing": slice(1, 2),
}
_TEXT_MODULES = ("ownlab.text", "ownlab_guest.text")
# Keywords of click, and of our own tables of commands, that hold help.
_HELP = ("help", "epilog", "short_help")
# Classes whose docstring is a page for people: those with a method `page` in one of their bases.
_RULE_FOLDERS = ("src/ownlab/instruments/doctor/", "src/ownlab/instruments/why/")
# Data files, and their fields that are of the type Template.
_JSON_FIELDS = {
    "src/ownlab/catalog/data/xid.json": ("name", "meaning", "do"),
    "src/ownlab/lab/service/examples/index.json": ("title", "description"),
}
# Tables whose sentences are Templates or Texts of their records.
_TABLES: dict[str, Callable[[], Any]] = {
    "src/ownlab/instruments/top/verdicts.toml": load_rules,
    "src/ownlab/catalog/data/cards.toml": load_cards,
    "src/ownlab/catalog/data/platforms.toml": load_platforms,
}


class Message(NamedTuple):
    """A template, and where it was found."""

    template: str
    domain: str
    place: str  # path:line


def extract() -> list[Message]:
    """Return every message once, with its first place, in the order of domains and places."""
    found: dict[str, Message] = {}
    for message in sorted(_all_messages(), key=lambda each: DOMAINS.index(each.domain)):
        found.setdefault(message.template, message)
    return list(found.values())


def _all_messages() -> Iterator[Message]:
    for path in sorted(SRC.glob("ownlab*/**/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(ROOT).as_posix()
        domain = "doctor" if name.startswith(_DOCTOR) else "ownlab"
        for line, words in (*_marked(tree), *_help(tree)):
            yield Message(words, domain, f"{name}:{line}")
        if name.startswith(_RULE_FOLDERS):
            for line, words in _pages(tree):
                yield Message(words, "pages", f"{name}:{line}")
    for name, fields in _JSON_FIELDS.items():
        content = json.loads((ROOT / name).read_text(encoding="utf-8"))
        yield from (Message(words, "ownlab", name) for words in _fields_of(content, fields))
    for name, load in _TABLES.items():
        yield from (Message(words, "ownlab", name) for words in _sentences_of(load()))
    yield from (Message(words, "ownlab", "src/ownlab/machine/records.py") for words in _labels_of(Machine, set()))
    yield from (Message(words, "ownlab", "click") for words in _words_of_click())


# --- templates and help -----------------------------------------------------------------------------------------------


def _marked(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the literals of text("…"), template("…"), plural(n, "…", "…") and listing(names, "…")."""
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in _TEXT_MODULES
        for alias in node.names
    }
    # The modules of `text` use it, too.
    names |= {node.name: node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in _MARKS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and names.get(node.func.id) in _MARKS:
            function = names[node.func.id]
            named = [word.value for word in node.keywords if function == "listing" and word.arg == "template"]
            yield from _literals([*node.args[_MARKS[function]], *named])


def _literals(nodes: Iterable[ast.expr]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
            yield node.lineno, node.value


def _help(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the help of commands and options by paragraphs, and the meaning of settings and of errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _help_of_call(node)
        elif isinstance(node, ast.FunctionDef) and any(map(_makes_command, node.decorator_list)):
            yield from _paragraphs(node.lineno, ast.get_docstring(node, clean=False))
        elif isinstance(node, ast.ClassDef):
            yield from _meaning_of_error(node)


def _help_of_call(node: ast.Call) -> Iterator[tuple[int, str]]:
    for word in node.keywords:
        if word.arg in _HELP and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
            yield from _paragraphs(word.value.lineno, word.value.value)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "Entry":
        yield from _literals(node.args[1:3])
    elif name in ("_setting", "Setting"):
        yield from _literals(node.args[3:4])


def _makes_command(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else node
    return isinstance(function, ast.Attribute) and function.attr in ("command", "group")


def _meaning_of_error(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    if not any(ast.unparse(base).endswith("Error") for base in node.bases):
        return
    for statement in node.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "meaning":
            yield from _literals([statement.value])


def _paragraphs(line: int, words: str | None) -> Iterator[tuple[int, str]]:
    cleaned = inspect.cleandoc(words) if words else ""
    yield from ((line, paragraph) for paragraph in cleaned.split("\n\n") if paragraph.strip())


# --- pages of rules ---------------------------------------------------------------------------------------------------


def _pages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of rules by paragraphs: classes that have a code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(_assigns(statement, "code") for statement in node.body):
            yield from _paragraphs(node.lineno, ast.get_docstring(node, clean=False))


def _assigns(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name


# --- data files, and click --------------------------------------------------------------------------------------------


def _sentences_of(value: Any) -> Iterator[str]:
    if isinstance(value, Text):
        yield from filter(None, [value.template])
    elif isinstance(value, Template):
        yield from filter(None, [str(value)])
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _sentences_of(getattr(value, field))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _sentences_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _sentences_of(item)


def _labels_of(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the labels of `ownlab machine`: the names of the fields of a record and of those within it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind not in seen:
            seen.add(kind)
            for field in msgspec.structs.fields(kind):
                yield label_of(field.name)
                yield from _labels_of(field.type, seen)
        return
    for argument in typing.get_args(kind):
        yield from _labels_of(argument, seen)


def _fields_of(value: Any, fields: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name in fields and isinstance(item, str) and item:
                yield item
            else:
                yield from _fields_of(item, fields)
    elif isinstance(value, list):
        for item in value:
            yield from _fields_of(item, fields)


def _words_of_click() -> Iterator[str]:
    """Yield what click itself says, and its own translations would: the arguments of its gettext functions."""
    for path in sorted(Path(click.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("_", "ngettext"):
                yield from (words for _, words in _literals(node.args[:2]))
