"""Changes of the user's code as small diffs, made from the statements that were kept with the evidence."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterable, Mapping

from ownlab.instruments.why.records import Change, Place, Snippet

__all__ = ["CodeChanges", "read_snippet"]

# A statement of more lines is not kept: nothing in it would be found again.
_MOST_LINES = 40


def read_snippet(place: Place) -> Snippet | None:
    """Read the statement at a line, as long as it is simple; otherwise the line alone. None if the file cannot be read."""
    lines = linecache.getlines(place.file)
    if not 0 < place.line <= len(lines):
        return None
    first, last = place.line, place.line
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        tree = None
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, ast.stmt) or hasattr(node, "body") or node.end_lineno is None:
            continue
        if node.lineno <= place.line <= node.end_lineno and node.end_lineno - node.lineno < _MOST_LINES:
            first, last = node.lineno, node.end_lineno
    return Snippet(place.file, first, "".join(lines[first - 1 : last]))


class CodeChanges:
    """Finds statements of the user, and writes what should stand there instead."""

    def __init__(self, snippets: Iterable[Snippet]) -> None:
        self._snippets = tuple(snippets)

    def line(self, place: Place | None) -> str:
        """The text of a line, or ""."""
        snippet = self._snippet(place)
        if snippet is None or place is None:
            return ""
        return snippet.text.splitlines()[place.line - snippet.first_line].strip()

    def with_arguments(self, place: Place | None, function: str, arguments: Mapping[str, str]) -> Change | None:
        """Set keyword arguments in the call of `function` at a place. None if there is no such call."""
        snippet = self._snippet(place)
        if snippet is None:
            return None
        text = textwrap.dedent(snippet.text)
        call = _find_call(text, function)
        if call is None or any(keyword.arg is None for keyword in call.keywords):
            return None  # of **options nobody knows what they contain
        return _as_change(snippet, _set_arguments(text, call, arguments))

    def without_line(self, place: Place | None) -> Change | None:
        """Remove a statement of one line, which is nothing but a call."""
        snippet = self._snippet(place)
        if snippet is None or len(snippet.text.splitlines()) != 1:
            return None
        try:
            body = ast.parse(textwrap.dedent(snippet.text)).body
        except SyntaxError:
            return None
        if len(body) != 1 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call):
            return None
        return _as_change(snippet, "")

    def replaced(self, place: Place | None, new: str) -> Change | None:
        """Replace a statement of one line; `{line}` in `new` is the old one, and further lines keep its indentation."""
        snippet = self._snippet(place)
        if snippet is None or len(snippet.text.splitlines()) != 1:
            return None
        return _as_change(snippet, new.replace("{line}", snippet.text.strip()) + "\n")

    def _snippet(self, place: Place | None) -> Snippet | None:
        if place is None:
            return None
        for snippet in self._snippets:
            last = snippet.first_line + len(snippet.text.splitlines()) - 1
            if snippet.file == place.file and snippet.first_line <= place.line <= last:
                return snippet
        return None


def _find_call(text: str, function: str) -> ast.Call | None:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == function:
                return node
    return None


def _set_arguments(text: str, call: ast.Call, arguments: Mapping[str, str]) -> str:
    """Edit the text from the end to the beginning, so that positions stay right."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    offset = _Offsets(text)
    edits: list[tuple[int, int, str]] = []
    new = [f"{name}={value}" for name, value in arguments.items() if name not in keywords]
    for name, value in arguments.items():
        if name in keywords:
            edits.append((*offset.of(keywords[name]), value))
    if new:
        last = max([*call.args, *(keyword.value for keyword in call.keywords)], key=offset.end, default=None)
        at = offset.end(last) if last is not None else offset.end(call) - 1
        edits.append((at, at, (", " if last is not None else "") + ", ".join(new)))
    for begin, end, value in sorted(edits, reverse=True):
        text = text[:begin] + value + text[end:]
    return text


class _Offsets:
    """Positions of nodes in a text. The column of a node counts bytes of UTF-8."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._begins = [0]
        for line in self._lines:
            self._begins.append(self._begins[-1] + len(line))

    def of(self, node: ast.expr) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self.end(node)

    def end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        return self._begins[line - 1] + len(self._lines[line - 1].encode()[:column].decode(errors="replace"))


def _as_change(snippet: Snippet, new: str) -> Change:
    """The lines that differ, with their signs; indented as the user's are."""
    old_lines = snippet.text.splitlines()
    indent = old_lines[0][: len(old_lines[0]) - len(old_lines[0].lstrip())]
    new_lines = textwrap.indent(new, indent).splitlines()
    while old_lines and new_lines and old_lines[-1] == new_lines[-1]:
        old_lines.pop()
        new_lines.pop()
    line = snippet.first_line
    while old_lines and new_lines and old_lines[0] == new_lines[0]:
        old_lines.pop(0)
        new_lines.pop(0)
        line += 1
    signed = [*(f"-{text}" for text in old_lines), *(f"+{text}" for text in new_lines)]
    return Change(snippet.file, line, "\n".join(signed))
