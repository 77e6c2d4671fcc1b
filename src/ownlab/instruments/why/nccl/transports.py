"""Rules about the way that NCCL takes between GPUs: one that works, and is slower than it could be."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.nccl.interfaces import is_infiniband_interface, is_virtual
from ownlab.instruments.why.nccl.records import Connection, Machine, NcclLog
from ownlab.instruments.why.nccl.rule import NcclRule, machine_name, pairs_of, rank_pairs
from ownlab.instruments.why.records import Finding
from ownlab.text import listing, text

__all__ = [
    "AcrossSockets",
    "DifferentSettings",
    "NoGpuDirect",
    "NoPeerToPeer",
    "NoSharedMemory",
    "SocketsOnly",
    "VirtualInterface",
]

# They change what the ranks do together; others may differ between machines.
_COMMON_SETTINGS = (
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_IB_DISABLE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_PLUGIN",
    "NCCL_NTHREADS",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
)


def _settings(log: NcclLog, *names: str) -> list[str]:
    """ "NCCL_IB_DISABLE=1 on gpu01" for each machine that has it."""
    return [
        text("{name}={value} on {machine}", name=name, value=machine.settings[name], machine=machine_name(machine.name))
        for machine in log.machines
        for name in names
        if machine.settings.get(name, "0") != "0"
    ]


def _over_network(log: NcclLog) -> list[Connection]:
    """Connections over a network between machines."""
    return [each for _, each in pairs_of(log) if each.transport == "NET" and each.same_machine is not True]


def _spans_machines(log: NcclLog) -> bool:
    """Whether the ranks are on several machines, as far as the log can tell."""
    several = any(len({rank.machine for rank in group.ranks}) > 1 for group in log.communicators)
    return several or bool(_over_network(log))


class SocketsOnly(NcclRule):
    """Ranks on different machines talk over sockets instead of InfiniBand.

    **Why it matters.** NET/Socket goes through the kernel's TCP: a few GB/s, and it takes CPU time. InfiniBand and RoCE reach
    the rate of the card (25 to 50 GB/s) and can read the GPU's memory directly. NCCL falls back to sockets without an error.

    **What to do.** Unset `NCCL_IB_DISABLE` and `NCCL_NET=Socket`. Install libibverbs (`libibverbs1`, `rdma-core`) in the image. Give
    containers the devices: `--device=/dev/infiniband --ulimit memlock=-1`. In a cloud, install its plugin (EFA: aws-ofi-nccl;
    Google: gIB or FasTrak). `ibv_devinfo` must list a device with an active port in the same place where the script runs.

    **Sources.** "via NET/Socket", "NET/IB", "Failed to open libibverbs" and NCCL_… variables in the log; issues 676, 952 and 1053 of
    NVIDIA/nccl. Known from public logs; not measured here.
    """

    code = "nccl-sockets"
    title = text("Ranks on different machines talk over sockets")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for NET/Socket between machines, and for why no InfiniBand was taken."""
        sockets = [each for each in _over_network(log) if each.network == "Socket"]
        if not sockets:
            return
        machines = [machine for machine in log.machines if machine.network in ("Socket", "")] or list(log.machines)
        reasons = [*_settings(log, "NCCL_IB_DISABLE"), *_net_settings(log), *_no_adapters(machines)]
        over_infiniband = sorted(
            {name for each in machines for name in each.interfaces if is_infiniband_interface(name)}
        )
        present = sorted({adapter for each in log.machines for adapter in each.adapters})
        if present:
            reasons.append(text("NCCL found {adapters}", adapters=listing(present[:4])))
        if over_infiniband:
            reasons.append(
                text("the sockets use {interfaces}: IP over InfiniBand", interfaces=listing(over_infiniband))
            )
        pairs = rank_pairs(sockets)
        if present or over_infiniband:
            headline = text("Ranks {pairs} talk over TCP sockets, although there is a faster network.", pairs=pairs)
        elif _settings(log, "NCCL_IB_DISABLE") or _net_settings(log):
            headline = text("Ranks {pairs} talk over TCP sockets: faster networks are switched off.", pairs=pairs)
        else:
            headline = text("Ranks {pairs} talk over TCP sockets: NCCL found no faster network.", pairs=pairs)
        yield self.finding(
            headline=headline,
            evidence=reasons or [sockets[0].how],
            meaning=text("Sockets take a few GB/s and CPU time; InfiniBand or RoCE reach the rate of the card."),
            advice=_socket_advice(log),
        )  # fmt: skip


