"""`ownlab config`: every setting, its value and its origin."""

from __future__ import annotations

import click

from ownlab.cli.options import json_option
from ownlab.config.listing import read_configuration, write_initial_config
from ownlab.config.loader import resolve_lab_options
from ownlab.lab.store.location import choose_store
from ownlab.lab.terminal.config import show_configuration
from ownlab.render.console import console
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]


@click.command("config")
@json_option
@click.option("--init", is_flag=True, help="Write a commented configuration file, if there is none yet.")
def command(as_json: bool, init: bool) -> None:
    """Show every setting, its value and its origin.

    The command line takes precedence over environment variables, these over the configuration file, and that over the
    defaults. The file is ~/.config/ownlab/config.toml (or OWNLAB_CONFIG); if it does not exist, /etc/ownlab/config.toml is
    used, which an administrator may have written for everyone.

    \b
    ownlab config --init                    write a file that explains every setting
    OWNLAB_LIMITS_PRESET=colab ownlab up    set a value once, without a file
    """
    written = write_initial_config() if init else None
    found = read_configuration()
    if as_json:
        echo_record(found)
    elif written is not None:
        click.echo(
            text(
                "Wrote {path}. Every setting in it is commented out: edit those that you want to change.", path=written
            )
        )
    else:
        show_configuration(found, choose_store(resolve_lab_options()), console())
