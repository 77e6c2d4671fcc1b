"""`ownlab`: the table of commands; runs one and turns errors into exit codes.

Commands are imported when they are called: `ownlab --help` loads click and this file only.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import NoReturn

import click

from ownlab import __version__
from ownlab.cli.lazy_group import Entry, LazyGroup, prepare
from ownlab.errors import OwnlabError, UsageError
from ownlab.languages import LANGUAGE_OPTION, LANGUAGES, known_language
from ownlab.text import is_translated, listing, text, translated

__all__ = ["cli", "main"]

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


# In the order of the help, grouped by section.
COMMANDS = {
    "up": Entry("ownlab.lab.cli.up", "Serve a folder as a lab in the browser.", "The lab"),
    "connect": Entry("ownlab.lab.cli.connect", "Use the lab of another machine here, over ssh.", "The lab"),
    "open": Entry("ownlab.lab.cli.open", "Open a notebook from Colab, GitHub, a URL or a file.", "The lab"),
    "down": Entry("ownlab.lab.cli.down", "Stop a lab; with --all, its runtimes too.", "The lab"),
    "status": Entry("ownlab.lab.cli.status", "Show your labs: address, token, folder.", "The lab"),
    "runtimes": Entry("ownlab.lab.cli.runtimes", "Show who uses which card; stop, extend, log, usage.", "The lab"),
    "history": Entry("ownlab.lab.cli.history", "Show versions of a notebook; compare and restore them.", "The lab"),
    "run": Entry("ownlab.lab.cli.run", "Run a notebook with parameters, or a script on several GPUs.", "Runs"),
    "form": Entry("ownlab.lab.cli.form", "Show the form fields of a notebook: its parameters.", "Runs"),
    "types": Entry("ownlab.lab.cli.types", "List the runtime types and write them for Jupyter.", "Runtime types"),
    "env": Entry("ownlab.lab.cli.env", "Let notebooks run in your own Python environments.", "Runtime types"),
    "config": Entry("ownlab.lab.cli.config", "Show every setting, its value and its origin.", "Configuration"),
    "secrets": Entry("ownlab.lab.cli.secrets", "Store tokens for notebooks; grant them one by one.", "Configuration"),
    "store": Entry("ownlab.lab.cli.store", "Show where leases are recorded; create a shared store.", "Configuration"),
    "doctor": Entry(
        "ownlab.instruments.doctor.cli", "Check whether the GPU can be used, and how to fix it if not.", "This machine"
    ),
    "machine": Entry("ownlab.machine.cli", "Show or save the facts about this machine.", "This machine"),
    "cluster": Entry(
        "ownlab.instruments.cluster.cli", "Write the files of a Slurm cluster from saved machines.", "This machine"
    ),
    "top": Entry(
        "ownlab.instruments.top.cli", "Show how busy the GPUs really are, and what limits them.", "This machine"
    ),
    "why": Entry(
        "ownlab.instruments.why.cli", "Say why a training script is slow, and what fixing it is worth.", "This machine"
    ),
    "bench": Entry("ownlab.instruments.bench.cli", "Measure this machine and compare it with others.", "This machine"),
    "fit": Entry(
        "ownlab.instruments.fit.cli", "Predict how much GPU memory a model needs, and where it fits.", "Planning"
    ),
    "gpus": Entry("ownlab.catalog.gpus_cli", "Show cards with sources, rank them by speed, advise on one.", "Planning"),
    "clouds": Entry(
        "ownlab.catalog.clouds_cli", "Show platforms: cards, prices, limits, the cost of a job.", "Planning"
    ),
    "data": Entry("ownlab.instruments.data.cli", "Get data, check it, pack it, feed it.", "Data"),
    "completion": Entry("ownlab.cli.completion", "Print the completion script for bash, zsh or fish.", "Shell"),
}


def _check_language(context: click.Context, option: click.Parameter, given: str | None) -> None:
    """Refuse an unknown language. A known one has been chosen before anything was imported (cli/entry_point.py)."""
    if given is None:
        return
    language = known_language(given)
    if language is None:
        names = listing(LANGUAGES, "{items} or {last}")
        raise UsageError(text("Unknown language {given!r}. Choose {names}.", given=given, names=names))
    context.meta[LANGUAGE_OPTION] = language


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ownlab")
@click.option(
    "--lang",
    metavar="LANGUAGE",
    expose_value=False,
    callback=_check_language,
    help="The language of the output: en or zh_CN. Default: OWNLAB_LANG, the setting interface.language, the locale.",
)
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
    if is_translated():
        from ownlab.cli.translated_help import translate_click

        translate_click()
        prepare(cli)
    try:
        code: object = cli.main(prog_name="ownlab", standalone_mode=False)
        sys.stdout.flush()
    except OwnlabError as exc:
        return _report(exc)
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message())
        return 0
    except click.ClickException as exc:
        _echo_document(_as_own(exc))
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(text("Interrupted."), err=True)
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
    _echo_document(error)
    click.echo(f"ownlab: {error.message}", err=True)
    for line in (translated(error.meaning), error.hint):
        if line:
            click.echo(f"  {line}", err=True)
    return error.exit_code


def _as_own(error: click.ClickException) -> OwnlabError:
    """The error of our own tree for one that click has found in the arguments, before the command began."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = text("See: {command} --help", command=context.command_path) if context else ""
    return UsageError(error.format_message(), hint=hint)


def _echo_document(error: OwnlabError) -> None:
    """With --json print an error as a document."""
    if "--json" in sys.argv[1:]:
        from ownlab.render.documents import Failure, echo_record  # needed only for errors

        echo_record(Failure.of(error))