def _net_settings(log: NcclLog) -> list[str]:
    return [
        text("NCCL_NET=Socket on {machine}", machine=machine_name(machine.name))
        for machine in log.machines
        if machine.settings.get("NCCL_NET", "").lower() == "socket"
    ]


def _no_adapters(machines: Iterable[Machine]) -> list[str]:
    return [
        text("{machine}: NET/IB: {reason}", machine=machine_name(each.name), reason=each.no_adapter)
        for each in machines
        if each.no_adapter
    ]


def _socket_advice(log: NcclLog) -> list[str]:
    advice = []
    if _settings(log, "NCCL_IB_DISABLE"):
        advice.append(text("Unset NCCL_IB_DISABLE."))
    if _net_settings(log):
        advice.append(text("Unset NCCL_NET."))
    if any("libibverbs" in machine.no_adapter for machine in log.machines):
        advice.append(text("Install libibverbs where the script runs (libibverbs1, rdma-core)."))
    return [
        *advice,
        text("Give containers the devices: --device=/dev/infiniband --ulimit memlock=-1. There, ibv_devinfo must list an active port."),
        text("In a cloud, install the plugin of its network (EFA: aws-ofi-nccl)."),
    ]  # fmt: skip


class VirtualInterface(NcclRule):
    """NCCL uses a network interface that leads to no other machine.

    **Why it matters.** `docker0`, `veth…`, `virbr0`, `lo` and tunnels of VPNs exist on every machine with the same addresses, or are slow.
    Ranks that announce such an address are not found by others: the run hangs at its beginning, or goes through a tunnel.

    **What to do.** Name the right one: `NCCL_SOCKET_IFNAME=eth0`, or exclude the wrong ones: `NCCL_SOCKET_IFNAME=^docker,veth,lo`. For
    Gloo set `GLOO_SOCKET_IFNAME` as well.

    **Sources.** "Bootstrap : Using" and "NET/Socket : Using" in the log; issues 913, 929 and 1053 of NVIDIA/nccl, 68893 of
    pytorch/pytorch; NCCL_SOCKET_IFNAME in NCCL's manual.
    """

    code = "nccl-virtual-interface"
    title = text("NCCL uses an interface that leads to no other machine")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look at the interfaces of runs on several machines."""
        elsewhere = any(group.size > len(group.ranks) for group in log.communicators)
        failed = any(each.kind in ("connect", "interface") for each in log.failures)
        if not (_spans_machines(log) or elsewhere or failed):
            return
        wrong = {}
        for machine in log.machines:
            first = machine.bootstrap or (machine.interfaces[0] if machine.interfaces else "")
            used = [first, *(machine.interfaces if machine.network in ("Socket", "") else ())]
            names = [name for name in dict.fromkeys(used) if is_virtual(name)]
            if names:
                wrong[machine.name] = names
        if not wrong:
            return
        names = sorted({name for each in wrong.values() for name in each})
        yield self.finding(
            headline=text(
                "Interfaces that NCCL uses lead to no other machine: {interfaces}.", interfaces=listing(names[:4])
            ),
            evidence=[
                text("{machine} uses {interfaces}", machine=machine_name(machine), interfaces=listing(each))
                for machine, each in wrong.items()
            ],
            meaning=text("Other ranks do not find this address, or go through a tunnel."),
            advice=[
                text("Name the interface that leads to the other machines: NCCL_SOCKET_IFNAME=eth0"),
                text("Or exclude the wrong ones: NCCL_SOCKET_IFNAME=^{names}", names=",".join(names[:4])),
            ],
        )


class NoGpuDirect(NcclRule):
    """InfiniBand is used without GPUDirect RDMA.

    **Why it matters.** With GPUDirect RDMA the network card reads and writes the GPU's memory. Without it each message is copied through
    the host's memory, on both sides: about half the rate, more latency, and load on PCIe.

    **What to do.** Load the driver's module: `modprobe nvidia-peermem` (or use a kernel and driver with DMA-BUF). Disable ACS on the
    PCIe switches, and boot with `iommu=pt`. A network card on another socket than the GPU is not used directly unless
    `NCCL_NET_GDR_LEVEL` allows it. Virtual machines need the passthrough of both.

    **Sources.** Connections "via NET/IB/…" without "/GDRDMA", "GPU Direct RDMA Disabled for HCA" in the log; issues 1537, 1737 and 1939
    of NVIDIA/nccl, 56 of Mellanox/nv_peer_memory. Known from public logs; not measured here.
    """

    code = "nccl-no-gpu-direct"
    title = text("InfiniBand is used without GPUDirect RDMA")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for connections over a network card that do not read the GPU's memory."""
        fast = [each for each in _over_network(log) if each.network != "Socket"]
        without = [each for each in fast if not each.gpu_direct]
        if not without:
            return
        disabled = [
            text(
                "{machine}: GPUDirect RDMA is disabled for {adapter}", machine=machine_name(each.name), adapter=adapter
            )
            for each in log.machines
            for adapter, enabled in each.gpu_direct.items()
            if not enabled
        ]
        yield self.finding(
            headline=text(
                "Ranks {pairs} use {network} without GPUDirect: each message is copied through the host's memory.",
                pairs=rank_pairs(without),
                network=without[0].network,
            ),
            evidence=[
                text("{count} of {all} connections between machines have no GDRDMA", count=len(without), all=len(fast)),
                *disabled,
                *_settings(log, "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE"),
            ],
            meaning=text("Each message crosses PCIe twice on each machine, and waits for the host in between."),
            advice=[
                text("Load the module of the driver on each machine: modprobe nvidia-peermem"),
                text("Disable ACS on PCIe switches and boot with iommu=pt; see that card and GPU are on one socket: nvidia-smi topo -m"),
            ],
        )  # fmt: skip


