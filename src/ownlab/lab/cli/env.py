"""`ownlab env`: the Python environments that runtimes can start in."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Iterator
from types import FrameType

import click

from ownlab.atomic_files import write_file
from ownlab.cli.options import json_below, json_option
from ownlab.errors import LabError, UsageError
from ownlab.lab.environments.builder import BuildCancelled, EnvironmentBuilder
from ownlab.lab.environments.builds import (
    EnvironmentDocument,
    build_lock,
    complete_request,
    environment_states,
    is_ready,
    read_build,
    remove_environment_or_build,
)
from ownlab.lab.environments.offline import create_command
from ownlab.lab.environments.presets import package_name
from ownlab.lab.environments.records import NewEnvironment
from ownlab.lab.environments.registry import (
    add_environment,
    find_python,
    list_environments,
)
from ownlab.lab.environments.uv import find_uv
from ownlab.lab.runtimes.runtime_types import refresh_specs
from ownlab.lab.terminal.environments import ProgressLines, follow_build, show_environments
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]


@click.group("env", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Let notebooks run in Python environments: your own, and those that ownlab creates.

    Each environment gets its own runtime types: on the CPU and on each card. It needs ipykernel, but not ownlab.

    \b
    ownlab env create dl --with torch              torch, torchvision, transformers: the build for this driver and card
    ownlab env create stats --with polars --with 'duckdb>=1'
    ownlab env add torch --python ~/envs/torch     the folder of an environment, or an interpreter
    ownlab env add torch                           the active environment
    ownlab env list
    ownlab env export dl > requirements.txt
    ownlab env update dl
    ownlab env remove dl                           deletes what ownlab created; an added one is only taken from the list
    """
    json_below(context, as_json)
    if context.invoked_subcommand is None:
        _show(as_json)


@command.command("create")
@click.argument("name")
@click.option(
    "--with",
    "packages",
    multiple=True,
    metavar="PACKAGE",
    help="A package as pip names it; may be repeated. torch also brings torchvision, transformers and accelerate.",
)
@click.option("--python", metavar="VERSION|PATH", default="", help="Default: the Python of ownlab.")
@click.option("--lock", "descriptor", type=int, hidden=True)
@json_option
def create(name: str, packages: tuple[str, ...], python: str, descriptor: int | None, as_json: bool) -> None:
    """Create an environment as NAME, or continue an interrupted creation.

    It contains numpy, pandas, matplotlib, scikit-learn, pillow, tqdm and ipywidgets beside the named packages, and is built by
    uv. torch is the newest build for this machine's driver and card; a matrix product proves it.

    \b
    ownlab env create deep-learning --with torch
    ownlab env create vision --with torch --with timm --python 3.12
    """
    request = complete_request(_request(name, packages, python))
    if descriptor is None and is_ready(name):
        click.echo(text("{name} is ready already. To update it: ownlab env update {name}", name=name), err=True)
    else:
        _build(request, inherited=descriptor)
    _finish(name, as_json)


def _request(name: str, packages: tuple[str, ...], python: str) -> NewEnvironment:
    if not packages and not python:
        before = read_build(name)
        return before.request if before is not None else NewEnvironment(name, "default")
    torch = any(package_name(each) == "torch" for each in packages)
    others = tuple(each for each in packages if each.strip().lower() != "torch")
    return NewEnvironment(name, "deep-learning" if torch else "default", others, python)


@command.command("update")
@click.argument("name")
@json_option
def update(name: str, as_json: bool) -> None:
    """Install the newest versions into an environment that ownlab created.

    \b
    ownlab env update dl
    """
    build = read_build(name)
    if build is None or not any(each.name == name and each.created for each in list_environments()):
        raise UsageError(
            text("ownlab has not created an environment named {name!r}.", name=name),
            hint=text("An environment that was added is updated by the tool that made it."),
        )
    _build(build.request, upgrade=True)
    _finish(name, as_json)


