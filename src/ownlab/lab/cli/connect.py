"""`ownlab connect`: use the lab of another machine in the browser of this one."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from ownlab.cli.options import json_option
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.lab.service.remote_lab import Connected, ConnectRequest

__all__ = ["command"]


@click.command("connect")
@click.argument("destination", metavar="USER@HOST")
@click.argument("folder", required=False)
@json_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port here. Default: the lab's own, or any.")
@click.option("--no-browser", is_flag=True, help="Print the address; do not open a browser.")
@click.option("-p", "--ssh-port", type=click.IntRange(1, 65535), help="The port of ssh there.")
@click.option("--ssh-config", metavar="FILE", type=click.Path(exists=True), help="Configuration of ssh (ssh -F).")
@click.option("--ownlab", "program", default="ownlab", metavar="COMMAND", help="The ownlab command there.")
def command(
    destination: str, folder: str | None, as_json: bool, port: int, no_browser: bool, ssh_port: int | None,
    ssh_config: str | None, program: str,
) -> None:  # fmt: skip
    """Use the lab of another machine in the browser of this one, over ssh.

    Finds or starts the lab of FOLDER there (default: the lab that is running, else your home folder), makes it reachable
    on 127.0.0.1 here, and opens the browser. A lost connection is made again. Ctrl-C ends the connection; the lab keeps
    running. ownlab has to be installed on both machines.

    \b
    ownlab connect ann@gpu.example.org
    ownlab connect gpu ~/projects       a host of ~/.ssh/config, a folder
    """
    from ownlab.lab.service.remote_lab import ConnectRequest, connect
    from ownlab.lab.service.ssh_tunnel import SshTarget

    target = SshTarget(destination, ssh_port, ssh_config and os.path.abspath(ssh_config))
    request = ConnectRequest(target, folder, port, program)
    served: list[Connected] = []

    def on_connect(connected: Connected) -> None:
        served.append(connected)
        if connected.is_new:
            _show(connected, request, as_json, no_browser or len(served) > 1)
        else:
            click.echo(text("Connected again. Open pages continue."), err=True)

    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    try:
        connect(request, on_connect, lambda line: click.echo(line, err=True))
    except KeyboardInterrupt:
        if not served:
            raise
        _say_goodbye(served[-1], request)


def _end(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _show(connected: Connected, request: ConnectRequest, as_json: bool, no_browser: bool) -> None:
    from ownlab.lab.service.browser import can_open, open_browser

    lab = connected.lab
    if as_json:
        from ownlab.lab.service.records import ConnectedLab
        from ownlab.render.documents import echo_record

        echo_record(
            ConnectedLab(
                destination=request.target.destination,
                folder=connected.folder,
                url=lab.url,
                token=lab.token,
                address=lab.address(),
                port=lab.port,
            )
        )
    else:
        click.echo(text("The lab of {name} is here: {address}", name=request.target.destination, address=lab.address()))
        click.echo(text("  folder  {folder}", folder=connected.folder))
        click.echo(text("  Ctrl-C ends the connection; the lab keeps running."))
    sys.stdout.flush()
    if not no_browser and not as_json and can_open():
        open_browser(lab.address())


def _say_goodbye(connected: Connected, request: ConnectRequest) -> None:
    stop = request.target.command(f"{request.program} down {shlex.quote(connected.folder)}")
    click.echo(
        "\n"
        + text("The connection has ended. The lab keeps running on {name}. Stop it: {command}",
               name=request.target.destination, command=stop),
        err=True,
    )  # fmt: skip
