"""Which network interface the ranks of several nodes must use, where the name of a node does not say so.

Gloo listens on the address to which the name of its machine resolves, or on the loopback address if it resolves to none. Debian lists
a machine's own name as 127.0.1.1, and small clusters have no DNS: then ranks on other machines cannot connect.
"""

import fcntl
import os
import socket
import struct
from typing import Dict, Optional

__all__ = ["choose_interface"]

_VARIABLE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915  # linux/sockios.h
_DISCARD = 9  # a port to which nothing is sent


def choose_interface(environ: Dict[str, str], master: str, is_master: bool) -> None:
    """Name the interface that leads to the first node, unless the machine's own name does, or somebody has chosen one."""
    if _VARIABLE in environ or not _is_loopback(_resolve(socket.gethostname())):
        return
    address = _resolve(master)
    own = address if is_master else _address_towards(address)
    interface = None if own is None or _is_loopback(own) else _interface_with(own)
    if interface is not None:
        environ[_VARIABLE] = interface


def _is_loopback(address: Optional[str]) -> bool:
    """Whether others cannot reach this address; None is no address at all."""
    return address is None or address.startswith("127.") or address == "::1"


def _resolve(name: str) -> Optional[str]:
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return None


def _address_towards(address: Optional[str]) -> Optional[str]:
    """The address of this machine from which packets leave for another one."""
    if address is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _DISCARD))
        except OSError:  # there is no route
            return None
        return str(probe.getsockname()[0])


def _interface_with(address: str) -> Optional[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", os.fsencode(name)[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None
