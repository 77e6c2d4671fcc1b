"""Rules about runs on several cards or machines: NCCL's network, locked memory, ranks and peers."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule, FixedMessageRule
from ownlab.text import text

__all__ = ["CollectiveSetup", "LockedMemory", "PcieTopology", "RendezvousFailed"]


class LockedMemory(CauseRule):
    """InfiniBand cannot register memory: the limit for locked memory is too small.

    **Why it matters.** RDMA pins memory. The default limit (64 KiB to 8 MiB) and containers without IPC_LOCK stop it with
    "Cannot allocate memory", though there is enough memory.

    **What to do.** Raise memlock to unlimited for the user, the service and the container.

    **Sources.** limits.conf(5); NCCL user guide, "Troubleshooting"; NVIDIA/nccl-tests#206; microsoft/mscclpp#335.
    """

    code = "memlock"
    severity = "error"
    title = text("The limit for locked memory is too small for InfiniBand")
    causes = (
        Cause(
            r"ibv_(?:reg_mr\w*|create_cq|create_qp|alloc_pd|reg_dmabuf_mr)\b[^\n]*(?:Cannot allocate memory|failed)|(?:UCX|ucx|verbs|mlx5)[^\n]*(?:memlock|Cannot allocate memory|locked memory)|RLIMIT_MEMLOCK|max locked memory|memlock (?:limit|is too)",
            text("InfiniBand cannot lock memory: the limit (ulimit -l) is too small, or the container may not"),
            text("RDMA pins memory, which this process may not do beyond its limit. It is not the amount of memory."),
            (
                text("Container: docker run --cap-add=IPC_LOCK --ulimit memlock=-1:-1 --device=/dev/infiniband …"),
                text(
                    "Host: printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' | sudo tee /etc/security/limits.d/rdma.conf; log in again. Services: LimitMEMLOCK=infinity; also in slurmd."
                ),
                text("Check in the job itself: mpirun … bash -c 'ulimit -l'   # must say unlimited"),
            ),
        ),
    )


class CollectiveSetup(CauseRule):
    """NCCL (or another collective library) cannot connect the ranks.

    **Why it matters.** NCCL chooses a network interface, shared memory and a way between the cards by itself. With several
    interfaces, containers, IOMMU or two ranks on one card the choice fails, and the run hangs or ends.

    **What to do.** `NCCL_DEBUG=INFO` names the step. Name the interface; give each rank its own card.

    **Sources.** NCCL user guide, "Environment variables" and "Troubleshooting"; NVIDIA/nccl-tests#219.
    """

    code = "nccl-setup"
    severity = "error"
    title = text("NCCL cannot connect the ranks")
    causes = (
        Cause(
            r"no socket interface found|No interface found|Could not find (?:any )?(?:NIC|interface)|(?:Bootstrap|NET/Socket) ?: ?no (?:usable )?|Socket creation failed|Address family not supported|with family \d+ is neither AF_INET|network is unreachable|No route to host|misc/socket\.\w+:\d+[^\n]*(?:failed|refused|timed out|error)|socket\w*Connect[^\n]*(?:fail|refused|timed out)|Call to (?:connect|bind|recv|send) [^\n]*(?:failed|returned)|bootstrap\.\w+:\d+[^\n]*(?:fail|WARN)",
            text("NCCL finds no network interface on which the machines reach each other"),
            text(
                "NCCL takes the first interface that it likes; that one has no address, is Docker's, does not exist, or has another name on the other machine. It needs one with an address even on a single machine."
            ),
            (
                text(
                    "ip -br addr   # on every machine; then name the one that connects them: export NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0"
                ),
                text(
                    "If the names differ: export NCCL_SOCKET_IFNAME=enp6s0,enp4s0; exclude with ^docker0,lo; on one machine without a network: NCCL_SOCKET_IFNAME=lo. Open the ports between the machines."
                ),
            ),
        ),
        Cause(
            r"Duplicate GPU detected|multiple ranks[^\n]*same (?:GPU|device)|both on CUDA device",
            text("Two ranks use the same card"),
            text("NCCL needs a card for each rank."),
            (
                text(
                    "Before the first CUDA call: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])); start as many processes as there are cards."
                ),
                text("MIG instances of one card count as the same card: NCCL cannot connect them."),
            ),
        ),
        Cause(
            r"Could not enable P2P between|doesn't support faster communication broadband via P2P|nvmlDeviceGetHandleByPciBusId\S* failed|peer access is not supported|P2P[^\n]*(?:not supported|disabled|fail)|peer mapping resources exhausted|NVLS[^\n]*(?:fail|error)|Could not find a path for pattern|cudaIpc(?:Open|Get)MemHandle[^\n]*(?:failed|invalid|error)|Missing C[uU][dD][aA] [Dd]river symbols|Failed to bind NVLink SHARP|transport/(?:p2p|nvls|shm)\S*:\d+[^\n]*WARN",
            text("The cards cannot reach each other directly"),
            text(
                "Peer access fails: IOMMU or ACS is on, the cards are on different root ports, a container lacks shared memory, or NVLink's fabric is not ready."
            ),
            (
                text(
                    "Try: export NCCL_P2P_DISABLE=1 (slower); NVLS: export NCCL_NVLS_ENABLE=0, and restart nvidia-fabricmanager."
                ),
                text(
                    "Permanent: turn ACS off for the switches (or boot with iommu=pt); in containers --ipc=host; nvidia-smi topo -p2p r"
                ),
            ),
        ),
        Cause(
            r"ibv_(?:modify_qp|poll_cq|open_device|get_async_event)[^\n]*(?:fail|error)|NET/IB ?:[^\n]*(?:completion[^\n]*error|Got completion|fail|error)|vendor err \d+|GID table|Unable to find GID|UCX\s+(?:ERROR|WARN)[^\n]*|no active messages transport",
            text("NCCL fails over InfiniBand or RoCE"),
            text(
                "The link is down, the GID or the traffic class is wrong (RoCE), or the two sides do not reach each other."
            ),
            (
                text(
                    "ibstat; ibv_devinfo; show_gids; then: export NCCL_IB_HCA=mlx5_0 NCCL_IB_GID_INDEX=3   # RoCE v2; without IB: export NCCL_IB_DISABLE=1"
                ),
                text("Longer retries: export NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7"),
            ),
        ),
        Cause(
            r"NCCL WARN Failed to (?:find|load) CUDA (?:library|driver)|NCCL[^\n]*API call is not supported in the installed CUDA driver|nvidia_peermem[^\n]*(?:Invalid argument|fail|error)|Cuda failure '?(?:CUDA driver version|unsupported|not supported|unknown)",
            text("NCCL uses a function that the driver does not have"),
            text(
                "This NCCL was built for a newer CUDA than the driver supports, or a part of the driver (nvidia_peermem, cuMem) does not work here."
            ),
            (
                text(
                    "Update the driver; or: export NCCL_CUMEM_ENABLE=0 NCCL_NVLS_ENABLE=0; nvidia_peermem needs the InfiniBand drivers (MLNX_OFED or inbox peer memory) installed before the NVIDIA driver."
                ),
            ),
        ),
        Cause(
            r"lib(?:nccl|torch_cuda)\S*: undefined symbol: nccl|undefined symbol:? nccl\w+|NCCL version[^\n]*(?:mismatch|different)|ncclInvalidUsage[^\n]*version",
            text("Another NCCL than torch's own is loaded"),
            text(
                "A system NCCL (LD_LIBRARY_PATH, LD_PRELOAD), or an nvidia-nccl wheel of another version, shadows the one that torch was built with."
            ),
            (
                text(
                    "unset LD_PRELOAD; remove system folders with libnccl from LD_LIBRARY_PATH; pip install --force-reinstall torch   # brings its nvidia-nccl"
                ),
            ),
        ),
        Cause(
            r"Test NCCL failure|setting up NCCL communicator and retrieving ncclUniqueId|NCCL[^\n]*internal error - please report|unhandled system error[^\n]*|ncclSystemError|ncclInternalError",
            text("NCCL failed; the ranks probably do not reach each other"),
            text(
                "The message alone does not name the step. Often NCCL_SOCKET_IFNAME names an interface that exists on one machine only, /dev/shm is full, or a rank ended earlier."
            ),
            (
                text("export NCCL_DEBUG=INFO, run again, and read the first WARN line."),
                text(
                    "Interfaces on every machine: ip -br addr; then export NCCL_SOCKET_IFNAME=NAME   # several names, with commas, if they differ"
                ),
                text("In containers: --shm-size=8g or --ipc=host, --net=host"),
            ),
        ),
    )


class RendezvousFailed(CauseRule):
    """The processes of a distributed run do not find each other at the start.

    **Why it matters.** All ranks connect to one address and port. A port in use, a wrong host name or a firewall stop it.

    **What to do.** Choose a free port, an address that all machines reach, and start all ranks.

    **Sources.** pytorch.org, torchrun and torch.distributed; c10d, TCPStore.
    """

    code = "rendezvous"
    severity = "error"
    title = text("The processes do not find each other")
    causes = (
        Cause(
            r"EADDRINUSE|address already in use",
            text("The port for the rendezvous is in use"),
            text("Another run, or what is left of an earlier one, has the port."),
            (
                text(
                    "torchrun --master-port 29501 … (or --standalone); find the old one: ss -ltnp | grep 29500; end it"
                ),
            ),
        ),
        Cause(
            r"connect \[?(?:::ffff:)?127\.\d+\.\d+\.\d+\]?:\d+[^\n]*refused",
            text("A rank is offered a loopback address: a machine's host name resolves to 127.0.0.1 or 127.0.1.1"),
            text(
                "Gloo offers the address to which the own host name resolves. Debian and Ubuntu write 127.0.1.1 for it into /etc/hosts, which no other machine reaches."
            ),
            (
                text(
                    "Name the network interface (ip -br addr): export GLOO_SOCKET_IFNAME=eth0; Gloo's benchmark: --tcp-device eth0"
                ),
                text(
                    "Or in /etc/hosts of each machine: its address in the common network instead of 127.0.1.1; check: getent hosts $(hostname)"
                ),
            ),
        ),
        Cause(
            r"The client socket has failed to connect to (?!\[::)[^\n]*(?:refused|timed out|No route|not known)|RuntimeError: (?:Connection (?:reset|closed) by peer|Socket Timeout)|DistNetworkError|DistStoreError|client socket has timed out|connectFullMesh failed|Timed out (?:initializing|waiting)[^\n]*(?:process group|clients|rendezvous)|RendezvousTimeoutError|RendezvousConnectionError|failed to connect to any (?:of the )?addresses|gloo/transport/tcp/pair\.cc[^\n]*(?:Connection refused|closed by peer|reset by peer|timed out)|getaddrinfo[^\n]*Name or service not known|unable to resolve hostname",
            text("A rank does not reach the rendezvous address"),
            text(
                "Not all ranks were started, the host name resolves to 127.0.0.1, or a firewall is between the machines."
            ),
            (
                text(
                    "MASTER_ADDR must be the first machine's address in the common network; test from the others: nc -vz $MASTER_ADDR 29500"
                ),
                text("Start all ranks with the same MASTER_ADDR, MASTER_PORT and world size."),
            ),
        ),
    )


class PcieTopology(FixedMessageRule):
    """The cards have no NVLink: they reach each other over PCIe, and perhaps not directly.

    **Why it matters.** Between cards without NVLink, direct copies (P2P) go over PCIe. Access control (ACS) or the IOMMU
    (VT-d, AMD-Vi) redirects them to the processor; collectives then hang at full load, or are slow.

    **What to do.** Try without P2P. If that helps, turn ACS or the IOMMU off, or let it pass through.

    **Sources.** NCCL user guide, "Troubleshooting: GPU direct, PCI access control services"; nvidia-smi(1), topo.
    """

    code = "pcie-topology"
    severity = "note"
    title = text("The cards reach each other over PCIe only; if collectives hang, ACS or the IOMMU is the usual reason")
    patterns = (r"(?:^|\n)\s*GPU0\s+X\s+(?:NODE|PHB|PXB|PIX|SYS)\b(?![^\n]*\bNV\d)",)
    meaning = text(
        "SYS and NODE lead through the processor, PHB, PXB and PIX through PCIe bridges. With ACS or VT-d on, direct copies"
        " between cards never end or are slow."
    )
    fix = (
        text("export NCCL_P2P_DISABLE=1   # if a run that hung then works, it is P2P"),
        text(
            "Turn ACS, VT-d or AMD-Vi off in the firmware (or boot with iommu=pt); check: sudo lspci -vvv | grep ACSCtl   # SrcValid+ means on"
        ),
    )
