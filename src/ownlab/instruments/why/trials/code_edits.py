"""What a tried change is in the user's code: a diff where its line is known, otherwise a sentence."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from ownlab.instruments.why.code_change import CodeChanges
from ownlab.instruments.why.records import Change, Place

__all__ = ["Edit", "call_name", "edit_arguments", "edit_code", "insert_line", "remove_line", "replace_line"]

_MODEL = "model"
# A longer block is not shown as a diff.
_LONGEST_BLOCK = 12


class Edit(NamedTuple):
    """A change of one place. Those of one call are merged when several changes are shown together."""

    kind: Literal["arguments", "replace", "remove", "wrap"]
    where: Place | None
    advice: str  # where the line is not known, or is not simple enough
    function: str = ""
    arguments: Mapping[str, str] = {}
    line: str = ""
    last: Place | None = None  # of a block that is wrapped: the line behind it


def edit_arguments(where: Place | None, function: str, arguments: Mapping[str, str], advice: str) -> Edit:
    """Set arguments of a call."""
    return Edit("arguments", where, advice, function=function, arguments=arguments)


def insert_line(where: Place | None, line: str, advice: str) -> Edit:
    """Add a line before a statement."""
    return Edit("replace", where, advice, line=line + "\n{line}")


def replace_line(where: Place | None, line: str, advice: str) -> Edit:
    """Put a line in the place of a statement."""
    return Edit("replace", where, advice, line=line)


def remove_line(where: Place | None, advice: str) -> Edit:
    """Remove a call."""
    return Edit("remove", where, advice)


def edit_code(edits: Iterable[Edit], code: CodeChanges) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Write edits as diffs of the user's code; what has no line is said in words."""
    changes: list[Change] = []
    advice: list[str] = []
    for edit in _merged(edits):
        change = _as_change(edit, code)
        if change is not None:
            changes.append(change)
        else:
            advice.append(edit.advice)
    return tuple(changes), tuple(dict.fromkeys(advice))


def _merged(edits: Iterable[Edit]) -> list[Edit]:
    """Join the arguments of one call, and the lines before one statement."""
    merged: dict[tuple[str, Place | None, str], Edit] = {}
    for edit in edits:
        key = (edit.kind, edit.where, edit.function)
        other = merged.get(key)
        if other is None or edit.where is None or edit.kind in ("remove", "wrap"):
            merged[key if edit.where is not None else (edit.advice, None, "")] = edit
        elif edit.kind == "arguments":
            merged[key] = edit._replace(arguments={**other.arguments, **edit.arguments})
        else:
            merged[key] = edit._replace(line=edit.line.replace("{line}", other.line))
    return list(merged.values())


def _as_change(edit: Edit, code: CodeChanges) -> Change | None:
    if edit.where is None:
        return None
    if edit.kind == "arguments":
        return code.with_arguments(edit.where, edit.function, edit.arguments)
    if edit.kind == "remove":
        return code.without_line(edit.where)
    if edit.kind == "replace":
        return code.replaced(edit.where, edit.line)
    return _wrapped(edit)


def _wrapped(edit: Edit) -> Change | None:
    """Indent the statements from one line to the line before another, below a new one."""
    first, last = edit.where, edit.last
    if first is None or last is None or (first.file, first.function) != (last.file, last.function):
        return None
    lines = [line.rstrip("\n") for line in linecache.getlines(first.file)[first.line - 1 : last.line - 1]]
    if not 0 < len(lines) <= _LONGEST_BLOCK:
        return None
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    try:
        ast.parse(textwrap.dedent("\n".join(lines)))
    except SyntaxError:  # the two lines are no neighbours in one block
        return None
    new = [indent + edit.line, *(f"    {line}" if line.strip() else line for line in lines)]
    return Change(first.file, first.line, "\n".join([*(f"-{line}" for line in lines), *(f"+{line}" for line in new)]))


def call_name(code: CodeChanges, where: Place | None) -> str:
    """The name of the model in the line that calls it: "model" in `loss = criterion(model(x), y)`."""
    try:
        tree = ast.parse(code.line(where))
    except SyntaxError:
        return _MODEL
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and not _is_method(node)]
    names = [ast.unparse(call.func) for call in calls if not any(_has_call(each) for each in call.args)]
    return names[0] if len(names) == 1 else _MODEL


def _is_method(call: ast.Call) -> bool:
    """`x.to(…)` rather than `model(…)` or `self.model(…)`."""
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") != "self"


def _has_call(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and not _is_method(each) for each in ast.walk(node))
