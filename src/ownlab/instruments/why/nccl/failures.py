"""Rules about what makes NCCL fail: versions, GPUs, memory, and networks that do not connect."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.nccl.interfaces import is_virtual
from ownlab.instruments.why.nccl.records import Failure, NcclLog
from ownlab.instruments.why.nccl.rule import NcclRule, failures_of, machine_name
from ownlab.instruments.why.records import Finding
from ownlab.text import listing, text

__all__ = [
    "DifferentCollectives",
    "DuplicateGpu",
    "LinkErrors",
    "LockedMemory",
    "NoConnection",
    "SharedMemoryFull",
    "VersionMismatch",
]


def _said(failures: Iterable[Failure]) -> list[str]:
    """The messages as NCCL wrote them."""
    return [
        text("{machine}: {message} ({count} times)", machine=machine_name(each.machine), message=each.message, count=each.count)
        if each.count > 1
        else text("{machine}: {message}", machine=machine_name(each.machine), message=each.message)
        for each in failures
    ]  # fmt: skip


class VersionMismatch(NcclRule):
    """The ranks have different versions of NCCL.

    **Why it matters.** Versions of NCCL do not understand each other. Newer ones refuse to start with a message; older ones hang in
    the initialisation. PyTorch brings its own NCCL, and a library of the system may come before it.

    **What to do.** Use the same environment (the same image, the same lock file) on every machine, and no `LD_LIBRARY_PATH` or
    `LD_PRELOAD` with another `libnccl.so`. `python -c "import torch; print(torch.cuda.nccl.version())"` on each machine shows it.

    **Sources.** "Mismatched NCCL version detected" and "NCCL version" in the log; `initTransportsRank` in NCCL's `init.cc`.
    """

    code = "nccl-version-mismatch"
    title = text("The ranks have different versions of NCCL")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for NCCL's own message, and for two versions on the machines of one run."""
        said = failures_of(log, "version")
        by_machine = {machine.name: set(machine.versions) for machine in log.machines if machine.versions}
        differ = len({version for versions in by_machine.values() for version in versions}) > 1
        if not said and not differ:
            return
        evidence = [
            text("{machine} has {versions}", machine=machine_name(name), versions=listing(sorted(versions)))
            for name, versions in by_machine.items()
        ]
        yield self.finding(
            headline=text("The ranks have different versions of NCCL, which do not work together."),
            evidence=[*_said(said), *(evidence if differ else [])],
            meaning=text("They refuse to start, or wait for each other for ever."),
            advice=[
                text(
                    "Use the same environment on every machine, without another libnccl.so in LD_LIBRARY_PATH or LD_PRELOAD."
                ),
                text('Compare on each machine: python -c "import torch; print(torch.cuda.nccl.version())"'),
            ],
        )


class DuplicateGpu(NcclRule):
    """Two ranks use the same GPU.

    **Why it matters.** NCCL refuses it. Usually every process takes GPU 0, because `torch.cuda.set_device(local_rank)` is missing or
    comes too late, or because more processes were started than there are GPUs.

    **What to do.** Call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before the process group is made, and start no more
    processes per machine than it has GPUs.

    **Sources.** "Duplicate GPU detected" in the log; `initTransportsRank` in NCCL's `init.cc`.
    """

    code = "nccl-duplicate-gpu"
    title = text("Two ranks use the same GPU")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for NCCL's own message."""
        said = failures_of(log, "duplicate")
        if not said:
            return
        first = said[0]
        yield self.finding(
            headline=text(
                "Ranks {first} and {second} use the same GPU (bus {bus}), which NCCL refuses.",
                first=min(first.ranks),
                second=max(first.ranks),
                bus=first.detail,
            ),
            evidence=_said(said),
            meaning=text("Each process takes the first GPU, or there are more processes than GPUs."),
            advice=[
                text('Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before init_process_group.'),
                text("Start no more processes per machine than it has GPUs (--nproc-per-node)."),
            ],
        )


