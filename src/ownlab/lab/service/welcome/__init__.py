"""The notebook in a new lab."""

from __future__ import annotations

import itertools
import os

from ownlab.errors import LabError
from ownlab.text import text

__all__ = ["WELCOME", "has_notebooks", "place_welcome"]

WELCOME = "welcome.ipynb"

# A home or data folder may contain millions of files: at most this many names are checked, one level deep.
_NAMES = 5_000


def place_welcome(folder: str) -> bool:
    """Write the welcome notebook into a folder without notebooks; whether it was written."""
    if has_notebooks(folder):
        return False
    from importlib import resources  # only needed in a new folder

    # Named .json in the package, so that no tool takes the template for a notebook.
    content = resources.files(__package__).joinpath("welcome.json").read_bytes()
    try:
        with open(os.path.join(folder, WELCOME), "xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    except OSError as exc:
        raise LabError(text("Cannot write the welcome notebook: {reason}.", reason=exc)) from exc
    return True


def has_notebooks(folder: str) -> bool:
    """Whether the folder, or one of its folders, contains a notebook."""
    names = _names(folder)
    folders = (os.path.join(folder, name) for name in names if not name.startswith("."))
    below = itertools.chain.from_iterable(map(_names, itertools.islice(folders, _NAMES)))
    return any(name.endswith(".ipynb") for name in itertools.islice(itertools.chain(names, below), _NAMES))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # a file, or an unreadable folder
