"""Sentences for people, kept as template and values until they are rendered. Standard library only: supervisors import it.

A `Text` is a `str`, so records, errors and tables hold it as any other string. It is in the language of the process, which
is English unless a command has chosen another (`use_translations`). It also remembers how it was made, so that `render` can
make the same sentence in another language when it is shown, and `in_english` the original for files and other processes:

    text("The driver {version} is too old for {framework}.", version="470.82", framework="torch 2.11")

Templates are literals and whole sentences; values are names and numbers, or other Texts. Where a template is chosen at
run time, each candidate is marked where it stands, so that all templates can be found for translation, and is filled
later:

    _ENDS = {"limit": template("{runtime} ended at its time limit."), "stop": template("{runtime} was stopped.")}
    _ENDS[reason].fill(runtime=name)

A finished sentence is never changed: no `upper`, no `rstrip`, no `+`. tests/test_templates.py checks all of this.

JSON between processes has a Text as the string that it is. `pack_texts` adds how the Texts in it were made, under the
key "texts", and `unpack_texts` makes them Texts again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "CONTROL_CHARACTERS",
    "Template",
    "Text",
    "edited",
    "english_document",
    "facts",
    "in_english",
    "is_translated",
    "listing",
    "pack_texts",
    "page_text",
    "plural",
    "read_template",
    "render",
    "restore_text",
    "sentence",
    "sentences",
    "template",
    "text",
    "text_of_table",
    "translated",
    "unpack_texts",
    "use_translations",
]

Translate = Callable[[str], str]

# The language of this process: None is English, in which templates are written.
_translate: Translate | None = None

# Spaces of a Chinese template beside a value (\\0) that is Chinese, too: templates have them for names and numbers.
_WIDE = "\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
_STOPS = "。？！：；，、（"
_SPACE_AT_VALUE = re.compile(
    rf"(?<=[{_WIDE}]) (?=\0+[{_WIDE}])|(?<=[{_WIDE}]\0) (?=\0?[{_WIDE}])|(?<=[{_STOPS}]) (?=\0)|(?<=[{_STOPS}]\0) | (?=\0?）)"
)
_SECOND_FULL_STOP = re.compile(r"([。？！])\0+[。]")

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
        shown = template if _translate is None else _translate(template)
        made = super().__new__(cls, _filled(shown, values, _translate is not None))
        made.template, made.values = template, values
        return made

    def __reduce__(self) -> tuple[type[Text], tuple[str, Mapping[str, Any]]]:
        return (type(self), (self.template, self.values))


class _Edited(Text):
    """A sentence with a change that is made to it in every language: another package manager's command, say."""

    __slots__ = ("change", "original")

    original: Text
    change: Callable[[str], str]

    def __reduce__(self) -> tuple[type[Text], tuple[str, Mapping[str, Any]]]:
        return (Text, (self.template, self.values))  # a change is a function; what it led to is kept in English


class Template(str):
    """A template that waits for its values."""

    __slots__ = ()

    def fill(self, /, **values: Any) -> Text:
        """Make the sentence."""
        return Text(str(self), values)


def template(words: str, /) -> Template:
    """Mark a literal as a template that is filled later."""
    return Template(words)


def read_template(kind: type, content: Any) -> Template:
    """Read a field of the type `Template` of a data file: the `dec_hook` of msgspec."""
    if kind is Template and isinstance(content, str):
        return Template(content)
    raise TypeError(f"expected a template, got {type(content).__name__}")


def text(template: str, /, **values: Any) -> Text:
    """Make a sentence from a template with named placeholders. Without values, braces in the template stand for themselves."""
    return Text(template, values)


def plural(n: int, one: str, many: str, /, **values: Any) -> Text:
    """Choose between two templates by a number, which both may use as {n}: plural(3, "one card", "{n} cards")."""
    return Text(one if n == 1 else many, {"n": n, **values})


def edited(message: str, change: Callable[[str], str]) -> str:
    """Change commands within a sentence. `change` is called with the sentence in each language in which it is shown.

    The one exception from "a finished sentence is never changed": `change` must not depend on a language's words.
    """
    if not isinstance(message, Text):
        return change(message)
    shown = change(str.__str__(message))
    if shown == message:
        return message
    made = str.__new__(_Edited, shown)
    made.template, made.values = change(in_english(message)), {}
    made.original, made.change = message, change
    return made


def sentence(message: str) -> str:
    """End a message with a period, unless it ends a sentence already."""
    return message if message.endswith((".", "?", "!", "。", "？", "！")) else text("{message}.", message=message)


def sentences(*parts: str | None) -> Text:
    """Join whole sentences with spaces; empty ones are left out."""
    return _joined([part for part in parts if part], " ")


def facts(*parts: str | None, separator: str = ", ") -> Text:
    """List the facts of one line; empty ones are left out. For facts that stand alone, not for parts of a sentence."""
    return _joined([part for part in parts if part], separator)


_AND = template("{items} and {last}")


def listing(items: Iterable[object], template: str = _AND) -> Text:
    """List names: "a", "a and b", "a, b and c". The template says how the last one is joined."""
    names = [item if isinstance(item, str) else str(item) for item in items]
    if len(names) < 2:
        return _joined(names, "")
    return Text(str(template), {"items": _joined(names[:-1], ", ", "i"), "last": names[-1]})


def text_of_table(words: str) -> Text:
    """Make a Text of a sentence of a table in catalog/data, which has no placeholders; extraction reads the tables."""
    return Text(words, {})


def page_text(page: str) -> Text:
    """Make a Text of a page: its paragraphs are the messages of the catalogue, so that a change of one leaves the others."""
    return _joined([Text(paragraph, {}) for paragraph in page.split("\n\n")], "\n\n")