class SharedMemoryFull(NcclRule):
    """Shared memory (`/dev/shm`) has no room for NCCL.

    **Why it matters.** Ranks of one machine without a direct way between their GPUs exchange data through files in `/dev/shm`, some
    10 MB each. Docker gives a container 64 MB of it. A process that was killed leaves its files behind.

    **What to do.** Start the container with `--shm-size=8g` or `--ipc=host`; in Kubernetes mount an `emptyDir` with `medium: Memory` at
    `/dev/shm`. Remove old `/dev/shm/nccl-*` files when nothing runs. `NCCL_SHM_DISABLE=1` starts, but is slow.

    **Sources.** Warnings of NCCL's `misc/shmutils.cc`; issues 290, 525 and 1683 of NVIDIA/nccl; "Shared Memory" in NCCL's
    troubleshooting guide.
    """

    code = "nccl-shared-memory-full"
    title = text("Shared memory (/dev/shm) has no room for NCCL")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for NCCL's own message."""
        said = failures_of(log, "shared-memory")
        if not said:
            return
        yield self.finding(
            headline=text(
                "NCCL cannot make or open its files in /dev/shm on {machines}.",
                machines=listing(sorted({machine_name(each.machine) for each in said})[:4]),
            ),
            evidence=_said(said),
            meaning=text("It is too small (64 MB in a container of Docker), or full of files that a killed run has left."),
            advice=[
                text("Start the container with --shm-size=8g or --ipc=host; see what is there with: df -h /dev/shm"),
                text("When nothing runs, remove what was left behind: rm /dev/shm/nccl-*"),
            ],
        )  # fmt: skip


class NoConnection(NcclRule):
    """A rank cannot reach another one over the network.

    **Why it matters.** Each rank listens at an address of its machine, and tells it to the others. If NCCL takes the address of an
    interface that others cannot reach (`docker0`, `veth…`, `lo`, a VPN), or a firewall closes its ports, they cannot connect.

    **What to do.** Name the interface that leads to the other machines: `NCCL_SOCKET_IFNAME=eth0` (`ip route get ADDRESS` shows it), on
    each machine its own. Run containers with `--network=host`. Open all TCP ports between the machines.

    **Sources.** Warnings of NCCL's `misc/socket.cc`; issues 331, 913, 929 and 1105 of NVIDIA/nccl; NCCL_SOCKET_IFNAME in its manual.
    """

    code = "nccl-no-connection"
    title = text("A rank cannot reach another one")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for connections that failed, and for the interface that was to blame."""
        said = failures_of(log, "connect", "interface")
        if not said:
            return
        first = next((each for each in said if each.peer), said[0])
        if first.peer:
            headline = text(
                "{machine} cannot connect to {peer}: {reason}.",
                machine=machine_name(first.machine),
                peer=first.peer,
                reason=first.detail,
            )
        else:
            headline = text(
                "{machine} has no network interface that leads to the others.", machine=machine_name(first.machine)
            )
        used = sorted({machine.bootstrap for machine in log.machines if is_virtual(machine.bootstrap)})
        evidence = _said(said)
        if used:
            evidence.insert(
                0, text("NCCL listens at {interfaces}, which other machines do not see.", interfaces=listing(used))
            )
        yield self.finding(
            headline=headline,
            evidence=evidence,
            meaning=text("The ranks wait until they give up: the address cannot be reached from there, or a firewall closes the port."),
            advice=[
                text("Name the interface that leads to the other machines, such as NCCL_SOCKET_IFNAME=eth0; this shows it: ip route get ADDRESS"),
                text("Run containers with --network=host, and open all TCP ports between the machines."),
            ],
        )  # fmt: skip


# enum ibv_wc_status of libibverbs (infiniband/verbs.h).
_STATUS = {
    4: text("a protection error (4): usually ACS or an IOMMU, which breaks direct access to the GPU's memory"),
    5: text("flushed (5): what follows an earlier error"),
    10: text("a remote access error (10)"),
    11: text("a remote operation error (11)"),
    12: text("no answer after all retries (12): the other machine has died, or the way to it is broken"),
    13: text("the receiver was not ready (13)"),
}


class LinkErrors(NcclRule):
    """InfiniBand or RoCE lost a connection.

    **Why it matters.** A transfer that ends with an error ends the run on every rank. Status 12 (no answer after all retries) means
    that the other process has died, a cable or switch port is broken, or, with RoCE, that packets take a wrong way (GID index, MTU,
    flow control). Status 4 usually means that PCI Access Control Services or an IOMMU breaks GPUDirect.

    **What to do.** Look first whether the process on the other side has ended: its own log says why. Then look at the link:
    `ibstat`, `ibdiagnet` or `perfquery`. With RoCE check `NCCL_IB_GID_INDEX`, and try `ib_write_bw` between the two machines. For
    status 4 disable ACS, or boot with `iommu=pt`; `NCCL_NET_GDR_LEVEL=LOC` shows whether GPUDirect is to blame.

    **Sources.** "Got completion from peer" in the log; the numbers of `enum ibv_wc_status`; issues 214, 928, 1405 and 1664 of NVIDIA/nccl.
    """

    code = "nccl-link-error"
    title = text("InfiniBand or RoCE lost a connection")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for completions with an error; those that only follow another one come last."""
        said = sorted(failures_of(log, "link"), key=lambda each: each.detail == "5")
        if not said:
            return
        first = said[0]
        status = int(first.detail)
        yield self.finding(
            headline=text(
                "{machine} lost its connection to {peer}: {status}.",
                machine=machine_name(first.machine),
                peer=first.peer or text("another machine"),
                status=_STATUS.get(status, text("status {number} of ibv_wc_status", number=status)),
            ),
            evidence=_said(said),
            meaning=text("The run ends on all ranks. The first machine that failed is not always the one at fault."),
            advice=[
                text("See whether the process on the other side has ended; its own log then says why."),
                text("Check the link with ibstat and ib_write_bw; with RoCE also NCCL_IB_GID_INDEX, MTU and flow control."),
                *(
                    [text("Disable ACS in the firmware or boot with iommu=pt; NCCL_NET_GDR_LEVEL=LOC shows whether GPUDirect is to blame.")]
                    if status == 4
                    else []
                ),
            ],
        )  # fmt: skip


