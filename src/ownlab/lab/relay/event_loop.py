"""The relay's event loop: wait for sockets, signals and timers, and dispatch them."""

from __future__ import annotations

import math
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

import zmq

from ownlab.lab.transport.control import ControlServer
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.lab.relay.process import Relay

__all__ = ["run_loop"]

# SIGHUP: the keeper was told to end, as everything on this machine is: the job goes on without us.
# SIGTERM alone: somebody stops the runtime who cannot use its socket. The keeper's signal may be a moment behind it.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def run_loop(relay: Relay) -> None:
    """Run until the runtime is over."""
    from ownlab.lab.relay.commands import answer

    listener = ControlServer(relay.plan.control_endpoint.path, partial(answer, relay))
    signals = _signal_pipe()
    relay.poller.register(signals, zmq.POLLIN)
    relay.poller.register(relay.watcher.descriptor, zmq.POLLIN)
    relay.open()
    if not relay.plan.detached:
        relay.poller.register(0, zmq.POLLIN)  # closed when the process that started it is gone
    registered: set[int] = set()
    while relay.exit_code is None:
        wanted = set(listener.descriptors())
        for descriptor in registered - wanted:
            relay.poller.unregister(descriptor)
        for descriptor in wanted - registered:
            relay.poller.register(descriptor, zmq.POLLIN)
        registered = wanted
        for what, _ in relay.poller.poll(_timeout(relay, listener)):
            _serve(relay, listener, signals, what)
        listener.expire(time.monotonic())
        if relay.exit_code is None:
            relay.check(time.monotonic())
    listener.close()


def _timeout(relay: Relay, listener: ControlServer) -> int:
    """Milliseconds until the next timer."""
    times = [at for at in (relay.due(), listener.due()) if at is not None]
    return math.ceil(max(0.0, min(times) - time.monotonic()) * 1000)


def _serve(relay: Relay, listener: ControlServer, signals: int, what: object) -> None:
    if relay.line is not None and what is relay.line.socket:
        relay.line.receive()
    elif what == relay.watcher.descriptor:
        relay.read_news()
    elif what == signals:
        for signum in set(os.read(signals, 4096)):
            if signum == signal.SIGCHLD:
                relay.reap()
            elif signum == signal.SIGHUP:
                relay.leave()
            else:
                relay.end_soon(text("it was stopped"))
    elif what == 0 and not relay.plan.detached:
        if not os.read(0, 4096):
            relay.poller.unregister(0)
            relay.end(text("the process that started it is gone"), now=False)
    elif not relay.channels.serve(what) and isinstance(what, int):
        listener.serve(what)


def _signal_pipe() -> int:
    """Return a descriptor that becomes readable when a signal arrives; the bytes read are signal numbers."""
    out, inward = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(inward, warn_on_full_buffer=False)
    for signum in _SIGNALS:
        signal.signal(signum, lambda *_: None)
    return out
