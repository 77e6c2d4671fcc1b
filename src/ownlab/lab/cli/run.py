"""`ownlab run`: run this notebook without me."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from ownlab.cli.options import json_option
from ownlab.errors import InputError, OwnlabError, UsageError

if TYPE_CHECKING:
    from ownlab.lab.runs.records import Outcome
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.runs.validation import PreparedRun
    from ownlab.lab.terminal.run import TerminalReporter

# What runs a notebook is imported when it is called: so `--help` is quick, and while a kernel starts the rest comes.

__all__ = ["command"]

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotebookCommand(click.Command):
    """Its help lists the parameters of the notebook that is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(name in args for name in ctx.help_option_names):
            # Without processing them: `--help` comes first, wherever it stands.
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            ctx.meta["notebook"] = given.get("notebook")
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        notebook = ctx.meta.get("notebook")
        if isinstance(notebook, str):
            _list_parameters(notebook, formatter)
        else:
            super().format_epilog(ctx, formatter)


@click.command("run", cls=NotebookCommand, epilog="`ownlab run NOTEBOOK --help` lists the notebook's parameters too.")
@click.argument("notebook")
@click.option(
    "-p", "parameters", metavar="NAME=VALUE", multiple=True, help="Set a field of the notebook's forms (#@param)."
)
@click.option(
    "--parameters", "file", metavar="FILE", help="A JSON object with the values of fields; -p goes before it."
)
@click.option(
    "-t", "--type", "kind", metavar="TYPE", help="The runtime type (`ownlab types`). Default: the notebook's."
)
@click.option(
    "-o", "--output", metavar="FILE", help="The notebook with the outputs. Default: NAME-run.ipynb beside it."
)
@click.option("--force", is_flag=True, help="Overwrite the output.")
@click.option("--inplace", is_flag=True, help="Write the outputs into NOTEBOOK itself.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it where a cell runs longer."
)
@click.option("--allow-errors", is_flag=True, help="Go on after a cell that fails.")
@click.option("--keep", is_flag=True, help="Where a cell fails, keep the runtime with all that it holds.")
@click.option("--from-failed", is_flag=True, help="Go on in a runtime that was kept, from the cell that failed.")
@click.option("--detach", is_flag=True, help="Go to the background once the runtime has started.")
@click.option("--wait/--no-wait", default=True, help="Wait for a card that is taken, or fail.  [default: wait]")
@click.option("--uploads", metavar="FOLDER", help="Where files.upload() of the notebook takes files from.")
@click.option("--outputs", metavar="FOLDER", help="Where files.download() of the notebook puts files.")
@click.option("--restore-packages", is_flag=True, help="Install first what the notebook remembers and is missing.")
@json_option
def command(
    notebook: str, parameters: tuple[str, ...], file: str | None, kind: str | None, detach: bool, as_json: bool,
    **rest: Any,
) -> int:  # fmt: skip
    """Run NOTEBOOK from its first cell to its last, without a page.

    NOTEBOOK is not changed: a copy with the parameters and all outputs is written. Cells run in NOTEBOOK's folder. A lab
    that serves this folder shows the copy while it runs. Ctrl-C interrupts the cell and ends the run.

    Exit codes: 0 done, 1 a cell failed, 2 wrong usage, 3 the notebook or the runtime cannot be used, 5 a cell format_elapsed too long.
    """
    from ownlab.lab.runs.preparation import RunRequest
    from ownlab.lab.runs.validation import prepare_run

    values = {**_read_parameters(file), **dict(_split(each) for each in parameters)}
    ready = prepare_run(RunRequest(notebook, parameters=values, type=kind, **rest))
    return _in_background(ready, as_json) if detach else _run(ready, as_json)


def _run(ready: PreparedRun, as_json: bool) -> int:
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.terminal.run import TerminalReporter, describe_end

    stop = Stop()
    outcome = _run_to_end(ready, TerminalReporter(sys.stderr), stop)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(outcome.report)
    elif outcome.error is None:
        click.echo(describe_end(outcome.report))
    return 128 + stop.signum if stop.signum else outcome.exit_code


def _run_to_end(ready: PreparedRun, reporter: TerminalReporter, stop: Stop) -> Outcome:
    from ownlab.lab.runs.run import run

    outcome = run(ready, reporter, stop, signals=_STOPS, update_elsewhere=_update_elsewhere)
    reporter.ended(outcome, f"ownlab run {shlex.quote(ready.request.notebook)} --from-failed")
    return outcome


def _in_background(ready: PreparedRun, as_json: bool) -> int:
    from ownlab.lab.runs.background import detach
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.terminal.run import BackgroundReporter, describe_start

    report = detach(
        ready.runtime, lambda say: _run_to_end(ready, BackgroundReporter(sys.stderr, say), Stop()).exit_code
    )
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(report)
    else:
        click.echo(describe_start(report))
    return 0


def _update_elsewhere(notebook: str) -> bool:
    """A lab that is up may have the output open."""
    from ownlab.lab.service.http_client import update_through_lab

    return update_through_lab(notebook)


def _split(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"-p {given}: it is written NAME=VALUE", hint="For example: -p epochs=3")
    return name.strip(), value


def _read_parameters(file: str | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        with open(file, "rb") as opened:
            found = json.loads(opened.read())
    except OSError as exc:
        raise InputError(f"{file} cannot be read: {exc.strerror}") from exc
    except ValueError as exc:
        raise InputError(f"{file} is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise InputError(f'{file} holds no parameters: it has to be an object, as {{"epochs": 3}}')
    return found


def _list_parameters(notebook: str, formatter: click.HelpFormatter) -> None:
    from ownlab.lab.notebooks.files import read_notebook
    from ownlab.lab.terminal.run import describe_parameters

    try:
        rows, words = describe_parameters(read_notebook(notebook)), "None: no cell has a field (#@param)."
    except OwnlabError as exc:
        rows, words = [], f"{exc.message}."
    with formatter.section(f"Parameters of {os.path.basename(notebook)}"):
        if rows:
            formatter.write_dl(rows)
        else:
            formatter.write_text(words)
