"""Network interfaces by their names: which ones lead to no other machine."""

from __future__ import annotations

import re

__all__ = ["is_infiniband_interface", "is_virtual"]

# Bridges, pairs and tunnels that Docker, Podman, libvirt, CNI plugins and VPNs make. Bonds and VLANs are real networks.
_VIRTUAL = re.compile(
    r"(docker|podman|veth|virbr|vmnet|vboxnet|br-|cni|flannel|cali|cilium|lxc|tun|tap|tailscale|wg|CloudflareWARP)"
)
_INFINIBAND = re.compile(r"ib(\d|s|p|o|n)")  # IP over InfiniBand: ib0, ibs17, ibp5s0  # fmt: skip


def is_virtual(interface: str) -> bool:
    """Whether others can hardly reach this machine through an interface of this name."""
    return interface == "lo" or bool(_VIRTUAL.match(interface))


def is_infiniband_interface(interface: str) -> bool:
    """Whether the interface is IP over InfiniBand."""
    return bool(_INFINIBAND.match(interface))
