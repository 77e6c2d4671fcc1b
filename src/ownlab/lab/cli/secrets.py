"""`ownlab secrets`: tokens and passwords for notebooks, outside of notebooks."""

from __future__ import annotations

import getpass
import shlex
import sys
import warnings

import click

from ownlab.cli.options import json_below, json_option
from ownlab.errors import InputError, UsageError
from ownlab.lab.secrets.store import (
    MAX_LENGTH,
    Secret,
    SecretList,
    check_name,
    grant,
    list_secrets,
    read_secret,
    remove_secret,
    revoke,
    set_secret,
)
from ownlab.render.documents import echo_record

__all__ = ["command"]

# termios(3): a terminal passes on no more than this of one line, and drops the rest without a word.
_TERMINAL_LINE = 4095


@click.group("secrets", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Keep tokens and passwords for notebooks: `google.colab.userdata.get("NAME")` reads those granted to it.

    They are in the system's keyring where the Python package `keyring` is installed beside ownlab and finds one; else in
    a file that only you can read. Grants keep notebooks apart that mean well: any code that runs as you can read what
    you can read.

    \b
    ownlab secrets set HF_TOKEN                  asks for the value, and does not show it
    ownlab secrets set KEY < key.json            takes it from a file or a pipe
    ownlab secrets grant HF_TOKEN train.ipynb    from now on this notebook may read it
    ownlab secrets list                          names and grants; values are never shown
    """
    json_below(context, as_json)
    if context.invoked_subcommand is None:
        _show(SecretList(list_secrets()), as_json)


# Whatever stands behind the name is taken here, lest click repeat it in an error.
@command.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("more", nargs=-1, metavar="")
@json_option
def set_(name: str, more: tuple[str, ...], as_json: bool) -> None:
    """Set NAME to a value that is asked for, or comes from a pipe: never from the command line."""
    if more:
        raise UsageError(
            "a value is not taken from the command line, where others can see it",
            hint="It is asked for: ownlab secrets set NAME. If that was the value, it is in your shell's history now.",
        )
    check_name(name)
    secret = set_secret(name, _typed(name) if sys.stdin.isatty() else _piped())
    if as_json:
        echo_record(SecretList((secret,)))
        return
    where = "the system's keyring" if secret.where == "keyring" else "a file that only you can read"
    click.echo(f"Set {name}, in {where}.")
    if not secret.notebooks:
        click.echo(f"Let a notebook read it: ownlab secrets grant {shlex.quote(name)} NOTEBOOK")


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List names, and the notebooks to which they are granted."""
    _show(SecretList(list_secrets()), as_json)


@command.command("grant")
@click.argument("name")
@click.argument("notebook", type=click.Path())
@json_option
def grant_(name: str, notebook: str, as_json: bool) -> None:
    """Let NOTEBOOK read the secret NAME."""
    secret = grant(name, notebook)
    _tell(secret, f"{notebook} may read {name}.", as_json)


@command.command("revoke")
@click.argument("name")
@click.argument("notebook", type=click.Path())
@json_option
def revoke_(name: str, notebook: str, as_json: bool) -> None:
    """Take a grant back: NOTEBOOK may no longer read NAME. What it has read already, it has."""
    secret = revoke(name, notebook)
    _tell(secret, f"{notebook} may no longer read {name}.", as_json)


@command.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Forget NAME, its value and its grants."""
    remove_secret(name)
    if as_json:
        _show(SecretList(list_secrets()), as_json)
    else:
        click.echo(f"Removed {name}.")


@command.command("read", hidden=True)
@click.argument("name")
@click.option("--notebook", "notebooks", metavar="PATH", multiple=True, required=True)
@json_option
def read(name: str, notebooks: tuple[str, ...], as_json: bool) -> None:
    """For kernels: the value of NAME, for a notebook to which it is granted."""
    echo_record(read_secret(name, notebooks))


def _typed(name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            value = getpass.getpass(f"Value of {name} (it is not shown): ")
        except getpass.GetPassWarning:
            raise UsageError(
                "this terminal would show what you type", hint=f"Pipe it: ownlab secrets set {shlex.quote(name)} < FILE"
            ) from None
        except EOFError:
            raise click.Abort from None
    # Of what is pasted only the first line comes here.
    if len(value.encode()) >= _TERMINAL_LINE or value.strip() in ("{", "[") or value.startswith("-----BEGIN"):
        raise UsageError(
            "a terminal cannot take this whole: it is too long, or has several lines",
            hint=f"Put it into a file: ownlab secrets set {shlex.quote(name)} < FILE",
        )
    return value


def _piped() -> str:
    data = sys.stdin.buffer.read(4 * MAX_LENGTH + 1)  # no character has more than four bytes
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("the value is no text in UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")  # of the line that `echo` and editors end


def _tell(secret: Secret, words: str, as_json: bool) -> None:
    if as_json:
        echo_record(SecretList((secret,)))
    else:
        click.echo(words)


def _show(found: SecretList, as_json: bool) -> None:
    if as_json:
        echo_record(found)
        return
    from ownlab.lab.terminal.secrets import show_secrets
    from ownlab.render.console import console

    show_secrets(found, console())
