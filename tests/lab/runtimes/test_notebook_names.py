"""Which runtime a person means who names a notebook."""

from __future__ import annotations

import pytest

from ownlab.lab.runtimes.notebook_names import is_notebook, is_run_of


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [
        ("/work/train.ipynb", "train.ipynb", True),
        ("/work/train.ipynb", "work/train.ipynb", True),
        ("/work/train.ipynb", "rain.ipynb", False),
        ("/work/train.ipynb", "other/train.ipynb", False),
        ("", "", False),
    ],
)
def test_a_notebook_is_named_by_the_end_of_its_path(path: str, name: str, meant: bool) -> None:
    assert is_notebook(path, name) == meant


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [
        ("/work/train-run.ipynb", "train.ipynb", True),
        ("/work/train-run-12.ipynb", "work/train", True),
        ("/work/train-run-12.ipynb", "train-run.ipynb", False),
        ("/work/train-run-old.ipynb", "train.ipynb", False),
        ("/work/my-train-run.ipynb", "train.ipynb", False),
        ("/work/train.ipynb", "train.ipynb", False),
        ("/work/-run.ipynb", "", False),
    ],
)
def test_a_run_is_named_by_its_notebook(path: str, name: str, meant: bool) -> None:
    assert is_run_of(path, name) == meant