class NoPeerToPeer(NcclRule):
    """GPUs of one machine do not reach each other directly.

    **Why it matters.** Over NVLink or PCIe one GPU writes into the other's memory. Otherwise every message goes through the host's memory
    (SHM): some 5 to 10 GB/s instead of 20 to 450.

    **What to do.** Unset `NCCL_P2P_DISABLE` and `NCCL_P2P_LEVEL`. If it was set because the run hung: the cause is nearly always ACS or
    an IOMMU, to be disabled in the firmware or with `iommu=pt` (`iommu=off` for Intel's VT-d without virtual machines). GPUs on different
    sockets use SHM by default; `nvidia-smi topo -p2p r` shows what the driver allows. Consumer cards since the RTX 40 series have no P2P:
    there is nothing to change.

    **Sources.** "via SHM", "P2P is disabled between connected GPUs" and NCCL_P2P_… in the log; issues 257, 606, 631, 667 and 2079 of
    NVIDIA/nccl. Known from public logs; not measured here.
    """

    code = "nccl-no-p2p"
    title = text("GPUs of one machine do not reach each other directly")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for shared memory between ranks of one machine."""
        shared = [each for _, each in pairs_of(log) if each.transport == "SHM"]
        reasons = _settings(log, "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE")
        closed = [
            text("{machine}: P2P is disabled between GPUs {pairs}", machine=machine_name(each.name), pairs=", ".join(each.p2p_disabled[:4]))
            for each in log.machines
            if each.p2p_disabled
        ]  # fmt: skip
        if not shared and not (closed or any("DISABLE=1" in reason for reason in reasons)):
            return
        local = [each for _, each in pairs_of(log) if each.transport in ("SHM", "P2P")]
        if not shared:
            headline = text("P2P between GPUs of one machine is disabled.")
        else:
            headline = text(
                "Ranks {pairs} of one machine talk through the host's memory instead of NVLink or PCIe.",
                pairs=rank_pairs(shared),
            )
        yield self.finding(
            headline=headline,
            evidence=[
                *reasons,
                *closed,
                *([text("{count} of {all} connections within machines are SHM", count=len(shared), all=len(local))] if shared else []),
            ],
            meaning=text("Each message is written to the host's memory and read from there."),
            advice=_p2p_advice(reasons),
        )  # fmt: skip


def _p2p_advice(reasons: list[str]) -> list[str]:
    cause = text(
        "If the run hangs with P2P, the cause is ACS or an IOMMU: disable it in the firmware, or boot with iommu=pt."
    )
    if reasons:
        return [text("Unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL."), cause]
    return [
        text("See what the driver allows: nvidia-smi topo -p2p r. Consumer cards since the RTX 40 series have no P2P; then there is nothing to change."),
        cause,
    ]  # fmt: skip


class NoSharedMemory(NcclRule):
    """Ranks of one machine talk over the network.

    **Why it matters.** Within a machine NCCL uses P2P, or else shared memory. If both are off, or if the ranks are in containers that share
    no memory, each message goes out over the network card or TCP and comes back.

    **What to do.** Unset `NCCL_SHM_DISABLE`. Run the ranks of a machine in one container, or give their containers a common `/dev/shm` and
    one namespace of processes: `--ipc=host --pid=host`.

    **Sources.** "via NET/…" between ranks with one host name, NCCL_SHM_DISABLE in the log; issue 1466 of NVIDIA/nccl. Known from
    public logs; not measured here.
    """

    code = "nccl-no-shared-memory"
    title = text("Ranks of one machine talk over the network")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look for a network between ranks of one machine."""
        inside = [each for _, each in pairs_of(log) if each.transport == "NET" and each.same_machine]
        # With rail-optimised networks NCCL sends over NVLink to the GPU beside the card (PXN); that is no detour.
        through = [each for each in inside if "(" not in each.how]
        if not through:
            return
        reasons = _settings(log, "NCCL_SHM_DISABLE", "NCCL_P2P_DISABLE")
        yield self.finding(
            headline=text(
                "Ranks {pairs} of one machine talk over {network}, as if they were on two.",
                pairs=rank_pairs(through),
                network=through[0].network,
            ),
            evidence=[*reasons, text("{how} between ranks of one machine", how=through[0].how)],
            meaning=text(
                "Neither P2P nor shared memory is used: each message goes out over the network and comes back."
            ),
            advice=[
                text("Unset NCCL_SHM_DISABLE.")
                if reasons
                else text("Run the ranks of a machine in one container, or with --ipc=host --pid=host.")
            ],
        )


