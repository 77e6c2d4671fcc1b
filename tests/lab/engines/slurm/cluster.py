"""A real Slurm on this machine: one controller and some nodes with fake GPUs, as children of the test that uses it.

It needs no root, no systemd, no cgroups and nothing in /etc. `scripts/setup test` installs its programs.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")
# Daemons are in sbin, which is not on the PATH of plain users.
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
PATIENCE = 120.0  # seconds
ENDS_WITHIN = 15.0  # seconds for a daemon, which may wait for steps of jobs that never end

CONFIG = """
ClusterName=test
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={socket}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
SlurmctldTimeout=120
SlurmdTimeout={node_timeout}
MessageTimeout=60
KillWait={kill_wait}
OverTimeLimit=0
MinJobAge={keeps_ended}
MpiDefault=none
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
SlurmdParameters=config_overrides
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=2-00:00:00 DefaultTime=01:00:00 State=UP
PartitionName=closed Nodes=n2 MaxTime=30 State=DOWN
PartitionName=one Nodes=n1 MaxTime=UNLIMITED DefaultTime=02:00:00 State=UP
PartitionName=short Nodes=n1 MaxTime=5 MaxNodes=1 State=UP
"""


def missing() -> str:
    """The first program that is not installed; "" if all are."""
    return next((name for name in PROGRAMS if shutil.which(name, path=PATH) is None), "")


class Cluster:
    """A cluster with the nodes n1 and n2, four GPUs on each."""

    address = "127.0.0.1"  # of the controller
    joining = 2  # so many nodes take jobs after the start

    def __init__(self, root: Path, *, keeps_ended: int = 300, kill_wait: int = 30, node_timeout: int = 300) -> None:
        self.root = root
        self._settings = {"keeps_ended": keeps_ended, "kill_wait": kill_wait, "node_timeout": node_timeout}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
        self.env |= {"SLURM_CONF": str(root / "slurm.conf"), "PATH": PATH}

    def start(self) -> None:
        """Start everything, and wait until both nodes take jobs."""
        for name in ("state", "spool", "dev", "log"):
            (self.root / name).mkdir(parents=True)
        key = self.new_key("munge.key")
        for number in range(4):  # devices, as slurmd demands; the number in the name is that of the card
            (self.root / "dev" / f"gpu{number}").symlink_to("/dev/null")
        self._write_config()
        self.start_munge(key)
        self.start_controller()
        for node in ("n1", "n2"):
            self.start_node(node)
        self._until(lambda: self.idle() == self.joining, "the nodes")

    @property
    def socket(self) -> Path:
        """The socket of munged."""
        return self.root / "munge.sock"

    def new_key(self, name: str) -> Path:
        """Make a key for munged."""
        key = self.root / name
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        return key

    def start_munge(self, key: Path) -> None:
        """Start munged with this key."""
        self._daemon("munged", *self._munge_options(key, self.root, self.socket))
        self._until(self.socket.exists, "munged")

    def start_other_munge(self, key: Path, folder: Path) -> None:
        """Start another munged beside it, with the socket "sock" in a folder."""
        self._daemon("munged", *self._munge_options(key, folder, folder / "sock"), label=f"munged-{folder.name}")
        self._until((folder / "sock").exists, "another munged")

    def _munge_options(self, key: Path, folder: Path, socket: Path) -> list[str]:
        return [
            "--foreground", "--force", "--num-threads=2", f"--key-file={key}", f"--socket={socket}",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
        ]  # fmt: skip

    def idle(self) -> int:
        """How many nodes have no job and take some."""
        return int(self.ask("sinfo", "-h", "-p", "gpu", "-t", "idle", "-o", "%D").strip() or 0)

    def start_controller(self) -> None:
        """Start slurmctld, the first time or again."""
        self._daemon("slurmctld", "-D")
        self._until(lambda: "UP" in self.ask("scontrol", "ping"), "slurmctld")

    def start_node(self, name: str) -> None:
        """Start slurmd of a node."""
        self._daemon("slurmd", "-D", "-N", name, label=name)

    def end(self, name: str) -> None:
        """End the daemon of this name as an administrator does. slurmctld saves its state; killed, it loses the last seconds."""
        daemon = self._daemons.pop(name)
        daemon.terminate()
        daemon.wait(PATIENCE)

    def kill(self, name: str) -> None:
        """Kill the daemon of this name, or of this node."""
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait(PATIENCE)

    def cut_power(self, node: str) -> None:
        """Kill everything on a node at once: its daemon, and what runs of jobs there."""
        self.kill(node)
        for pid in self.processes():
            with contextlib.suppress(OSError):  # it has ended
                environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if (
                    f"SLURMD_NODENAME={node}".encode() in environ
                    or b"slurmstepd" in Path(f"/proc/{pid}/cmdline").read_bytes()
                ):
                    os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End all jobs and daemons, and whatever a job has left."""
        controller = self._daemons.get("slurmctld")
        if controller is not None and controller.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # whatever a test has done to it
                self.ask("scancel", "--full", "--signal=KILL", "-u", getpass.getuser())
                self.ask("scancel", "-u", getpass.getuser())
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        deadline = time.monotonic() + ENDS_WITHIN
        while any(daemon.poll() is None for daemon in self._daemons.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for daemon in self._daemons.values():
            daemon.kill()  # harmless for one that has ended
            daemon.wait()
        self._daemons.clear()
        # slurmstepd would try for minutes to tell a controller that is gone.
        deadline = time.monotonic() + PATIENCE
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def ask(self, *command: str) -> str:
        """Run a command of Slurm; return what it prints, on whatever stream."""
        ran = subprocess.run(
            command, capture_output=True, text=True, env=self.env, cwd=self.root, timeout=PATIENCE, check=False
        )
        return ran.stdout + ran.stderr

    def processes(self) -> list[int]:
        """All processes of the cluster and its jobs that still run."""
        mark = str(self.root).encode()
        pids = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                environ = (path / "environ").read_bytes()
                if (b"SLURM_CONF=" + mark in environ or mark in (path / "cmdline").read_bytes()) and int(
                    path.name
                ) != os.getpid():
                    pids.append(int(path.name))
        return pids

    def _daemon(self, program: str, *arguments: str, label: str = "") -> None:
        name = label or program
        with open(self.root / "log" / name, "ab") as log:
            path = shutil.which(program, path=PATH)
            assert path is not None, program
            self._daemons[name] = subprocess.Popen(
                [path, *arguments], env=self.env, cwd=self.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _write_config(self) -> None:
        controller, *nodes = _free_ports(3)
        cpus = 8 * (os.cpu_count() or 1)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        host = os.uname().nodename
        values = {"host": host, "address": self.address, "socket": self.socket, "user": getpass.getuser()}
        lines = [CONFIG.format(port=controller, root=self.root, **values, **self._settings)]
        for number, port in enumerate(nodes, 1):
            lines.append(
                f"NodeName=n{number} {self._place_of(number)} Port={port} CPUs={cpus} RealMemory={memory} "
                "Gres=gpu:fake:4 State=UNKNOWN"
            )
        # Nodes are defined before the partitions that name them.
        settings, partitions = lines[0].split("PartitionName", 1)
        (self.root / "slurm.conf").write_text("\n".join([settings, *lines[1:], "PartitionName" + partitions]))
        gres = f"AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=fake File={self.root}/dev/gpu[0-3]\n"
        (self.root / "gres.conf").write_text(gres)

    def _place_of(self, number: int) -> str:
        """Where a node is, for slurm.conf."""
        return f"NodeHostname={os.uname().nodename} NodeAddr=127.0.0.1"

    def _until(self, condition: object, what: str) -> None:
        assert callable(condition)
        deadline = time.monotonic() + PATIENCE
        while not condition():
            logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted((self.root / "log").iterdir()))
            assert time.monotonic() < deadline, f"{what} not in {PATIENCE} s:\n{logs}"
            time.sleep(0.05)


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
