"""Sentences for people, kept as template and values. The host makes an `ownlab.text.Text` of them, which can be translated.

A `Text` is a `str`, so answers hold it as any other string: `pack_texts` adds templates and values next to it.
"""

from typing import Any, Dict, Iterable, Mapping, Tuple, Type

__all__ = [
    "Template",
    "Text",
    "lines",
    "listing",
    "pack_texts",
    "plural",
    "received",
    "sentences",
    "template",
    "text",
]


class Text(str):
    """A rendered sentence with the template and the values it was made from."""

    template: str
    values: Mapping[str, Any]

    def __new__(cls, template: str, values: Mapping[str, Any]) -> "Text":
        # An exception would keep its traceback, and with it tensors.
        values = {name: str(value) if isinstance(value, BaseException) else value for name, value in values.items()}
        made = super().__new__(cls, template.format_map(values) if values else template)
        made.template, made.values = template, values
        return made

    def __str__(self) -> str:
        """Return the Text itself, so that `str(exception)` keeps the template of its message."""
        return self

    def __reduce__(self) -> "Tuple[Type[Text], Tuple[str, Mapping[str, Any]]]":
        return (type(self), (self.template, self.values))


class Template(str):
    """A template that waits for its values."""

    def fill(self, /, **values: Any) -> Text:
        """Make the sentence."""
        return Text(str(self), values)


def template(words: str, /) -> Template:
    """Mark a literal as a template that is filled later, where it is chosen at run time."""
    return Template(words)


def text(template: str, /, **values: Any) -> Text:
    """Make a sentence from a template with named placeholders. Without values, braces in the template stand for themselves."""
    return Text(template, values)


def plural(n: int, one: str, many: str, /, **values: Any) -> Text:
    """Choose between two templates by a number, which both may use as {n}."""
    return Text(one if n == 1 else many, {"n": n, **values})


def sentences(parts: Iterable[str]) -> Text:
    """Join whole sentences with spaces; empty ones are left out."""
    return _join([part for part in parts if part], " ")


def lines(parts: Iterable[str]) -> Text:
    """Join messages with newlines; empty ones are left out."""
    return _join([part for part in parts if part], "\n")


_AND = template("{items} and {last}")


def listing(items: Iterable[object], template: str = _AND) -> Text:
    """List names: "a", "a and b", "a, b and c". The template says how the last one is joined."""
    names = [item if isinstance(item, str) else str(item) for item in items]
    if len(names) < 2:
        return _join(names, "")
    return Text(str(template), {"items": _join(names[:-1], ", ", "i"), "last": names[-1]})


def _join(parts: "list[str]", separator: str, letter: str = "s") -> Text:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0]
    values = {f"{letter}{number}": part for number, part in enumerate(parts)}
    return Text(separator.join("{%s}" % name for name in values), values)


def pack_texts(output: Any) -> Any:
    """Return an answer with template and values of each Text in it, by its sentence, under the key "texts".

    Where the answer is not an object, it becomes one, with the key "answer". An answer without Texts stays as it is.
    """
    found: Dict[str, Any] = {}
    _collect(output, found)
    if not found:
        return output
    return {**output, "texts": found} if isinstance(output, dict) else {"answer": output, "texts": found}


def _collect(value: Any, found: Dict[str, Any]) -> None:
    if isinstance(value, Text):
        if value:
            found[value] = _parts(value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, (list, tuple)) and not (value and isinstance(value[0], (int, float))):
        for item in value:
            _collect(item, found)


def received(message: str, answer: Dict[str, Any]) -> str:
    """Return a sentence of another guest's answer as a Text, if it is one."""
    parts = answer.get("texts", {}).get(message)
    return _from_parts(parts) if parts else message


def _from_parts(parts: Dict[str, Any]) -> Text:
    values = {name: _from_parts(item) if isinstance(item, dict) else item for name, item in parts["values"].items()}
    return Text(parts["template"], values)


def _parts(message: Text) -> Dict[str, Any]:
    return {"template": message.template, "values": {name: _as_json(value) for name, value in message.values.items()}}


def _as_json(value: Any) -> Any:
    if isinstance(value, Text):
        return _parts(value)
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
