"""Notebooks that come with ownlab: the examples of the start page.

index.json       title, description, minutes and packages of each example, in the order of the start page
NAME.json        the notebook NAME; named .json, so that no tool takes the template for a notebook of the user
zh_CN/NAME.json  the same in Chinese: prose, titles of forms, comments and sentences in strings; the code is equal

Labels of plots are English everywhere: matplotlib's own font has no Chinese characters.
"""

from __future__ import annotations

import os
from functools import cache

import msgspec

from ownlab.errors import LabError, UsageError
from ownlab.languages import ENGLISH, PSEUDO
from ownlab.text import Template, read_template, text

__all__ = ["Example", "list_examples", "place_example", "read_example"]

# Below the lab's folder.
EXAMPLES = "examples"
# The pseudo-language of translators has accents on templates only.
_UNTRANSLATED = (ENGLISH, PSEUDO)


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One example as the start page lists it."""

    name: str
    title: str
    description: str
    minutes: int  # at most this long on a CPU
    packages: tuple[str, ...] = ()  # what has to be importable, beside the standard library and ownlab


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One example in index.json."""

    name: str
    title: Template
    description: Template
    minutes: int
    packages: tuple[str, ...]


@cache
def list_examples() -> tuple[Example, ...]:
    """Return the examples in the order in which they are listed. Titles and descriptions are Texts."""
    entries = msgspec.json.decode(_read("index.json"), type=tuple[_Entry, ...], dec_hook=read_template)
    return tuple(
        Example(entry.name, entry.title.fill(), entry.description.fill(), entry.minutes, entry.packages)
        for entry in entries
    )


def read_example(name: str, language: str = ENGLISH) -> bytes:
    """Return the notebook of an example; in English if there is none in the language. UsageError if no example has this name."""
    if name not in {example.name for example in list_examples()}:
        names = ", ".join(example.name for example in list_examples())
        raise UsageError(text("There is no example {name}. The examples are: {names}.", name=name, names=names))
    return _read(f"{name}.json" if language in _UNTRANSLATED else f"{language}/{name}.json")


def place_example(folder: str, name: str, language: str = ENGLISH) -> str:
    """Copy an example into the lab's folder unless it is there; return its path relative to the folder.

    A copy that exists is the user's own, in whatever language: it is never overwritten.
    """
    content = read_example(name, language)
    path = os.path.join(EXAMPLES, f"{name}.ipynb")
    try:
        os.makedirs(os.path.join(folder, EXAMPLES), exist_ok=True)
        _write_new(os.path.join(folder, path), content)
    except OSError as exc:
        raise LabError(text("Cannot write the example {path}: {reason}.", path=path, reason=exc.strerror)) from exc
    return path


def _read(file: str) -> bytes:
    from importlib import resources

    return resources.files(__package__).joinpath(file).read_bytes()


def _write_new(path: str, content: bytes) -> bool:
    """Whether it was written: a file that exists stays as it is, and one that cannot be written in full is removed."""
    try:
        file = open(path, "xb")  # noqa: SIM115  # whether it existed must be known before anything is removed
    except FileExistsError:
        return False
    try:
        with file:
            file.write(content)
    except OSError:
        os.unlink(path)
        raise
    return True
