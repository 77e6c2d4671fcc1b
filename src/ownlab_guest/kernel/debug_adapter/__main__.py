"""debugpy's adapter, for its own user: `python debug_adapter ARGUMENTS…`, started by debugpy in a kernel that is being debugged.

It listens on ports of 127.0.0.1 and trusts whoever connects, with code of their choice. This one closes connections of other
users of the machine before a byte is exchanged.
"""

import importlib.util
import os
import runpy
import socket
import sys
from typing import Any, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
# Shared with the host, which checks TCP clients in the same way: one file of the standard library alone.
OWNERS = os.path.join(HERE, "..", "..", "..", "ownlab", "processes", "tcp_owners.py")


def peer_uid(connection: socket.socket) -> Optional[int]:
    """Return the id of the user who opened this connection; None if it is not of this machine."""
    spec = importlib.util.spec_from_file_location("ownlab_tcp_owners", OWNERS)
    if spec is None or spec.loader is None:
        raise ImportError("there is no " + OWNERS)
    owners: Any = sys.modules.get(spec.name)
    if owners is None:
        owners = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(owners)
        sys.modules[spec.name] = owners
    uid: Optional[int] = owners.peer_uid(connection)
    return uid


def may_enter(connection: socket.socket) -> bool:
    """Whether it is a process of this user or of root; or one of another machine, where the user listens for those."""
    uid = peer_uid(connection)
    if uid is not None:
        return uid in (0, os.geteuid())
    try:
        return not connection.getpeername()[0].startswith(("127.", "::1", "::ffff:127."))
    except OSError:  # it is closed
        return False


def main() -> None:
    """Run debugpy's own adapter with sockets that accept only what may enter."""
    original = socket.socket.accept

    def accept(self: socket.socket) -> Any:
        while True:
            connection, address = original(self)
            if may_enter(connection):
                return connection, address
            connection.close()

    socket.socket.accept = accept  # type: ignore[method-assign]
    if sys.path and os.path.abspath(sys.path[0]) == HERE:
        del sys.path[0]  # Python put the script's folder there
    runpy.run_module("debugpy.adapter", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