class LockedMemory(NcclRule):
    """The network card may not lock memory.

    **Why it matters.** InfiniBand and RoCE need memory that stays in place. The limit on locked memory (`ulimit -l`) is 64 KB or 8 MB
    on many systems, also in containers and in jobs of a scheduler.

    **What to do.** Set `ulimit -l unlimited`: `--ulimit memlock=-1` for Docker, `LimitMEMLOCK=infinity` in the unit of slurmd or of the
    container runtime, `memlock unlimited` in `/etc/security/limits.conf`.

    **Sources.** "Call to ibv_… failed with error Cannot allocate memory" in the log; NCCL's troubleshooting guide.
    """

    code = "nccl-locked-memory"
    title = text("The network card may not lock memory")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for NCCL's own message."""
        said = failures_of(log, "locked-memory")
        if not said:
            return
        yield self.finding(
            headline=text("The network card of {machine} gets no locked memory.", machine=machine_name(said[0].machine)),
            evidence=_said(said),
            meaning=text("The limit on locked memory (ulimit -l) is too low there."),
            advice=[
                text("Raise it: --ulimit memlock=-1 for Docker, LimitMEMLOCK=infinity for slurmd, memlock unlimited in limits.conf.")
            ],
        )  # fmt: skip


class DifferentCollectives(NcclRule):
    """The ranks call different collectives, or with different sizes.

    **Why it matters.** Every rank has to call the same collectives in the same order, with tensors of the same size. If they do not,
    NCCL hangs, or stops with this message. Usual causes: a branch that only some ranks take (`if rank == 0:` around something
    that communicates), batches of different length gathered without padding, or different settings of NCCL.

    **What to do.** Run with `TORCH_DISTRIBUTED_DEBUG=DETAIL`, which names the first collective that differs. Compare the NCCL_…
    variables of the ranks.

    **Sources.** "collective mismatch" in the log; issues 296, 531, 969 and 1328 of NVIDIA/nccl.
    """

    code = "nccl-different-collectives"
    title = text("The ranks call different collectives")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for NCCL's own message."""
        said = failures_of(log, "collective")
        if not said:
            return
        yield self.finding(
            headline=text("The ranks call different collectives, or the same one with different sizes."),
            evidence=_said(said),
            meaning=text("A branch of the program is taken by some ranks only, or their NCCL_… variables differ."),
            advice=[text("Run with TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the first collective that differs.")],
        )
