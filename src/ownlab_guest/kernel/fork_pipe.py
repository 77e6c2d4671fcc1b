"""The pipe on which forked workers (multiprocessing, DataLoader) send what they print to the kernel.

ipykernel opens it as a TCP port on 127.0.0.1 without encryption: any user of the machine can write to it, and fill memory and
disk of its owner. Here it is a Unix socket beside the kernel's other sockets, in a folder that only its owner may enter.
"""

import os
import sys
from typing import Any

__all__ = ["use_private_pipe"]

LINGER = 30_000  # milliseconds that a worker waits for the kernel to take what it printed
USED = ("_setup_pipe_in", "_setup_pipe_out", "_handle_pipe_msg", "_is_master_process")  # in ipykernel 4 to 7


def use_private_pipe(thread_class: Any, path: str) -> None:
    """Let ipykernel's IOPubThread open its pipe at `path`. One that works differently gets none, and the log says so."""
    missing = [name for name in USED if not hasattr(thread_class, name)]
    if missing:
        _log("this version of ipykernel has no {}; output of forked workers is lost".format(", ".join(missing)))
        _open_no_pipe(thread_class)
        return
    import zmq
    from zmq.eventloop.zmqstream import ZMQStream

    address = "ipc://" + path

    def open_in_kernel(self: Any) -> None:
        self._pipe_uuid = os.urandom(16)  # ipykernel ignores messages that do not begin with it
        receiver = self.socket.context.socket(zmq.PULL)
        receiver.linger = 0
        try:
            receiver.bind(address)
        except zmq.ZMQError as exc:
            receiver.close()
            self._pipe_flag = False
            _log("{} cannot be opened ({}); output of forked workers is lost".format(path, exc))
            return
        self._pipe_in = ZMQStream(receiver, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def open_in_worker(self: Any) -> Any:
        context: Any = zmq.Context()  # that of the kernel does not work after a fork
        sender = context.socket(zmq.PUSH)
        sender.linger = LINGER
        sender.connect(address)
        return context, sender

    thread_class._setup_pipe_in = open_in_kernel
    thread_class._setup_pipe_out = open_in_worker


def _open_no_pipe(thread_class: Any) -> None:
    original = thread_class.__init__

    def init(self: Any, socket: Any, pipe: bool = False, *args: Any, **kwargs: Any) -> None:
        original(self, socket, False, *args, **kwargs)

    thread_class.__init__ = init


def _log(message: str) -> None:
    """Write to the runtime's log: ipykernel has not replaced the streams yet."""
    sys.stderr.write("ownlab: " + message + "\n")
