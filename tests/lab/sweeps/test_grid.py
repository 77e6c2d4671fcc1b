"""The combinations of a sweep."""

from __future__ import annotations

import pytest

from ownlab.errors import UsageError
from ownlab.lab.sweeps.grid import combinations, describe


def test_several_names_combine_and_the_last_changes_fastest() -> None:
    found = combinations(["lr=1e-3,1e-4", "--bs=32, 64"])
    assert list(map(describe, found)) == ["lr=1e-3 bs=32", "lr=1e-3 bs=64", "lr=1e-4 bs=32", "lr=1e-4 bs=64"]


def test_commas_in_brackets_and_quotes_belong_to_the_value() -> None:
    (axis,) = [[each["x"] for each in combinations([given])] for given in ["x=[1,2],(3,4),'a,b',5,5"]]
    assert axis == ["[1,2]", "(3,4)", "'a,b'", "5"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["lr"], "NAME=VALUE"),
        (["=1"], "NAME=VALUE"),
        (["l r=1"], "NAME=VALUE"),
        (["lr=1,,2"], "empty value"),
        (["lr="], "empty value"),
        (["lr=1", "lr=2"], "twice"),
        ([f"{name}={','.join(map(str, range(30)))}" for name in "abc"], "more than 10000"),
    ],
)
def test_what_is_no_grid_is_refused(given: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        combinations(given)
