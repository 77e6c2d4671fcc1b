"""A real two-node Slurm from exactly what `ownlab cluster write` has written, set up by its own scripts.

Each node is a set of namespaces with its own /etc/slurm, /var/lib/slurm and /dev. Only what belongs to a whole machine is replaced: apt-get,
systemctl (it starts the daemon) and timedatectl.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.lab.engines.slurm.cluster import missing
from tests.lab.engines.slurm.node_namespaces import NodeCluster, lacking

from ownlab.machine.facts import Known
from ownlab.machine.machine_file import load_machine, save_machine
from ownlab.machine.records import Card

if TYPE_CHECKING:
    from tests.command_line import World

REPLACED = {
    "apt-get": "exit 0",
    "timedatectl": "exit 0",
    "systemctl": """case "$1 $2" in
"restart munge") install -d -o munge -m 755 /run/munge; runuser -u munge -- munged --num-threads=2 ;;
"restart slurmctld") slurmctld ;;
"restart slurmd") slurmd ;;
esac""",
}
OWN_FOLDERS = ("/etc/munge", "/etc/slurm", "/var/lib/slurm", "/var/log/slurm", "/var/log/munge", "/var/lib/munge")
NODE = """
set -e
hostname {name}
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
for folder in {folders}; do mkdir -p $folder; mount -t tmpfs -o mode=755 tmpfs $folder; done
chown munge /etc/munge /var/log/munge /var/lib/munge
mkdir /run/dev; mount --rbind /dev /run/dev; mount -t tmpfs -o mode=755 tmpfs /dev
for file in null zero full random urandom tty; do touch /dev/$file; mount --bind /run/dev/$file /dev/$file; done
mkdir /dev/shm; mount -t tmpfs -o mode=1777 tmpfs /dev/shm; ln -s /proc/self/fd /dev/fd
for number in 0 1 2 3; do mknod /dev/nvidia$number c 195 $number; done
sh {files}/setup-{name}.sh
while :; do sleep 3600 & wait; done
"""


@pytest.fixture
def bare() -> Iterator[NodeCluster]:
    """Two machines without a Slurm."""
    reason = missing() or lacking() or ("" if os.path.isdir("/sys/fs/cgroup") else "no control groups")
    if reason:
        pytest.skip(reason)
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = NodeCluster(root)
    del cluster.env["SLURM_CONF"]
    for name in ("log", "bin"):
        (root / name).mkdir()
    for program, script in REPLACED.items():
        (root / "bin" / program).write_text(f"#!/bin/sh\n{script}\n")
        (root / "bin" / program).chmod(0o755)
    cluster.env["PATH"] = f"{root}/bin:{cluster.env['PATH']}"
    try:
        cluster.make_network()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def save_this_machine(path: Path, machines: Path) -> None:
    """What `ownlab machine --save` would write here, with four GPUs."""
    cards = tuple(Card("nvidia", index, name=Known("NVIDIA A100-SXM4-80GB", "test")) for index in range(4))
    recorded = load_machine(machines / "cpu.json")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    host = msgspec.structs.replace(
        recorded.host,
        cpu=msgspec.structs.replace(recorded.host.cpu, logical_cores=Known(os.cpu_count() or 1, "test")),
        memory=msgspec.structs.replace(recorded.host.memory, total=Known(memory, "test")),
    )
    save_machine(msgspec.structs.replace(recorded, host=host, cards=Known(cards, "test")), path)


def test_jobs_run_on_both_nodes_and_see_their_gpus(
    bare: NodeCluster, world: World, machines: Path, until: Callable[..., Any]
) -> None:
    files = bare.root / "files"
    save_this_machine(bare.root / "box.json", machines)
    # Control groups are those of the whole machine, and named after the node: no other test may have the same names.
    first, second = hosts = [f"h{secrets.token_hex(4)}-{number}" for number in (1, 2)]
    given = [f"{host}={bare.root}/box.json" for host in hosts]
    addresses = [f"--address={host}={bare.address_of(number)}" for number, host in enumerate(hosts, 1)]
    written = world.run("cluster", "write", *given, *addresses, "-o", str(files))
    assert written.returncode == 0, written.stderr
    (files / "munge.key").write_bytes(os.urandom(1024))
    for name, host in zip(("n1", "n2"), hosts, strict=True):
        bare.run_node(name, NODE.format(name=host, files=files, folders=" ".join(OWN_FOLDERS)))

    def logs() -> str:
        return "\n".join((bare.root / "log" / name).read_text() for name in ("n1", "n2"))

    try:
        until(lambda: bare.inside("n1", "sinfo", "-h", "-o", "%D %T %G").strip() == "2 idle gpu:a100-sxm4-80gb:4")
        shown = bare.inside("n1", "srun", "-N2", "--gres=gpu:2", "sh", "-c", "echo $(hostname) $CUDA_VISIBLE_DEVICES")
        lines = sorted(line for line in shown.splitlines() if line.startswith("h"))
        assert lines == sorted([f"{first} 0,1", f"{second} 0,1"]), shown + logs()
    finally:
        for name in ("n1", "n2"):
            bare.kill(name)
        until(lambda: not left_control_groups(hosts))


def left_control_groups(hosts: list[str]) -> list[Path]:
    """Remove the control groups of nodes; those in which processes still end are left."""
    groups = [path for host in hosts for path in Path("/sys/fs/cgroup").rglob(f"slurm_{host}")]
    for group in groups:
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    return [group for group in groups if group.exists()]