def use_translations(translate: Translate | None) -> None:
    """Choose the language of the Texts that this process makes from now on; None: English.

    For commands, which speak one language: before they make their first Text. A server stays English and renders for each
    request.
    """
    global _translate
    _translate = translate


def is_translated() -> bool:
    """Whether the language of this process is another than English."""
    return _translate is not None


def translated(template: str) -> str:
    """Return a template, or words without placeholders, in the language of this process."""
    return template if _translate is None else _translate(template)


def _joined(parts: list[str], separator: str, letter: str = "s") -> Text:
    """Join strings so that Texts among them keep their templates. The names of the values say to a translation what is joined."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0]
    names = [f"{letter}{number}" for number in range(len(parts))]
    return Text(separator.join(f"{{{name}}}" for name in names), dict(zip(names, parts, strict=True)))


def render(message: str, translate: Translate) -> str:
    """Return a sentence in another language: its template translated, its values put in, Texts among them likewise."""
    if not isinstance(message, Text):
        return message
    if isinstance(message, _Edited):
        return message.change(render(message.original, translate))
    values = {
        name: render(value, translate) if isinstance(value, str) else value for name, value in message.values.items()
    }
    return _filled(translate(message.template), values, translate is not str)


def _filled(template: str, values: Mapping[str, Any], is_translation: bool) -> str:
    """Put values into a template. In a translation, no space and no second full stop stands between Chinese and Chinese."""
    if not values:
        return template
    made = template.format_map(values)
    if made.isascii() or not is_translation:
        return made
    from string import Formatter  # English has no need of it

    # Each value between marks: spaces within it are its own.
    marked = "".join(
        f"{words}\0{_filled_field(field, values)}\0" if field[0] is not None else words
        for words, *field in Formatter().parse(template)
    )
    return _SECOND_FULL_STOP.sub(r"\1", _SPACE_AT_VALUE.sub("", marked)).replace("\0", "")


def _filled_field(field: Sequence[str | None], values: Mapping[str, Any]) -> str:
    name, form, conversion = field
    return f"{{{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}".format_map(values)


def in_english(message: str) -> str:
    """Return a sentence as it was written: for files, and for other programs, whatever the language of this process is."""
    return render(message, str) if isinstance(message, Text) else str.__str__(message)


def english_document(value: Any) -> Any:
    """Return JSON values with their Texts in English: for files, and for other programs."""
    if _translate is None or value is None or isinstance(value, int | float | bytes):
        return value
    if isinstance(value, str):
        return in_english(value)
    if isinstance(value, Mapping):
        return {name: english_document(item) for name, item in value.items()}
    return [english_document(item) for item in value] if isinstance(value, list | tuple) else value


# --- between processes ------------------------------------------------------------------------------------------------

_TEXTS = "texts"
_DEEPEST = 20  # levels of a document, and of Texts within Texts
# The placeholders that are accepted from another process: a name, with a short format at most. Attributes and indices
# could read what is not in the values, and a long width could take all memory.
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{[A-Za-z_]\w{0,40}(?::\d{0,2},?(?:\.\d{1,2})?[A-Za-z%]?)?\}")


def pack_texts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the additional key "texts": template and values of each Text in it, by its sentence."""
    found: dict[str, Any] = {}
    _collect(document, found, _DEEPEST)
    plain = english_document(document)
    return {**plain, _TEXTS: found} if found else dict(plain)


def _collect(value: Any, found: dict[str, Any], depth: int) -> None:
    if isinstance(value, Text):
        if value:
            found[in_english(value)] = _parts(value)
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            _collect(item, found, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            _collect(item, found, depth - 1)


def _parts(message: Text) -> dict[str, Any]:
    return {"template": message.template, "values": {name: _as_json(value) for name, value in message.values.items()}}


def _as_json(value: Any) -> Any:
    if isinstance(value, Text):
        return _parts(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def unpack_texts(document: dict[str, Any]) -> dict[str, Any]:
    """Return a received JSON object without the key "texts", and with its sentences as Texts."""
    if _TEXTS not in document:
        return document
    texts = document[_TEXTS]
    content = {name: value for name, value in document.items() if name != _TEXTS}
    if not isinstance(texts, dict):
        return content
    return {name: _restore(value, texts, _DEEPEST) for name, value in content.items()}


def _restore(value: Any, texts: Mapping[str, Any], depth: int) -> Any:
    if isinstance(value, str):
        return restore_text(value, texts.get(value))
    if depth and isinstance(value, dict):
        return {name: _restore(item, texts, depth - 1) for name, item in value.items()}
    if depth and isinstance(value, list) and not (value and isinstance(value[0], int | float)):
        return [_restore(item, texts, depth - 1) for item in value]
    return value


def restore_text(message: str, parts: object) -> str:
    """Make a received sentence a Text if its template and values yield exactly this sentence; otherwise return it unchanged."""
    try:
        made = _from_parts(parts, _DEEPEST)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        made = None
    return made if made is not None and in_english(made) == message else str.__str__(message)


def _from_parts(parts: object, depth: int) -> Text | None:
    template, values = (parts.get("template"), parts.get("values")) if isinstance(parts, dict) else (None, None)
    if not isinstance(template, str) or not isinstance(values, dict) or not depth:
        return None
    if values and set(_PLACEHOLDER.sub("", template)) & set("{}"):
        return None
    made = {}
    for name, value in values.items():
        made[name] = _from_parts(value, depth - 1) if isinstance(value, dict) else value
        if isinstance(made[name], list) or (made[name] is None and value is not None):
            return None
    return Text(template, made)
