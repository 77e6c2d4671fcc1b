"""The tree of errors: every class is in its drawing, and has a code of its own kind."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ownlab import errors
from ownlab.errors import OwnlabError


def tree(root: type[OwnlabError]) -> Iterator[type[OwnlabError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def test_the_drawing_at_the_top_is_true() -> None:
    drawn = dict(re.findall(r"(\w+) +(\d)   ", errors.__doc__ or ""))
    assert drawn == {kind.__name__: str(kind.exit_code) for kind in tree(OwnlabError)}


def test_all_names_are_public() -> None:
    assert sorted(kind.__name__ for kind in tree(OwnlabError)) == errors.__all__


def test_exit_codes_are_those_that_the_help_promises() -> None:
    assert errors.DeviceUnusable.exit_code == 1
    assert errors.UsageError.exit_code == 2
    assert errors.InputError.exit_code == 3
    assert errors.InterpreterError.exit_code == 4
