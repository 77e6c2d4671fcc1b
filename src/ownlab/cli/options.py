"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ownlab.languages import LANGUAGE_OPTION

__all__ = ["json_below", "json_option", "language_variables", "machine_options"]

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """Add --json, the same for every command."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(function)


def json_below(context: click.Context, as_json: bool) -> None:
    """Make `ownlab GROUP --json COMMAND` equal to `ownlab GROUP COMMAND --json`."""
    assert isinstance(context.command, click.Group)
    context.default_map = {name: {"as_json": as_json} for name in context.command.commands}


def language_variables() -> dict[str, str]:
    """Return the variable by which kernels and terminals speak the language of --lang, if it was given."""
    chosen = click.get_current_context().meta.get(LANGUAGE_OPTION)
    return {"OWNLAB_LANG": str(chosen)} if chosen else {}


def machine_options(function: F) -> F:
    """Add --machine and --python."""
    function = click.option(
        "--machine",
        metavar="FILE",
        help="Use a machine saved with `ownlab machine --save` instead of this one (also OWNLAB_MACHINE).",
    )(function)
    return click.option(
        "--python",
        metavar="PATH",
        help="The Python whose frameworks are checked: an interpreter, or the folder or the name of an environment. "
        "Default: the active environment (also OWNLAB_PYTHON).",
    )(function)
