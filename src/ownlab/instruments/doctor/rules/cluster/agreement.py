"""Rules about what jobs on the nodes found: whether they agree with the machine from which the cluster is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ownlab.instruments.doctor.cluster.connections import OPEN
from ownlab.instruments.doctor.cluster.records import ClusterFacts, NodeCheck, NodeFacts, UserDifference
from ownlab.instruments.doctor.records import Finding
from ownlab.instruments.doctor.rules.cluster.cluster_rule import ClusterRule
from ownlab.text import listing, text

__all__ = ["ClusterClocks", "ClusterFolder", "ClusterInterpreter", "ClusterNodeJob", "ClusterPorts", "ClusterUsers"]

_MOST_SHOWN = 8
_CLOCK_TOLERANCE = 2.0  # seconds: munge gives whole ones
_CLOCK_LIMIT = 300.0  # seconds: munge refuses credentials that are older


class ClusterClocks(ClusterRule):
    """The clock of a node is not that of this machine.

    **Why it matters.** munge refuses credentials that are older than five minutes, or from the future: from then on the node is
    lost. Before that, times of files, logs and jobs cannot be compared, and `make` and caches go wrong on shared folders.

    **What to do.** Let chrony or systemd-timesyncd set the clocks of all machines: `timedatectl set-ntp true`. In a virtual machine
    the clock also jumps after it was suspended.

    **Sources.** munge(7): TTL and clock skew; munge reports the difference between ENCODE_TIME here and DECODE_TIME there.
    """

    code = "cluster-clocks"
    severity = "warning"
    title = text("The clock of a node differs")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        for node, check in _checked(facts):
            difference = check.clock_difference
            refused = check.credential.startswith(("Expired", "Rewound"))
            if abs(difference) <= _CLOCK_TOLERANCE and not refused:
                continue
            amount = text("{seconds:.0f} s", seconds=abs(difference))
            yield self.finding(
                title=text("The clock of {name} is at least {amount} ahead", name=node.name, amount=amount)
                if difference > 0
                else text("The clock of {name} is at least {amount} behind", name=node.name, amount=amount),
                evidence=[text("munge on {name} says of a credential made here: {status}", name=node.name, status=check.credential or "?")],
                meaning=text("munge refuses credentials beyond five minutes: the node is lost then.")
                if abs(difference) < _CLOCK_LIMIT
                else text("munge refuses the credentials of this machine there."),
                fix=[text("timedatectl set-ntp true; timedatectl   # on {name}, and here", name=node.name)],
                severity="error" if refused else "warning",
            )  # fmt: skip


class ClusterUsers(ClusterRule):
    """A user's number (uid) is not the same on a node as here.

    **Why it matters.** Slurm and shared folders know people by their numbers. Where a number belongs to somebody else, jobs run as
    that person, and can read and overwrite that person's files; where it belongs to nobody, jobs do not start.

    **What to do.** Give everybody the same number everywhere: a directory (LDAP, FreeIPA), or `useradd -u NUMBER` on each machine.
    Correct the owner of files that were written meanwhile.

    **Sources.** slurm.schedmd.com: Quick Start Administrator Guide ("Make sure the clocks, users and groups (UIDs and GIDs) are
    synchronized across the cluster").
    """

    code = "cluster-users"
    severity = "error"
    title = text("Users do not have the same numbers on a node")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        for node, check in _checked(facts):
            own = next((each for each in check.users if each.name == facts.user), None)
            is_another = bool(check.user) and check.user != facts.user
            if not check.users and not is_another:
                continue
            missing_only = not is_another and all(each.there is None for each in check.users)
            evidence = [_describe_user(each, node.name) for each in check.users[:_MOST_SHOWN]]
            if is_another:
                evidence.insert(0, text("your job on {node} ran as {user}", node=node.name, user=check.user))
            if len(check.users) > _MOST_SHOWN:
                evidence.append(text("and {n} more", n=len(check.users) - _MOST_SHOWN))
            yield self.finding(
                title=text("{name} lacks users that this machine has", name=node.name)
                if missing_only
                else text("Users have other numbers on {name} than here", name=node.name),
                evidence=evidence,
                meaning=text("Jobs of these people do not start there.")
                if missing_only
                else text("Jobs may run as somebody else, who then can read and change what they write."),
                fix=[
                    text("getent passwd {user}   # here and on {node}: the numbers must agree", user=(own or check.users[0]).name if check.users else facts.user, node=node.name),
                    text("Use one directory of users (LDAP, FreeIPA), or the same `useradd -u NUMBER` on all machines."),
                ],
                severity="warning" if missing_only and own is None else "error",
            )  # fmt: skip


class ClusterFolder(ClusterRule):
    """A node does not have the folders that this machine has: a folder is not shared, or another one is mounted there.

    **Why it matters.** Notebooks, scripts, logs and ownlab's own state must be under the same path on all nodes. A job whose folder is
    missing fails at its start; one that has another folder of that name writes where nobody looks.

    **What to do.** Mount the shared file system on the node (`/etc/fstab`, autofs), or move your work and `OWNLAB_HOME` to a folder
    that all nodes share.

    **Sources.** The job looks for a file that was written here, and compares the number (inode) of the current folder.
    """

    code = "cluster-folder"
    severity = "error"
    title = text("A folder is not shared with a node")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        for node in facts.nodes:
            check = node.check
            if check is None:
                continue
            if check.problem in ("folder", "other-folder"):
                yield self._finding(node, facts.folder, check.problem == "folder", "error")
            elif check.current_folder in ("missing", "other"):
                yield self._finding(node, facts.current_folder, check.current_folder == "missing", "warning")

    def _finding(self, node: NodeFacts, folder: str, missing: bool, severity: str) -> Finding:
        return self.finding(
            title=text("{name} does not share {folder}", name=node.name, folder=folder),
            evidence=[
                text("{name}: {folder} is not there", name=node.name, folder=folder)
                if missing
                else text("{name}: {folder} is there, but is another folder", name=node.name, folder=folder)
            ],
            meaning=text("ownlab's state must be in a folder that all nodes share: notebooks and runs cannot start there.")
            if severity == "error"
            else text("Notebooks and scripts of this folder cannot run there."),
            fix=[
                text("findmnt --target {folder}   # here and on {name}: it must be the same file system", folder=folder, name=node.name),
                text("export OWNLAB_HOME=/SHARED/FOLDER/$USER   # if your home is not shared, but another folder is")
                if severity == "error"
                else text("Work in a folder that all nodes share."),
            ],
            severity="error" if severity == "error" else "warning",
        )  # fmt: skip


class ClusterInterpreter(ClusterRule):
    """The interpreter that runs ownlab, or ownlab itself, is not on a node, or is another one there.

    **Why it matters.** The supervisor of a notebook and the launcher of a script are ownlab's own code, which runs on the node in the
    same interpreter as here.

    **What to do.** Install ownlab in a virtual environment in a folder that all nodes share. A virtual environment also needs its base
    interpreter: `/usr/bin/python3` must be the same version on all nodes, or the environment is made with one from a shared folder
    (`uv venv --python`, conda).

    **Sources.** docs.python.org: venv ("pyvenv.cfg", home).
    """

    code = "cluster-interpreter"
    severity = "error"
    title = text("ownlab cannot run on a node")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        for node in facts.nodes:
            check = node.check
            if check is None or check.problem not in ("python", "ownlab"):
                continue
            yield self.finding(
                title=text("{name} does not have the interpreter of ownlab", name=node.name)
                if check.problem == "python"
                else text("The interpreter of ownlab does not find ownlab on {name}", name=node.name),
                evidence=[text("{name}: {python}", name=node.name, python=facts.python), *([check.detail] if check.detail else [])],
                meaning=text("Neither notebooks nor scripts can start there."),
                fix=[
                    text("ls -lL {python}   # on {name}", python=facts.python, name=node.name),
                    text("Install ownlab in an environment in a folder that all nodes share, with a Python that they all have."),
                ],
            )  # fmt: skip


class ClusterPorts(ClusterRule):
    """Machines of the cluster cannot connect to each other's free ports.

    **Why it matters.** A lab reaches a notebook on a node by one TCP connection to a port above 1023. The ranks of a script on several
    nodes find each other in the same way, and NCCL and gloo open more such connections.

    **What to do.** Open the ports above 1023 between the nodes, and from login nodes to nodes, for the network of the cluster. If only
    a range can be opened, the kernel chooses from `net.ipv4.ip_local_port_range`.

    **Sources.** slurm.schedmd.com: Network Configuration Guide; NCCL: NCCL_SOCKET_IFNAME; ip-sysctl.
    """

    code = "cluster-ports"
    severity = "error"
    title = text("Nodes cannot be connected to on free ports")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        from_here = [(node, check) for node, check in _checked(facts) if check.from_here not in ("", OPEN)]
        if from_here:
            names = listing(node.name for node, _ in from_here)
            yield self.finding(
                title=text("This machine cannot connect to free ports of {names}", names=names),
                evidence=[
                    text("{host} to {name} ({address}): {how}", host=facts.host, name=node.name, address=node.address, how=check.from_here)
                    for node, check in from_here
                ],
                meaning=text("A lab here cannot use notebooks there. Scripts can run: their output comes by the shared folder."),
                fix=[text("Open the TCP ports above 1023 from {host} to {names}, or start the lab on a node.", host=facts.host, names=names)],
            )  # fmt: skip
        between = [(node, check) for node, check in _checked(facts) if check.unreachable]
        if between:
            yield self.finding(
                title=text("Nodes cannot connect to each other's free ports"),
                evidence=[
                    text("{name} cannot connect to {others}", name=node.name, others=listing(check.unreachable))
                    for node, check in between[:_MOST_SHOWN]
                ],
                meaning=text("Scripts on several of these nodes do not start: their ranks do not find each other."),
                fix=[text("Open the TCP ports above 1023 between the nodes for the network of the cluster.")],
            )


class ClusterNodeJob(ClusterRule):
    """A small job on a node did not end well.

    **Why it matters.** Every other job there will meet the same.

    **What to do.** Read the reason that Slurm gives, and the log of slurmd on the node. A job that did not start in time waits for
    something: `squeue` shows the reason. `slurm.account` and `slurm.qos` are settings, if the site requires them.

    **Sources.** squeue(1): JOB REASON CODES.
    """

    code = "cluster-node-job"
    severity = "warning"
    title = text("A small job on a node did not end well")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        for node in facts.nodes:
            check = node.check
            if check is None or check.problem not in ("pending", "failed"):
                continue
            pending = check.problem == "pending"
            yield self.finding(
                title=text("A job of some seconds did not start on {name}", name=node.name)
                if pending
                else text("A job of some seconds failed on {name}", name=node.name),
                evidence=[text("job {job}: {detail}", job=check.job or "–", detail=check.detail or "?")],
                meaning=text("What is on the node could not be looked at."),
                fix=[text("journalctl -u slurmd -n 30   # on {name}", name=node.name)]
                if not pending
                else [text("squeue -w {name}   # what runs there", name=node.name)],
                severity="note" if pending else "error",
            )


def _checked(facts: ClusterFacts) -> Iterator[tuple[NodeFacts, NodeCheck]]:
    """The nodes on which a job has looked around, as far as it came."""
    for node in facts.nodes:
        if node.check is not None and node.check.problem not in ("pending", "failed", "folder", "other-folder"):
            yield node, node.check


def _describe_user(user: UserDifference, node: str) -> str:
    if user.there is None:
        return text("{name}: {here} here, unknown on {node}", name=user.name, here=user.here, node=node)
    return text("{name}: {here} here, {there} on {node}", name=user.name, here=user.here, there=user.there, node=node)
