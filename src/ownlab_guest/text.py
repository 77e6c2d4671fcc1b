"""Sentences for people, kept as template and values. The host makes an `ownlab.text.Text` of them, which can be translated.

A `Text` is a `str`, so answers hold it as any other string: `pack_texts` adds templates and values next to it.

Texts of a guest are English. What a kernel itself shows to a person, in an error or below a cell, goes through `shown`, which
translates it where `speak` has chosen a language.
"""

import os
import re
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Type

__all__ = [
    "Template",
    "Text",
    "lines",
    "listing",
    "pack_texts",
    "plural",
    "received",
    "sentences",
    "shown",
    "speak",
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


# --- in the language of a kernel --------------------------------------------------------------------------------------

# None: English.
_language: "Optional[str]" = None
_translate: "Optional[Callable[[str], str]]" = None
# As in ownlab.text: no space and no second full stop between Chinese and a Chinese value, which stands between two \0.
_WIDE = "\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
_STOPS = "。？！：；，、（"
_SPACE_AT_VALUE = re.compile(
    "(?<=[{0}]) (?=\0+[{0}])|(?<=[{0}]\0) (?=\0?[{0}])|(?<=[{1}]) (?=\0)|(?<=[{1}]\0) | (?=\0?）)".format(_WIDE, _STOPS)
)
_SECOND_FULL_STOP = re.compile("([。？！])\0+[。]")


def speak(language: str) -> None:
    """Choose the language of `shown` in this process; the catalogue is read when the first sentence is shown."""
    global _language, _translate
    _language, _translate = None if language == "en" else language, None


def shown(message: str) -> str:
    """Return a sentence in the language of this kernel, where one was chosen: for errors and prints, not for files and other processes."""
    if _language is None or not isinstance(message, Text):
        return message
    return _in_language(message, _translate or _read_catalogue(_language))


def _read_catalogue(language: str) -> "Callable[[str], str]":
    import gettext

    global _translate
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ownlab", "locale")
    _translate = gettext.translation("ownlab", folder, [language], fallback=True).gettext
    return _translate


def _in_language(message: Text, translate: "Callable[[str], str]") -> str:
    template = translate(message.template) if message.template else ""
    if not message.values:
        return template
    if template == message.template and template.startswith("{i0}, "):  # a list of names, as `listing` joins them
        template = template.replace(", ", "、")
    values = {
        name: _in_language(value, translate) if isinstance(value, Text) else value
        for name, value in message.values.items()
    }
    from string import Formatter  # English has no need of it

    parts = []
    for words, name, form, conversion in Formatter().parse(template):
        parts.append(words)
        if name is not None:
            field = "{%s%s%s}" % (name, "!" + conversion if conversion else "", ":" + form if form else "")
            parts.append("\0%s\0" % field.format_map(values))
    made = "".join(parts)
    return _SECOND_FULL_STOP.sub(r"\1", _SPACE_AT_VALUE.sub("", made)).replace("\0", "")
