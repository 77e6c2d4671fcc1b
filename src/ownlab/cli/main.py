"""`ownlab`: the table of commands; runs one and turns errors into exit codes.

Commands are imported when they are called: `ownlab --help` loads click and this file only.
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
from ownlab.text import text

__all__ = ["cli", "main"]

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Entry(NamedTuple):
    """A command as the help lists it; its module is imported when it is called."""

    module: str
    section: str
    summary: str


# In the order of the help, grouped by section.
COMMANDS = {
    "up": Entry("ownlab.lab.cli.up", "The lab", "Serve a folder as a lab in the browser."),
    "connect": Entry("ownlab.lab.cli.connect", "The lab", "Use the lab of another machine here, over ssh."),
    "open": Entry("ownlab.lab.cli.open", "The lab", "Open a notebook from Colab, GitHub, a URL or a file."),
    "down": Entry("ownlab.lab.cli.down", "The lab", "Stop a lab; with --all, its runtimes too."),
    "status": Entry("ownlab.lab.cli.status", "The lab", "Show your labs: address, token, folder."),
    "runtimes": Entry("ownlab.lab.cli.runtimes", "The lab", "Show who uses which card; stop, extend, log, usage."),
    "history": Entry("ownlab.lab.cli.history", "The lab", "Show versions of a notebook; compare and restore them."),
    "run": Entry("ownlab.lab.cli.run", "Runs", "Run a notebook with parameters, or a script on several GPUs."),
    "form": Entry("ownlab.lab.cli.form", "Runs", "Show the form fields of a notebook: its parameters."),
    "types": Entry("ownlab.lab.cli.types", "Runtime types", "List the runtime types and write them for Jupyter."),
    "env": Entry("ownlab.lab.cli.env", "Runtime types", "Let notebooks run in your own Python environments."),
    "config": Entry("ownlab.lab.cli.config", "Configuration", "Show every setting, its value and its origin."),
    "secrets": Entry("ownlab.lab.cli.secrets", "Configuration", "Store tokens for notebooks; grant them one by one."),
    "store": Entry("ownlab.lab.cli.store", "Configuration", "Show where leases are recorded; create a shared store."),
    "doctor": Entry(
        "ownlab.instruments.doctor.cli", "This machine", "Check whether the GPU can be used, and how to fix it if not."
    ),
    "machine": Entry("ownlab.machine.cli", "This machine", "Show or save the facts about this machine."),
    "top": Entry(
        "ownlab.instruments.top.cli", "This machine", "Show how busy the GPUs really are, and what limits them."
    ),
    "why": Entry(
        "ownlab.instruments.why.cli", "This machine", "Say why a training script is slow, and what fixing it is worth."
    ),
    "bench": Entry("ownlab.instruments.bench.cli", "This machine", "Measure this machine and compare it with others."),
    "fit": Entry(
        "ownlab.instruments.fit.cli", "Planning", "Predict how much GPU memory a model needs, and where it fits."
    ),
    "gpus": Entry("ownlab.catalog.gpus_cli", "Planning", "Show cards with sources, rank them by speed, advise on one."),
    "clouds": Entry(
        "ownlab.catalog.clouds_cli", "Planning", "Show platforms: cards, prices, limits, the cost of a job."
    ),
    "data": Entry("ownlab.instruments.data.cli", "Data", "Get data, check it, pack it, feed it."),
    "completion": Entry("ownlab.cli.completion", "Shell", "Print the completion script for bash, zsh or fish."),
}


class LazyGroup(click.Group):
    """Commands by name, imported on use; the help is grouped by section."""

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

            below = self._commands_below(ctx, args[0])
            close = [*below, *difflib.get_close_matches(args[0], COMMANDS, n=1)]
            if close:
                ctx.fail(text("Unknown command {name!r}. Did you mean: ownlab {near}?", name=args[0], near=close[0]))
            ctx.fail(text("Unknown command {name!r}. See: ownlab --help", name=args[0]))
        return super().resolve_command(ctx, args)

    def _commands_below(self, ctx: click.Context, name: str) -> list[str]:
        """Return the commands of groups with this name: "runtimes stop" for "stop"."""
        groups = [(group, self.get_command(ctx, group)) for group in COMMANDS]
        return [
            f"{group} {name}"
            for group, command in groups
            if isinstance(command, click.Group) and name in command.list_commands(ctx)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = dict.fromkeys(entry.section for entry in COMMANDS.values())
        width = max(len(name) for name in COMMANDS)
        for section in sections:
            rows = [(name.ljust(width), entry.summary) for name, entry in COMMANDS.items() if entry.section == section]
            formatter.write_paragraph()
            formatter.write_text(section)
            with formatter.indentation():
                formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ownlab")
def cli() -> None:
    """The Colab you own: a deep-learning lab on your own machine.

    Every command has --help, and --json for one JSON document on stdout.
    """


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    _prepare_streams()
    _handle_signals()
    try:
        code = _run()
    except BrokenPipeError:
        _discard_stdout()  # the reader (`| head`) has closed the pipe
        code = 141
    except OSError as exc:
        message = _describe(exc)
        if message is None:
            raise
        click.echo(message, err=True)
        code = OwnlabError.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _describe(error: OSError) -> str | None:
    """Explain an error of the surroundings that any command can meet; None: it is a bug."""
    if error.errno in _UNWRITABLE and error.filename is None:  # errors of a named file are reported where it is written
        _discard_stdout()
        return text("ownlab: Cannot write the output: {reason}.", reason=error.strerror or error)
    if error.errno == errno.ENAMETOOLONG:
        return text("ownlab: The path is too long for this file system: {path}", path=error.filename)
    if error.errno == errno.ENOENT and not _has_current_folder():
        return text("ownlab: The current folder no longer exists. Change to another one: cd")
    return None


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


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


def _discard_stdout() -> None:
    """Prevent a second error from the flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    """Replace closed streams (`>&-`) by /dev/null, and print "?" for characters that stdout cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It takes the lowest free number, so that no other file is mistaken for a standard stream.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # open until the program ends
    if isinstance(sys.stdout, io.TextIOWrapper):  # stderr replaces such characters by default
        sys.stdout.reconfigure(errors="replace")


def _handle_signals() -> None:
    """Exit normally on SIGTERM and SIGHUP, so that child processes are ended too."""

    def exit_on(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # SIGHUP is ignored under nohup
            signal.signal(number, exit_on)


def _report(error: OwnlabError) -> int:
    """Print what happened, what it usually means and what to do; with --json also as a document."""
    if "--json" in sys.argv[1:]:
        from ownlab.render.documents import Failure, echo_record  # needed only for errors

        echo_record(Failure.of(error))
    click.echo(f"ownlab: {error.message}", err=True)
    for line in (error.meaning, error.hint):
        if line:
            click.echo(f"  {line}", err=True)
    return error.exit_code