class AcrossSockets(NcclRule):
    """The ring of a machine crosses its CPU sockets.

    **Why it matters.** GPUs behind different CPUs reach each other over the link between the sockets (UPI, Infinity Fabric): some 10 GB/s as
    NCCL counts it, shared by all. The slowest part of the ring sets its rate.

    **What to do.** For a job on half of the GPUs take those of one socket (`nvidia-smi topo -m`: PIX, PXB, PHB or NODE between them instead of
    SYS). With NVLink bridges, take pairs that have one. Otherwise it is the machine: fewer, larger messages (gradient accumulation,
    larger buckets) help.

    **Sources.** "Pattern 4 … type SYS" in a log with NCCL_DEBUG_SUBSYS=INIT,GRAPH; NCCL's `graph/topo.cc`. Known from public logs; not
    measured here.
    """

    code = "nccl-across-sockets"
    title = text("The ring of a machine crosses its CPU sockets")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Look at the farthest path between GPUs in a ring."""
        far = [machine for machine in log.machines if "SYS" in machine.paths]
        if not far:
            return
        yield self.finding(
            headline=text(
                "The GPUs of {machines} are behind different CPUs: their ring crosses the link between the sockets.",
                machines=listing([machine_name(each.name) for each in far[:4]]),
            ),
            evidence=[
                text("{machine}: the ring has a path of type SYS", machine=machine_name(each.name)) for each in far
            ],
            meaning=text("That link carries some 10 GB/s, for all GPUs together, and the slowest part sets the rate of the ring."),
            advice=[
                text("For a job on some of the GPUs take those of one socket, or with NVLink between them: nvidia-smi topo -m"),
            ],
        )  # fmt: skip


class DifferentSettings(NcclRule):
    """The machines have different settings of NCCL.

    **Why it matters.** Variables such as NCCL_ALGO, NCCL_PROTO, NCCL_P2P_DISABLE or NCCL_IB_DISABLE change what ranks expect from each
    other. If they are set on one machine only, the run may hang, fail with wrong sizes, or take the slower way for all.

    **What to do.** Set them in one place for all ranks: `torchrun` and `mpirun` do not pass variables on by themselves (`mpirun -x
    NCCL_…`), and `/etc/nccl.conf` may differ between machines.

    **Sources.** "set by environment to" in the log, of each machine; issue 1328 of NVIDIA/nccl.
    """

    code = "nccl-different-settings"
    title = text("The machines have different settings of NCCL")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Compare the variables of the machines that logged any."""
        machines = [machine for machine in log.machines if machine.name and (machine.settings or machine.network)]
        if len(machines) < 2:
            return
        different = [
            name for name in _COMMON_SETTINGS if len({machine.settings.get(name, "") for machine in machines}) > 1
        ]
        if not different:
            return
        yield self.finding(
            headline=text("The machines differ in {names}.", names=listing(different[:4])),
            evidence=[
                text("{name}={value} on {machine}", name=name, value=machine.settings[name], machine=machine.name)
                if name in machine.settings
                else text("{name} is not set on {machine}", name=name, machine=machine.name)
                for name in different
                for machine in machines[:4]
            ],
            meaning=text("The ranks expect different things of each other: they hang, fail, or take the slower way."),
            advice=[
                text("Set the variables in one place for all ranks, and look into /etc/nccl.conf of each machine.")
            ],
        )
