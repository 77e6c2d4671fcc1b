"""A real Slurm whose two nodes have a network, processes, mounts, a name and a munged of their own; this machine is the login node.

It needs root, since it makes network namespaces and a bridge. What is wrong with a node is planted when it starts: see Node.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.lab.engines.slurm.cluster import PATH, PATIENCE, Cluster

PROGRAMS = ("ip", "unshare", "nsenter", "mount")


class Node(NamedTuple):
    """What is planted in a node."""

    prepare: str = ""  # shell, run as root in its namespaces before its daemons start
    key: str = "munge.key"  # of its munged, in the folder of the cluster
    clock: str = ""  # of its munged, as faketime takes it: "+120s"
    options: tuple[str, ...] = ()  # of slurmd


def lacking() -> str:
    """Why this machine cannot have such a cluster; "" if it can."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    missing = next((name for name in PROGRAMS if shutil.which(name, path=PATH) is None), "")
    if missing:
        return f"{missing} is not installed"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else f"no namespaces here: {tried.stderr.decode().strip()}"


class NodeCluster(Cluster):
    """Nodes n1 and n2, each in namespaces of its own, joined to this machine by a bridge."""

    def __init__(self, root: Path, nodes: Mapping[str, Node] | None = None, **settings: int) -> None:
        super().__init__(root, **settings)
        self.nodes = dict(nodes or {})
        # Several clusters may be there at once: a part of the names and of the addresses is random.
        self._mark, self._net = secrets.token_hex(3), f"10.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
        self.address = f"{self._net}.1"

    @property
    def socket(self) -> Path:
        """The path of the socket is that of the controller and of every node; each has another folder there."""
        return self.root / "munge" / "sock"

    def start(self) -> None:
        """Make the network, then start everything."""
        (self.root / "munge").mkdir(parents=True, mode=0o755)
        self.make_network()
        super().start()

    def make_network(self) -> None:
        """A bridge, and a namespace with a cable to it for each node."""
        bridge = f"ob{self._mark}"
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number in (1, 2):
            name = self._namespace(number)
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("link", "add", f"{name}v", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"{name}v", "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"{self.address_of(number)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")

    def stop(self) -> None:
        """End everything, and remove the network."""
        if "slurmctld" in self._daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):  # whatever a test has done to it
                self.ask("scancel", "--full", "--signal=KILL", "-u", "root")
        for name in ("n1", "n2"):
            if name in self._daemons:
                self.kill(name)
        super().stop()
        for number in (1, 2):
            _ip("netns", "del", self._namespace(number), check=False)
        _ip("link", "del", f"ob{self._mark}", check=False)

    def start_node(self, name: str) -> None:
        """Start a node: its namespaces, its munged, its slurmd."""
        node = self.nodes.get(name, Node())
        folder = self.root / "munge"
        munged = ["munged", *self._munge_options(self.root / node.key, folder, self.socket)]
        munged = ["faketime", "-f", node.clock, *munged] if node.clock else munged
        slurmd = ["slurmd", "-D", "-N", name, *node.options]
        script = "\n".join((
            "set -e",
            f"hostname {name}",
            "mount --make-rprivate /",
            "mount -t proc proc /proc",
            # Names there have numbers of processes in them (faketime), which are the same in every namespace.
            "mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
            f"mount -t tmpfs -o mode=755 tmpfs {folder}",
            node.prepare or ":",
            f"{shlex.join(munged)} &",
            f"while [ ! -S {self.socket} ]; do sleep 0.1; done",
            f"{shlex.join(slurmd)} &",
            # The first process of a node takes over those whose parents have ended.
            "while :; do sleep 3600 & wait; done",
        ))  # fmt: skip
        self.run_node(name, script)

    def run_node(self, name: str, script: str) -> None:
        """Run a shell script as the first process of a node."""
        self._daemon(
            "nsenter", f"--net=/run/netns/{self._namespace(int(name[1:]))}", "unshare", "--uts", "--pid", "--mount", "--fork",
            "--kill-child", "sh", "-c", script, label=name,
        )  # fmt: skip

    def cut_power(self, node: str) -> None:
        """Kill the first process of a node: the kernel ends all others at once."""
        self.kill(node)

    def end(self, name: str) -> None:
        """unshare does not pass SIGTERM on."""
        if name in ("n1", "n2"):
            self.kill(name)
        else:
            super().end(name)

    @contextmanager
    def cut_network(self, node: str) -> Iterator[None]:
        """Take the link of a node down, as if its cable was pulled: nothing arrives, and nothing is refused."""
        link = f"{self._namespace(int(node[1:]))}v"
        _ip("link", "set", link, "down")
        try:
            yield
        finally:
            _ip("link", "set", link, "up")

    def restart_daemon(self, node: str) -> None:
        """Kill slurmd of a node and start another; the jobs there go on."""
        self.inside(node, "pkill", "-KILL", "-x", "slurmd")
        command = shlex.join(["slurmd", "-D", "-N", node])
        self.inside(node, "sh", "-c", f"setsid {command} >>{self.root}/log/{node} 2>&1 </dev/null &")

    def inside(self, node: str, *command: str) -> str:
        """Run a command on a node."""
        pid = self._first_process(node)
        ran = subprocess.run(
            ["nsenter", f"--target={pid}", "--net", "--uts", "--pid", "--mount", "--", *command],
            capture_output=True, text=True, env=self.env, timeout=PATIENCE, check=False,
        )  # fmt: skip
        return ran.stdout + ran.stderr

    def address_of(self, number: int) -> str:
        """The address of a node."""
        return f"{self._net}.{10 + number}"

    def _place_of(self, number: int) -> str:
        return f"NodeHostname=n{number} NodeAddr={self.address_of(number)}"

    def _first_process(self, node: str) -> int:
        children = Path(f"/proc/{self._daemons[node].pid}/task/{self._daemons[node].pid}/children")
        self._until(lambda: children.read_text().split(), f"the first process of {node}")
        return int(children.read_text().split()[0])

    def _namespace(self, number: int) -> str:
        return f"on{number}{self._mark}"


def _ip(*arguments: str, check: bool = True) -> None:
    deadline = time.monotonic() + PATIENCE
    while (ran := subprocess.run(["ip", *arguments], capture_output=True, check=False)).returncode:
        if not check:
            return
        # A namespace is busy for a moment after its last process has ended.
        assert b"busy" in ran.stderr, (arguments, ran.stderr)
        assert time.monotonic() < deadline, arguments
        time.sleep(0.1)
