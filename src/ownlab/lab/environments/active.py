"""The environment that is active where `ownlab up` is called: offered as a runtime type without being asked."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping

from ownlab.config.machine_options import OWN_PYTHON, resolve_machine_options
from ownlab.errors import OwnlabError
from ownlab.lab.environments.registry import (
    DEFAULT,
    add_offered,
    is_declined,
    list_environments,
)
from ownlab.text import sentences, text

__all__ = ["offer_active"]

# Names of folders that say nothing about what is in them: the folder around them is the project.
_MEANINGLESS = ("venv", "env", "virtualenv")
_LONGEST = 36  # leaves room for a number


def offer_active(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Add the active virtual environment, and that of conda, to the list of environments; return what people should know.

    One that a person removed from the list is not added again, and ownlab's own is always available.
    """
    return [notice for python, folder in _active(environ) if (notice := _offer(python, folder, environ))]


def _offer(python: str, folder: str, environ: Mapping[str, str]) -> str:
    try:
        known = list_environments(environ)
        if any(each.python == python for each in known) or is_declined(python, environ):
            return ""
        name = _name(folder, {DEFAULT, *(each.name for each in known)})
        add_offered(name, python, environ)
    except OwnlabError as exc:  # without ipykernel, for example; the lab works without it
        active = text("The active environment {folder} is not offered as a runtime type.", folder=folder)
        return sentences(active, exc.message, exc.hint)
    return text(
        "The active environment {folder} is offered as the runtime type {name}. To remove it: ownlab env remove {name}",
        folder=folder,
        name=name,
    )


def _active(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield interpreter and folder of each active environment other than ownlab's own."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        options = resolve_machine_options(environ={variable: environ.get(variable, "")})
        folder = environ.get(variable, "")
        if options.python_origin != OWN_PYTHON and not os.path.samefile(folder, sys.prefix):
            yield os.path.abspath(options.python), os.path.abspath(folder)


def _name(folder: str, taken: Collection[str]) -> str:
    parent, base = os.path.split(folder)
    if base.strip(".").lower() in _MEANINGLESS:
        base = os.path.basename(parent)
    slug = re.sub(r"[^a-z0-9]+", "-", base.lower()).strip("-")[:_LONGEST].rstrip("-") or "active"
    number, name = 1, slug
    while name in taken:
        number += 1
        name = f"{slug}-{number}"
    return name
