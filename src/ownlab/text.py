"""Sentences for people, kept as template and values until they are rendered. Standard library only: supervisors import it.

A `Text` is a `str` (in English), so records, errors and tables hold it as any other string. It also remembers how it was
made, so that `render` can make the same sentence in another language at the moment when it is shown:

    text("The driver {version} is too old for {framework}.", version="470.82", framework="torch 2.11")

Templates are literals and whole sentences; values are names and numbers, or other Texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["CONTROL_CHARACTERS", "Text", "listing", "plural", "render", "sentence", "sentences", "text"]

Translate = Callable[[str], str]

# For `str.translate`: replaces what could control a terminal, except newlines and tabs.
CONTROL_CHARACTERS = {
    number: "\N{REPLACEMENT CHARACTER}" for number in (*range(32), *range(127, 160)) if number not in b"\n\t"
}


class Text(str):
    """A rendered sentence with the template and the values it was made from."""

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, Any]

    def __new__(cls, template: str, values: Mapping[str, Any]) -> Text:
        made = super().__new__(cls, template.format_map(values) if values else template)
        made.template, made.values = template, values
        return made

    def __reduce__(self) -> tuple[type[Text], tuple[str, Mapping[str, Any]]]:
        return (type(self), (self.template, self.values))


def text(template: str, /, **values: Any) -> Text:
    """Make a sentence from a template with named placeholders. Without values, braces in the template stand for themselves."""
    return Text(template, values)


def plural(n: int, one: str, many: str, /, **values: Any) -> Text:
    """Choose between two templates by a number, which both may use as {n}: plural(3, "one card", "{n} cards")."""
    return Text(one if n == 1 else many, {"n": n, **values})


def sentence(message: str) -> str:
    """End a message with a period, unless it ends a sentence already."""
    return message if message.endswith((".", "?", "!")) else text("{message}.", message=message)


def sentences(*parts: str | None) -> Text:
    """Join whole sentences with spaces; empty ones are left out."""
    return _joined([part for part in parts if part], " ")


def listing(items: Iterable[object], template: str = "{items} and {last}") -> Text:
    """List names: "a", "a and b", "a, b and c". The template says how the last one is joined."""
    names = [item if isinstance(item, str) else str(item) for item in items]
    if len(names) < 2:
        return _joined(names, "")
    return Text(template, {"items": _joined(names[:-1], ", "), "last": names[-1]})


def _joined(parts: list[str], separator: str) -> Text:
    """Join strings so that Texts among them keep their templates."""
    names = [f"s{number}" for number in range(len(parts))]
    return Text(separator.join(f"{{{name}}}" for name in names), dict(zip(names, parts, strict=True)))


def render(message: str, translate: Translate) -> str:
    """Return a sentence in another language: its template translated, its values put in, Texts among them likewise."""
    if not isinstance(message, Text):
        return message
    template = translate(message.template)
    if not message.values:
        return template
    return template.format_map(
        {name: render(value, translate) if isinstance(value, str) else value for name, value in message.values.items()}
    )
