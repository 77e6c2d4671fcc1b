"""`ownlab run`: run a notebook or a script without a browser."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ownlab.cli.options import json_option, language_variables
from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.lab.cli.run_on_node import node_request
from ownlab.lab.cli.run_script import MODULE, SCRIPT_ENDING, STDIN, run_script_command
from ownlab.lab.cli.run_sweep import sweep_notebook, sweep_script
from ownlab.text import sentence, text

if TYPE_CHECKING:
    from ownlab.lab.runs.records import Outcome
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.runs.validation import PreparedRun
    from ownlab.lab.terminal.run import TerminalReporter

# Imports are deferred: `--help` stays fast, and the rest is imported while the kernel starts.

__all__ = ["command"]

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OF_NOTEBOOKS = (
    "inplace", "timeout", "allow_errors", "keep", "from_failed", "uploads", "outputs", "colab", "restore_packages",
)  # fmt: skip

# By which LabOptions resolves them too.
_OF_CLUSTERS = ("partition", "account", "qos", "time")


class RunCommand(click.Command):
    """A command whose help lists the parameters of the given notebook, and which leaves a script its own arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, script = self._split_script(ctx, args)
        ctx.meta["own arguments"] = tuple(own)
        if any(name in own for name in ctx.help_option_names):
            # Parse without processing: `--help` takes precedence wherever it stands.
            given, _, _ = self.make_parser(ctx).parse_args(list(own))
            ctx.meta["notebook"] = given.get("target")
        rest = super().parse_args(ctx, own)
        ctx.params["script"] = script
        return rest

    def _split_script(self, ctx: click.Context, args: list[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return our own arguments, and the script with its arguments: everything from the script on, as `python` has it."""
        with_value = {
            name for option in self.get_params(ctx) if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }  # fmt: skip
        number = 0
        while number < len(args):
            name = args[number]
            if name == "-m":
                return [*args[:number], "--", MODULE], tuple(args[number:])
            if name == STDIN or not name.startswith("-"):
                is_script = name.endswith(SCRIPT_ENDING) or name == STDIN
                return (args[: number + 1], tuple(args[number:])) if is_script else (args, ())
            number += 2 if name in with_value else 1
        return args, ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        notebook = ctx.meta.get("notebook")
        if isinstance(notebook, str) and not notebook.endswith(SCRIPT_ENDING) and notebook not in (MODULE, STDIN):
            _list_parameters(notebook, formatter)
        else:
            super().format_epilog(ctx, formatter)


@click.command("run", cls=RunCommand, epilog="`ownlab run NOTEBOOK --help` also lists the notebook's parameters.")
@click.argument("target", metavar="NOTEBOOK | SCRIPT.py [ARGUMENTS]… | -m MODULE [ARGUMENTS]…")
@click.option(
    "--gpus",
    type=click.IntRange(1),
    metavar="N",
    help="For a script: lease N GPUs and run one rank on each, by torchrun. For a notebook with --engine: N GPUs of a node.",
)
@click.option(
    "--nproc",
    type=click.IntRange(1),
    metavar="N",
    help="For a script: N ranks. Default: one for each GPU; on the CPU 1.",
)
@click.option(
    "--engine",
    metavar="NAME",
    help="Where it runs: local or slurm.  [default: for scripts the setting run.engine, otherwise local]",
)
@click.option(
    "--nodes", type=click.IntRange(1), metavar="N", help="For a script on a cluster: N nodes, each with --gpus GPUs."
)
@click.option("--partition", metavar="NAME", help="On a cluster: the partition.")
@click.option("--account", metavar="NAME", help="On a cluster: the account.")
@click.option("--qos", metavar="NAME", help="On a cluster: the quality of service.")
@click.option("--time", metavar="TIME", help="On a cluster: the time limit, such as 12:00:00 or 2-00:00:00.")
@click.option(
    "--python", metavar="PATH", help="For a script: an interpreter, or the folder or the name of an environment."
)
@click.option(
    "--sweep",
    metavar="NAME=VALUE,VALUE",
    multiple=True,
    help="Run once with each value; several options combine. A field of the notebook, or an option --NAME of the script.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="For --sweep: at most N runs at a time. Default: as many as GPUs are free; on a cluster 8.",
)
@click.option(
    "-p", "parameters", metavar="NAME=VALUE", multiple=True, help="Set a field of the notebook's forms (#@param)."
)
@click.option("--parameters", "file", metavar="FILE", help="JSON file with the values of fields; -p overrides it.")
@click.option(
    "-t", "--type", "kind", metavar="TYPE", help="Runtime type (see `ownlab types`). Default: the notebook's own."
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Where to write the notebook with its outputs. Default: NAME-run.ipynb. For a script: the folder of its logs. "
    "Default: NAME-run.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Overwrite an existing output. Without -o and --force: NAME-run-2.ipynb and so on.",
)
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
@click.option("--colab/--no-colab", default=None, help="Colab mode on or off.  [default: on for Colab's notebooks]")
@click.option("--restore-packages", is_flag=True, help="First install missing packages that the notebook has recorded.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print the output of the cells.")
@json_option
def command(
    target: str, script: tuple[str, ...], gpus: int | None, nproc: int | None, python: str | None,
    parameters: tuple[str, ...], file: str | None, kind: str | None, detach: bool, quiet: bool, as_json: bool,
    sweep: tuple[str, ...], jobs: int | None, engine: str | None, nodes: int | None, **rest: Any,
) -> int:  # fmt: skip
    """Run a notebook or a Python script, without a browser.

    All cells of NOTEBOOK are run. NOTEBOOK itself is not changed: the parameters and all outputs are written to a copy. Cells
    run in NOTEBOOK's folder. A lab that serves this folder shows the copy while it runs. Ctrl-C interrupts the cell and stops
    the run. What cells print is also printed here, images are named in one line; not with --quiet, --json or --detach.
    Progress goes to stderr.

    SCRIPT.py (or "-": standard input) runs in the current folder, with all ARGUMENTS behind it; options of ownlab stand before it. With --gpus 4, four
    GPUs are leased, and torchrun starts four ranks; if the GPUs are in use, the run waits for them. What rank 0 prints is
    printed here, and that of each rank is kept in the folder NAME-run. Ctrl-C interrupts all ranks; again: it ends them at once.

    --engine slurm runs SCRIPT.py as a job of a Slurm cluster, on one node or several (--nodes 2 --gpus 4), and NOTEBOOK on one node. Script, data and
    environment must be in folders that the nodes share. The settings of [slurm] have what a site requires.

    --sweep lr=1e-3,1e-4 runs both values and prints one table of results; the folder FILE-sweep keeps them. Run the same command
    again to continue: finished combinations are repeated only with --force.

    \b
    ownlab run train.ipynb -p epochs=20
    ownlab run train.ipynb -p epochs=20 --detach
    ownlab run --gpus 4 train.py --lr 1e-3
    ownlab run train.ipynb --sweep lr=1e-3,1e-4 --sweep batch=32,64

    Exit codes: 0 done, 1 a cell failed or there are not as many GPUs, 2 wrong usage, 3 the notebook or the runtime cannot be
    used, 4 the Python has no torch for several ranks, 5 a cell took too long. A script's own exit code is passed on; of several
    ranks, that of the first that failed.
    """
    cluster = {name: rest.pop(name) for name in _OF_CLUSTERS}
    if jobs is not None and not sweep:
        raise UsageError(text("--jobs is for --sweep."))
    if script:
        _refuse_notebook_options(parameters, file, rest)
        ours = {"--gpus": gpus, "--nproc": nproc, "--sweep": sweep or None, "--engine": engine, "--nodes": nodes}
        _notice_late_options(script, ours)
        request = {"type": kind, "output": rest["output"], "force": rest["force"], "wait": rest["wait"]}
        request |= {"gpus": gpus, "nproc": nproc, "python": python}
        request |= {"engine": engine, "nodes": nodes, "cluster": cluster}
        if sweep:
            return sweep_script(script, request, sweep, jobs=jobs, detach=detach, as_json=as_json)
        return run_script_command(script, request, detach=detach, quiet=quiet, as_json=as_json)
    _refuse_script_options(engine, {"--nproc": nproc, "--python": python, "--nodes": nodes}, {"gpus": gpus, **cluster})
    if sweep:
        node = {"engine_name": engine, "gpus": gpus, "cluster": cluster}
        return sweep_notebook(target, kind, sweep, rest, node, jobs=jobs, detach=detach, as_json=as_json)
    from ownlab.lab.runs.preparation import RunRequest
    from ownlab.lab.runs.validation import prepare_run

    values = {**_read_parameters(file), **dict(_split(each) for each in parameters)}
    on_node = node_request(engine, kind, gpus, cluster, rest)
    on_node["settings"] = {**on_node.get("settings", {}), **language_variables()}
    prepared = prepare_run(RunRequest(target, parameters=values, type=kind, **rest, **on_node))
    return _in_background(prepared, as_json) if detach else _run(prepared, as_json, quiet or as_json)


def _refuse_script_options(engine: str | None, given: dict[str, object], on_cluster: Mapping[str, object]) -> None:
    """Refuse what a notebook does not take. `on_cluster`: what only one on a node of a cluster takes."""
    if engine in (None, "local"):
        given = {**given, "--engine": engine, **{f"--{name}": value for name, value in on_cluster.items()}}
    for name, value in given.items():
        if value is not None:
            message = text("{option} is for scripts; a notebook runs on the type that -t names.", option=name)
            raise UsageError(message, hint=text("`ownlab types` lists the types."))


def _notice_late_options(script: tuple[str, ...], given: Mapping[str, object]) -> None:
    """Say so if an option of ours stands where it belongs to the script, which may have one of the same name."""
    for name, value in given.items():
        if value is None and any(each.partition("=")[0] == name for each in script[1:]):
            notice = text(
                "{option} stands behind the script and is passed to it; options of ownlab stand before it.", option=name
            )
            click.echo(notice, err=True)


def _refuse_notebook_options(parameters: tuple[str, ...], file: str | None, rest: dict[str, Any]) -> None:
    given = {
        "-p": parameters,
        "--parameters": file,
        **{f"--{name.replace('_', '-')}": rest[name] for name in _OF_NOTEBOOKS},
    }
    for name, value in given.items():
        if value not in (None, False, ()):
            message = text("{option} is for notebooks. A script has its own arguments, behind its name.", option=name)
            raise UsageError(message)


def _run(prepared: PreparedRun, as_json: bool, quiet: bool) -> int:
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.terminal.cell_output import write
    from ownlab.lab.terminal.run import TerminalReporter, describe_end

    stop = Stop()
    outcome = _run_to_end(prepared, TerminalReporter(sys.stderr, None if quiet else sys.stdout), stop)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(outcome.report)
    elif outcome.error is None:
        write(
            sys.stdout, f"{describe_end(outcome.report)}\n"
        )  # its reader may have gone (`| head`): the run has not failed
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
    from ownlab.input_files import read_bytes

    content = read_bytes(file)
    try:
        values = json.loads(content)
    except RecursionError as exc:
        message = text("{file} is not valid JSON: its values are nested too deeply.", file=file)
        raise InputError(message) from exc
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
    with formatter.section(text("Parameters of {notebook}", notebook=os.path.basename(notebook))):
        if rows:
            formatter.write_dl(rows)
        else:
            formatter.write_text(otherwise)
