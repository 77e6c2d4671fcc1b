"""The supervisor's loop: sleeps until something happens or is due, and hands it to whom it concerns."""

from __future__ import annotations

import math
import os
import signal
import time
from functools import partial

import zmq

from ownlab.lab.supervisor.channels import Channels
from ownlab.lab.supervisor.control_commands import answer
from ownlab.lab.supervisor.journal_recorder import Recording
from ownlab.lab.supervisor.lifecycle import Life
from ownlab.lab.supervisor.state_writer import say
from ownlab.lab.transport.control import Listener

__all__ = ["run"]

# Seconds that on_end has when whoever started the runtime is gone.
_ORPHANED = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1)


def run(life: Life, keeper: int) -> None:
    """Until the runtime is over."""
    poller = zmq.Poller()
    recording = Recording(life.plan) if life.plan.journal else None
    try:
        channels = Channels(life.plan.connection, poller, recording, life.plan.sockets)
        listener = Listener(os.path.join(life.plan.sockets, "control"), partial(answer, life))
    except (zmq.ZMQError, OSError) as exc:
        life.fail("ended", f"its sockets cannot be opened: {exc.strerror or exc}")
        if recording:
            recording.add_event("ended", why=life.book.state["reason"])
            recording.write()
            recording.close()
        return
    life.open(channels, recording)
    _Loop(life, channels, listener, poller, keeper).run()
    listener.close()


class _Loop:
    def __init__(self, life: Life, channels: Channels, listener: Listener, poller: zmq.Poller, keeper: int) -> None:
        self._life, self._channels, self._listener, self._poller = life, channels, listener, poller
        self._keeper = keeper
        self._signals = _signal_pipe()
        self._starter = -1 if life.plan.detached else 0
        self._descriptors: set[int] = set()

    def run(self) -> None:
        self._life.reap()  # it may have died before anybody listened
        while self._life.exit_code is None:
            self._register()
            for what, _ in self._poller.poll(self._patience()):
                self._serve(what)
            self._life.hear()
            now = time.monotonic()
            self._listener.expire(now)
            if self._life.exit_code is None:
                self._life.check(now)

    def _register(self) -> None:
        """Connections and probes come and go."""
        wanted = {self._signals, *self._listener.descriptors(), *self._life.probe.descriptors()}
        if self._starter >= 0:
            wanted.add(self._starter)
        for descriptor in self._descriptors - wanted:
            self._poller.unregister(descriptor)
        for descriptor in wanted - self._descriptors:
            self._poller.register(descriptor, zmq.POLLIN)
        self._descriptors = wanted

    def _patience(self) -> int | None:
        """Milliseconds to sleep; None: until something happens."""
        times = [at for at in (self._life.due(), self._listener.due()) if at is not None]
        # Rounded up: rounded down to 0 it would spin for the last millisecond.
        return math.ceil(max(0.0, min(times) - time.monotonic()) * 1000) if times else None

    def _serve(self, what: object) -> None:
        if self._channels.serve(what):
            return
        if what == self._signals:
            for signum in set(os.read(self._signals, 4096)):
                self._signalled(signum)
        elif what == self._starter:
            if not os.read(self._starter, 4096):
                self._starter = -1
                self._life.end("whoever started it is gone", now=False, seconds=_ORPHANED)
        elif what in self._life.probe.descriptors():
            self._life.probe.serve()
        elif isinstance(what, int):
            self._listener.serve(what)

    def _signalled(self, signum: int) -> None:
        if signum == signal.SIGCHLD:
            self._life.reap()
        elif signum == signal.SIGTERM:
            self._life.end("it was stopped", now=False)
        elif os.getppid() != self._keeper:
            say("the keeper died")
            self._life.end("its keeper was killed", now=True)


def _signal_pipe() -> int:
    """A descriptor that can be read when a signal came: its numbers are what is read."""
    out, inward = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(inward, warn_on_full_buffer=False)
    for signum in _SIGNALS:
        signal.signal(signum, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return out
