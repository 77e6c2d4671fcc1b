"""`ownlab completion`: the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class
from msgspec import Struct

from ownlab.cli.main import cli
from ownlab.cli.options import json_option
from ownlab.render.documents import echo_record

__all__ = ["CompletionScript", "command"]

_INSTALL = {
    "bash": "ownlab completion bash > ~/.local/share/bash-completion/completions/ownlab",
    "zsh": "ownlab completion zsh > ~/.zfunc/_ownlab    (with ~/.zfunc in fpath, before compinit)",
    "fish": "ownlab completion fish > ~/.config/fish/completions/ownlab.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@json_option
def command(shell: str, as_json: bool) -> None:
    """Print the completion script for a shell.

    \b
    bash:  ownlab completion bash > ~/.local/share/bash-completion/completions/ownlab
    zsh:   ownlab completion zsh > ~/.zfunc/_ownlab   (with ~/.zfunc in fpath, before compinit)
    fish:  ownlab completion fish > ~/.config/fish/completions/ownlab.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None, "click supports every shell of the choice above"
    script = completion(cli, {}, "ownlab", "_OWNLAB_COMPLETE").source()
    if as_json:
        echo_record(CompletionScript(shell, script, _INSTALL[shell]))
    else:
        click.echo(script)


class CompletionScript(Struct, frozen=True):
    """`ownlab completion SHELL --json`."""

    shell: str
    script: str
    install: str