def _build(request: NewEnvironment, *, inherited: int | None = None, upgrade: bool = False) -> None:
    """Build in this process; if another one builds it already, follow that."""
    lines = ProgressLines(request.name, lambda line: click.echo(line, err=True))
    with _cancelled_by_signals(), build_lock(request.name, inherited=inherited) as taken:
        if taken:
            try:
                EnvironmentBuilder(request, lines.show, upgrade=upgrade, registered=refresh_specs).run()
            except (KeyboardInterrupt, BuildCancelled) as exc:
                raise LabError(
                    text("The creation of {name} was stopped. What was downloaded is kept.", name=request.name),
                    hint=text("Continue: {command}", command=create_command(request)),
                ) from exc
            return
    _follow(request.name)


def _follow(name: str) -> None:
    click.echo(text("{name} is being built already. This is its progress:", name=name), err=True)
    build = follow_build(name, lambda line: click.echo(line, err=True))
    if build is None or build.outcome != "ready":
        raise LabError(text("The environment {name} was not built.", name=name))


@contextlib.contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Let SIGTERM (from the page) and SIGHUP end a build as Ctrl-C does: recorded, and without uv left behind."""

    def cancel(number: int, frame: FrameType | None) -> None:
        raise BuildCancelled(text("The creation was cancelled."))

    before = {number: signal.signal(number, cancel) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finish(name: str, as_json: bool) -> None:
    if as_json:
        found = tuple(each for each in environment_states().environments if each.name == name)
        listed = tuple(each for each in list_environments() if each.name == name)
        echo_record(EnvironmentDocument(listed, states=found))


@command.command("add")
@click.argument("name")
@click.option(
    "--python",
    metavar="PATH",
    help="An interpreter or the folder of an environment. Default: the active environment (also OWNLAB_PYTHON).",
)
@json_option
def add(name: str, python: str | None, as_json: bool) -> None:
    """Add an environment as NAME (lower-case letters, digits, hyphens).

    \b
    ownlab env add torch --python ~/envs/torch     a folder or an interpreter
    ownlab env add torch                           the active environment
    """
    with working(text("Checking the interpreter")):
        added = add_environment(name, find_python(python))
        refresh_specs()
    if as_json:
        echo_record(EnvironmentDocument((added,)))
    else:
        message = text(
            "Added {name}: Python {version} with ipykernel {ipykernel}, {python}.",
            name=name,
            version=added.version,
            ipykernel=added.ipykernel,
            python=added.python,
        )
        click.echo(message)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the environments that were added or created.

    \b
    ownlab env list
    """
    _show(as_json)


@command.command("export")
@click.argument("name")
@click.option("--output", "-o", metavar="FILE", help="Write to a file. Default: print it.")
@json_option
def export(name: str, output: str | None, as_json: bool) -> None:
    """Print the packages of an environment with their exact versions, as requirements for pip and uv.

    \b
    ownlab env export dl > requirements.txt
    ownlab env export dl -o requirements.txt
    """
    from ownlab.lab.environments.export import export_environment, requirements_text

    found = export_environment(name)
    if as_json:
        echo_record(found)
    elif output:
        write_file(output, requirements_text(found).encode())
    else:
        sys.stdout.write(requirements_text(found))


@command.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove an environment. The files of one that ownlab created are deleted; an added one is only taken from the list.

    \b
    ownlab env remove dl
    """
    unlisted = remove_environment_or_build(name)
    refresh_specs()
    if as_json:
        _show(as_json)
    elif unlisted is None:
        click.echo(text("Removed {name} and its files.", name=name))
        with contextlib.suppress(LabError):  # uv is gone: its cache, too, or nobody knows where it is
            clean = f"{shlex.quote(find_uv())} cache clean"
            click.echo(
                text("What was downloaded stays in uv's cache. This frees that space, too: {clean}", clean=clean)
            )
    else:
        click.echo(
            text("Removed {name}. The environment itself was not deleted: {python}", name=name, python=unlisted.python)
        )


def _show(as_json: bool) -> None:
    states = environment_states().environments
    if as_json:
        echo_record(EnvironmentDocument(list_environments(), states=states))
    else:
        show_environments(states, console())
