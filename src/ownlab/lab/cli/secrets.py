"""`ownlab secrets`: tokens and passwords for notebooks, stored outside of them."""

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
from ownlab.text import text

__all__ = ["command"]

# termios(3): a terminal silently drops the rest of a longer line.
_TERMINAL_LINE = 4095


@click.group("secrets", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Store tokens and passwords for notebooks. `google.colab.userdata.get("NAME")` reads those granted to a notebook.

    They are in the system's keyring if the Python package `keyring` is installed beside ownlab and finds one; otherwise in
    a file that only you can read. Grants are no protection against malicious code: code that runs as you can read what you
    can read.

    \b
    ownlab secrets set HF_TOKEN                  asks for the value without showing it
    ownlab secrets set KEY < key.json            reads it from a file or a pipe
    ownlab secrets grant HF_TOKEN train.ipynb    lets this notebook read it
    ownlab secrets list                          names and grants; values are never shown
    """
    json_below(context, as_json)
    if context.invoked_subcommand is None:
        _show(SecretList(list_secrets()), as_json)


# Further arguments are accepted here, so that click does not repeat a secret in its error message.
@command.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("more", nargs=-1, metavar="")
@json_option
def set_(name: str, more: tuple[str, ...], as_json: bool) -> None:
    """Set NAME to a value from a prompt or a pipe, never from the command line.

    \b
    ownlab secrets set HF_TOKEN           asks for the value without showing it
    ownlab secrets set KEY < key.json     from a file or a pipe
    """
    if more:
        raise UsageError(
            text("A value is not accepted on the command line, where others can see it."),
            hint=text(
                "Run `ownlab secrets set NAME` and enter it at the prompt. If this was the value, it is now in your shell's history."
            ),
        )
    check_name(name)
    secret = set_secret(name, _read_prompt(name) if sys.stdin.isatty() else _read_pipe())
    if as_json:
        echo_record(SecretList((secret,)))
        return
    if secret.where == "keyring":
        click.echo(text("Stored {name} in the system's keyring.", name=name))
    else:
        click.echo(text("Stored {name} in a file that only you can read.", name=name))
    if not secret.notebooks:
        click.echo(text("Let a notebook read it: ownlab secrets grant {name} NOTEBOOK", name=shlex.quote(name)))


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List names and the notebooks they are granted to.

    \b
    ownlab secrets list
    """
    _show(SecretList(list_secrets()), as_json)


@command.command("grant")
@click.argument("name")
@click.argument("notebook", type=click.Path())
@json_option
def grant_(name: str, notebook: str, as_json: bool) -> None:
    """Let NOTEBOOK read the secret NAME.

    \b
    ownlab secrets grant HF_TOKEN train.ipynb
    """
    secret = grant(name, notebook)
    _report(secret, text("{notebook} may read {name}.", notebook=notebook, name=name), as_json)


@command.command("revoke")
@click.argument("name")
@click.argument("notebook", type=click.Path())
@json_option
def revoke_(name: str, notebook: str, as_json: bool) -> None:
    """Revoke a grant: NOTEBOOK may no longer read NAME. Values that it has already read stay with it.

    \b
    ownlab secrets revoke HF_TOKEN train.ipynb
    """
    secret = revoke(name, notebook)
    _report(secret, text("{notebook} may no longer read {name}.", notebook=notebook, name=name), as_json)


@command.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove NAME, its value and its grants.

    \b
    ownlab secrets remove HF_TOKEN
    """
    remove_secret(name)
    if as_json:
        _show(SecretList(list_secrets()), as_json)
    else:
        click.echo(text("Removed {name}.", name=name))


@command.command("read", hidden=True)
@click.argument("name")
@click.option("--notebook", "notebooks", metavar="PATH", multiple=True, required=True)
@json_option
def read(name: str, notebooks: tuple[str, ...], as_json: bool) -> None:
    """Print the value of NAME for a notebook it is granted to. For kernels."""
    echo_record(read_secret(name, notebooks))


def _read_prompt(name: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            value = getpass.getpass(text("Value of {name} (not shown): ", name=name))
        except getpass.GetPassWarning:
            raise UsageError(
                text("This terminal would show what you type."),
                hint=text("Use a file: ownlab secrets set {name} < FILE", name=shlex.quote(name)),
            ) from None
        except EOFError:
            raise click.Abort from None
    # Only the first line of pasted text arrives here.
    if len(value.encode()) >= _TERMINAL_LINE or value.strip() in ("{", "[") or value.startswith("-----BEGIN"):
        raise UsageError(
            text("The value is too long for a terminal, or has several lines."),
            hint=text("Use a file: ownlab secrets set {name} < FILE", name=shlex.quote(name)),
        )
    return value


def _read_pipe() -> str:
    data = sys.stdin.buffer.read(4 * MAX_LENGTH + 1)  # no character has more than four bytes
    try:
        value = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(text("The value is not UTF-8 text.")) from None
    return value.removesuffix("\n").removesuffix("\r")  # `echo` and editors add a line end


def _report(secret: Secret, message: str, as_json: bool) -> None:
    if as_json:
        echo_record(SecretList((secret,)))
    else:
        click.echo(message)


def _show(found: SecretList, as_json: bool) -> None:
    if as_json:
        echo_record(found)
        return
    from ownlab.lab.terminal.config import show_secrets
    from ownlab.render.console import console

    show_secrets(found, console())
