"""`ownlab run`: run a notebook without a browser."""

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
from ownlab.text import sentence, text

if TYPE_CHECKING:
    from ownlab.lab.runs.records import Outcome
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.runs.validation import PreparedRun
    from ownlab.lab.terminal.run import TerminalReporter

# Imports are deferred: `--help` stays fast, and the rest is imported while the kernel starts.

__all__ = ["command"]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotebookCommand(click.Command):
    """A command whose help lists the parameters of the given notebook."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(name in args for name in ctx.help_option_names):
            # Parse without processing: `--help` takes precedence wherever it stands.
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            ctx.meta["notebook"] = given.get("notebook")
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        notebook = ctx.meta.get("notebook")
        if isinstance(notebook, str):
            _list_parameters(notebook, formatter)
        else:
            super().format_epilog(ctx, formatter)


@click.command("run", cls=NotebookCommand, epilog="`ownlab run NOTEBOOK --help` also lists the notebook's parameters.")
@click.argument("notebook")
@click.option(
    "-p", "parameters", metavar="NAME=VALUE", multiple=True, help="Set a field of the notebook's forms (#@param)."
)
@click.option("--parameters", "file", metavar="FILE", help="JSON file with the values of fields; -p overrides it.")
@click.option(
    "-t", "--type", "kind", metavar="TYPE", help="Runtime type (see `ownlab types`). Default: the notebook's own."
)
@click.option(
    "-o", "--output", metavar="FILE", help="Where to write the notebook with its outputs. Default: NAME-run.ipynb."
)
@click.option("--force", is_flag=True, help="Overwrite an existing output file.")
@click.option("--inplace", is_flag=True, help="Write the outputs into NOTEBOOK itself.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop the run if a cell takes longer.",
)
@click.option("--allow-errors", is_flag=True, help="Continue after a cell that fails.")
@click.option("--keep", is_flag=True, help="If a cell fails, keep the runtime with all its variables.")
@click.option("--from-failed", is_flag=True, help="Continue in a kept runtime, from the failed cell.")
@click.option("--detach", is_flag=True, help="Continue in the background once the runtime has started.")
@click.option("--wait/--no-wait", default=True, help="Wait if the card is in use, or fail.  [default: wait]")
@click.option("--uploads", metavar="FOLDER", help="Folder from which files.upload() in the notebook takes files.")
@click.option("--outputs", metavar="FOLDER", help="Folder in which files.download() in the notebook puts files.")
@click.option("--restore-packages", is_flag=True, help="First install missing packages that the notebook has recorded.")
@json_option
def command(
    notebook: str, parameters: tuple[str, ...], file: str | None, kind: str | None, detach: bool, as_json: bool,
    **rest: Any,
) -> int:  # fmt: skip
    """Run all cells of NOTEBOOK, without a browser.

    NOTEBOOK itself is not changed: the parameters and all outputs are written to a copy. Cells run in NOTEBOOK's folder. A
    lab that serves this folder shows the copy while it runs. Ctrl-C interrupts the cell and stops the run.

    Exit codes: 0 done, 1 a cell failed, 2 wrong usage, 3 the notebook or the runtime cannot be used, 5 a cell took too long.
    """
    from ownlab.lab.runs.preparation import RunRequest
    from ownlab.lab.runs.validation import prepare_run

    values = {**_read_parameters(file), **dict(_split(each) for each in parameters)}
    prepared = prepare_run(RunRequest(notebook, parameters=values, type=kind, **rest))
    return _in_background(prepared, as_json) if detach else _run(prepared, as_json)


def _run(prepared: PreparedRun, as_json: bool) -> int:
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.terminal.run import TerminalReporter, describe_end

    stop = Stop()
    outcome = _run_to_end(prepared, TerminalReporter(sys.stderr), stop)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(outcome.report)
    elif outcome.error is None:
        click.echo(describe_end(outcome.report))
    return 128 + stop.signum if stop.signum else outcome.exit_code


def _run_to_end(prepared: PreparedRun, reporter: TerminalReporter, stop: Stop) -> Outcome:
    from ownlab.lab.runs.run import run

    outcome = run(prepared, reporter, stop, signals=_STOP_SIGNALS, update_elsewhere=_update_elsewhere)
    reporter.ended(outcome, f"ownlab run {shlex.quote(prepared.request.notebook)} --from-failed")
    return outcome


def _in_background(prepared: PreparedRun, as_json: bool) -> int:
    from ownlab.lab.runs.background import detach
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.terminal.run import BackgroundReporter, describe_start

    report = detach(
        prepared.runtime,
        lambda send_report: _run_to_end(prepared, BackgroundReporter(sys.stderr, send_report), Stop()).exit_code,
    )
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(report)
    else:
        click.echo(describe_start(report))
    return 0


def _update_elsewhere(notebook: str) -> bool:
    """Update the output through the lab that serves it: a page may have it open."""
    from ownlab.lab.service.http_client import update_through_lab

    return update_through_lab(notebook)


def _split(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise UsageError(
            text("-p {value} is not of the form NAME=VALUE.", value=given), hint=text("For example: -p epochs=3")
        )
    return name.strip(), value


def _read_parameters(file: str | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        with open(file, "rb") as opened:
            values = json.loads(opened.read())
    except OSError as exc:
        raise InputError(text("Cannot read {file}: {reason}.", file=file, reason=exc.strerror)) from exc
    except ValueError as exc:
        raise InputError(text("{file} is not valid JSON: {reason}.", file=file, reason=str(exc))) from exc
    if not isinstance(values, dict):
        example = '{"epochs": 3}'
        raise InputError(text("{file} must contain a JSON object such as {example}.", file=file, example=example))
    return values


def _list_parameters(notebook: str, formatter: click.HelpFormatter) -> None:
    from ownlab.lab.notebooks.files import read_notebook
    from ownlab.lab.terminal.run import describe_parameters

    try:
        rows, otherwise = describe_parameters(read_notebook(notebook)), text("None: no cell has a field (#@param).")
    except OwnlabError as exc:
        rows, otherwise = [], text("{message}", message=sentence(exc.message))
    with formatter.section(f"Parameters of {os.path.basename(notebook)}"):
        if rows:
            formatter.write_dl(rows)
        else:
            formatter.write_text(otherwise)
