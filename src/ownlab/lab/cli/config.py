"""`ownlab config`: how the lab is set up, and where each value came from."""

from __future__ import annotations

import click

from ownlab.cli.options import json_option
from ownlab.config.listing import read_configuration, write_initial_config
from ownlab.config.loader import resolve_lab_options
from ownlab.lab.store.location import choose_store
from ownlab.lab.terminal.config import show_configuration
from ownlab.render.console import console
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.command("config")
@json_option
@click.option("--init", is_flag=True, help="Write a commented file to begin with, where there is none yet.")
def command(as_json: bool, init: bool) -> None:
    """Show every setting, its value, and where that came from.

    A value comes from the command line, else from an environment variable, else from the configuration file, else it is
    the default. The file is ~/.config/ownlab/config.toml (or the one that OWNLAB_CONFIG names); where there is none,
    /etc/ownlab/config.toml counts, which an administrator may have written for everyone.

    \b
    ownlab config --init                    write a file in which everything is explained
    OWNLAB_LIMITS_PRESET=colab ownlab up    for once, without any file
    """
    written = write_initial_config() if init else None
    found = read_configuration()
    if as_json:
        echo_record(found)
    elif written is not None:
        click.echo(f"Wrote {written}. Every line in it is a comment: change what you like.")
    else:
        show_configuration(found, choose_store(resolve_lab_options()), console())
