"""`ownlab cluster write`: parse, plan, write."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from ownlab.atomic_files import replace_file
from ownlab.cli.options import json_below, json_option
from ownlab.errors import InputError, UsageError
from ownlab.instruments.cluster.commands import setup_script
from ownlab.instruments.cluster.plan import plan_cluster
from ownlab.instruments.cluster.records import ClusterFiles, ClusterPlan
from ownlab.instruments.cluster.slurm_files import CGROUP, gres_conf, slurm_conf
from ownlab.machine.machine_file import load_machine
from ownlab.machine.records import Machine
from ownlab.render.documents import echo_record
from ownlab.text import listing, text

__all__ = ["command"]


@click.group("cluster")
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Set up a Slurm cluster from bare machines.

    This writes files and commands; it installs and administers nothing. `ownlab doctor --cluster` checks the result.

    \b
    ownlab cluster write box1.json box2.json -o cluster
    """
    json_below(context, as_json)


@command.command("write")
@json_option
@click.argument("machines", nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="The folder for the files; it is created.")
@click.option("--name", default="lab", show_default=True, help="The name of the cluster.")
@click.option("--controller", metavar="NAME", help="The machine that runs slurmctld. Default: the first one.")
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="NAME=ADDRESS",
    help="The address of a machine, if its name is not in DNS or /etc/hosts.",
)
def write(
    as_json: bool, machines: tuple[str, ...], output: str, name: str, controller: str | None, addresses: tuple[str, ...]
) -> None:
    """Write slurm.conf, gres.conf, cgroup.conf and a script for each machine, from machines saved with `ownlab machine --save`.

    The name of a file is taken as the host name of its machine (box1.json: box1), unless NAME=FILE says another one.

    \b
    ownlab cluster write box1.json box2.json -o cluster
    ownlab cluster write gpu1=a.json gpu2=b.json --address gpu1=10.0.0.11 --address gpu2=10.0.0.12 -o cluster
    """
    read: dict[str, Machine] = {}
    for given in machines:
        host, equals, path = given.partition("=")
        path = path if equals else given
        host = host if equals else Path(given).stem
        if host in read:
            raise UsageError(
                text("Two machines have the name {host}.", host=host),
                hint=text("NAME=FILE gives a machine another name."),
            )
        read[host] = load_machine(path)
    plan, notes = plan_cluster(name, controller or next(iter(read)), read, dict(map(_pair, addresses)))
    files = _write(plan, Path(output))
    if as_json:
        echo_record(ClusterFiles(str(Path(output).absolute()), files, plan, notes))
        return
    for note in notes:
        click.echo(note, err=True)
    _explain(plan, output, files)


def _pair(given: str) -> tuple[str, str]:
    name, equals, address = given.partition("=")
    if not equals or not name or not address:
        raise UsageError(text("--address {given}: it is written NAME=ADDRESS.", given=given))
    return name, address


def _write(plan: ClusterPlan, folder: Path) -> tuple[str, ...]:
    hosts = list(dict.fromkeys([plan.controller, *(node.name for node in plan.nodes)]))
    contents = {"slurm.conf": slurm_conf(plan), "gres.conf": gres_conf(plan), "cgroup.conf": CGROUP}
    contents |= {f"setup-{host}.sh": setup_script(plan, host) for host in hosts}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            replace_file(os.path.join(folder, name), content)
            # No secrets are in them, and they are copied to other machines.
            os.chmod(os.path.join(folder, name), 0o644)
    except OSError as exc:
        raise InputError(text("Cannot write to {folder}: {reason}.", folder=folder, reason=exc.strerror)) from exc
    return tuple(contents)


def _explain(plan: ClusterPlan, output: str, files: tuple[str, ...]) -> None:
    click.echo(text("Wrote {files} to {folder}.", files=listing(files, "{items}, {last}"), folder=output))
    click.echo(text("Next, as an administrator:"))
    folder = shlex.quote(output)
    click.echo(f"  ( umask 077; head -c 1024 /dev/urandom >{folder}/munge.key )")
    for host in dict.fromkeys([plan.controller, *(node.name for node in plan.nodes)]):
        click.echo(
            f"  scp -r {folder} root@{host}:/root/slurm-setup && ssh root@{host} sh /root/slurm-setup/setup-{host}.sh"
        )
    click.echo("  ownlab doctor --cluster")
