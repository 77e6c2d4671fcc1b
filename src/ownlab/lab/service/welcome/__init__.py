"""The notebook that a new lab begins with."""

from __future__ import annotations

import itertools
import os

from ownlab.errors import LabError

__all__ = ["WELCOME", "has_notebooks", "place_welcome"]

WELCOME = "welcome.ipynb"

# A home or a data folder may hold millions of files: so many names are looked at, in the folder and one level below.
_NAMES = 5_000


def place_welcome(folder: str) -> bool:
    """Put the welcome notebook into a folder without notebooks; whether it was put there."""
    if has_notebooks(folder):
        return False
    from importlib import resources  # only needed in a new folder

    # Named .json in the package, so that no tool takes a template for a notebook of ours.
    text = resources.files(__package__).joinpath("welcome.json").read_bytes()
    try:
        with open(os.path.join(folder, WELCOME), "xb") as file:
            file.write(text)
    except FileExistsError:
        return False
    except OSError as exc:
        raise LabError(f"the welcome notebook cannot be written: {exc}") from exc
    return True


def has_notebooks(folder: str) -> bool:
    """Whether there is a notebook in the folder, or in one of its folders."""
    names = _names(folder)
    folders = (os.path.join(folder, name) for name in names if not name.startswith("."))
    below = itertools.chain.from_iterable(map(_names, itertools.islice(folders, _NAMES)))
    return any(name.endswith(".ipynb") for name in itertools.islice(itertools.chain(names, below), _NAMES))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # a file, or a folder that is closed to us
