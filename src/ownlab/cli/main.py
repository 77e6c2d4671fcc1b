"""`ownlab`: finds the command, runs it, and turns our errors into exit codes.

Commands are loaded when they are called: `ownlab --help` imports click and this file, and nothing else of ours.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
from typing import NamedTuple, NoReturn

import click

from ownlab import __version__
from ownlab.errors import OwnlabError

__all__ = ["cli", "main"]

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Entry(NamedTuple):
    """A command as the help lists it; its module is imported only when it is called."""

    module: str
    question: str
    summary: str


# Grouped in the help by the question that a command answers.
COMMANDS = {
    "up": Entry("ownlab.lab.cli.up", "Give me a notebook on a GPU, now", "Serve a folder as a lab in the browser."),
    "open": Entry(
        "ownlab.lab.cli.open",
        "Give me a notebook on a GPU, now",
        "Open a notebook from Colab, GitHub, anywhere, or a file.",
    ),
    "down": Entry(
        "ownlab.lab.cli.down", "Give me a notebook on a GPU, now", "End a lab; with --all, its runtimes too."
    ),
    "status": Entry(
        "ownlab.lab.cli.status", "Give me a notebook on a GPU, now", "Show your labs: address, token, folder."
    ),
    "runtimes": Entry(
        "ownlab.lab.cli.runtimes",
        "Give me a notebook on a GPU, now",
        "Show who holds which card; stop, extend, log, usage.",
    ),
    "run": Entry(
        "ownlab.lab.cli.run",
        "Run this notebook without me",
        "Run a notebook with parameters; its outputs go into a copy.",
    ),
    "form": Entry(
        "ownlab.lab.cli.form",
        "Run this notebook without me",
        "Show the fields of a notebook's forms: what a run can set.",
    ),
    "types": Entry(
        "ownlab.lab.cli.types", "Where does work run?", "List the runtime types, and write them for Jupyter."
    ),
    "env": Entry("ownlab.lab.cli.env", "Where does work run?", "Let notebooks run in your own Python environments."),
    "config": Entry(
        "ownlab.lab.cli.config", "How is it set up?", "Show every setting, its value, and where that came from."
    ),
    "secrets": Entry(
        "ownlab.lab.cli.secrets", "How is it set up?", "Keep tokens for notebooks; grant them one by one."
    ),
    "store": Entry(
        "ownlab.lab.cli.store", "How is it set up?", "Show where leases are recorded; make a store for a group."
    ),
    "doctor": Entry(
        "ownlab.instruments.doctor.cli",
        "What is here, and what is wrong?",
        "Say whether GPU work will run, and what to mend.",
    ),
    "machine": Entry(
        "ownlab.machine.cli", "What is here, and what is wrong?", "Show all that is known of this machine, or save it."
    ),
    "top": Entry(
        "ownlab.instruments.top.cli",
        "What is here, and what is wrong?",
        "Show what the GPUs really do, and what limits them.",
    ),
    "fit": Entry(
        "ownlab.instruments.fit.cli", "Will it fit?", "Say how much memory a model takes, and on which cards."
    ),
    "bench": Entry(
        "ownlab.instruments.bench.cli", "How fast is it?", "Measure this machine, and compare it with others."
    ),
    "gpus": Entry(
        "ownlab.catalog.gpus_cli",
        "Which card, which platform?",
        "Show cards with sources, and how fast they are; advise on one.",
    ),
    "clouds": Entry(
        "ownlab.catalog.clouds_cli",
        "Which card, which platform?",
        "Show platforms: cards, prices, limits; what a job costs.",
    ),
    "completion": Entry("ownlab.cli.completion", "The shell", "Print the completion script for bash, zsh or fish."),
}


class LazyGroup(click.Group):
    """Commands by name, imported on use; help in groups."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean: ownlab {close[0]}?" if close else " See: ownlab --help"
            ctx.fail(f"there is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        questions = dict.fromkeys(entry.question for entry in COMMANDS.values())
        width = max(len(name) for name in COMMANDS)
        for question in questions:
            rows = [
                (name.ljust(width), entry.summary) for name, entry in COMMANDS.items() if entry.question == question
            ]
            formatter.write_paragraph()
            formatter.write_text(question)
            with formatter.indentation():
                formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ownlab")
def cli() -> None:
    """The Colab you own: know your machine, and put it to work.

    Every command takes --json (one document on stdout) and --help.
    """


def main() -> NoReturn:
    """The entry point: nothing but the way from an outcome to an exit code."""
    _prepare_streams()
    _heed_signals()
    try:
        code = _run()
    except BrokenPipeError:
        _give_up_stdout()  # the reader (`| head`) has what it wanted
        code = 141
    except OSError as exc:
        if exc.errno not in _UNWRITABLE or exc.filename is not None:  # what concerns a file is said where it is written
            raise
        _give_up_stdout()
        click.echo(f"ownlab: the output cannot be written: {exc.strerror or exc}", err=True)
        code = OwnlabError.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _run() -> object:
    try:
        code: object = cli.main(prog_name="ownlab", standalone_mode=False)
        sys.stdout.flush()
    except OwnlabError as exc:
        return _report(exc)
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message())
        return 0
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return 130
    return code


def _give_up_stdout() -> None:
    """Python would complain once more while it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    """A stream that was closed (`>&-`) swallows what is written; one that knows no "…" or "✗" gets a "?" for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest number that is free: so no file or pipe of ours will be taken for a standard stream.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # it is open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):  # stderr replaces such characters from the beginning
        sys.stdout.reconfigure(errors="replace")


def _heed_signals() -> None:
    """Being ended (by a time limit, a closed terminal) is an exit like any other, so that our children end with us."""

    def end(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP: so do we
            signal.signal(number, end)


def _report(error: OwnlabError) -> int:
    """What happened, what it usually means, what to do; with --json as one document too."""
    if "--json" in sys.argv[1:]:
        from ownlab.render.documents import Failure, echo_record  # not needed for help, nor where all goes well

        echo_record(Failure.of(error))
    click.echo(f"ownlab: {error.message}", err=True)
    for line in (error.meaning, error.hint):
        if line:
            click.echo(f"  {line}", err=True)
    return error.exit_code
