"""The supervisor's event loop: wait for sockets, signals and timers, and dispatch them."""

from __future__ import annotations

import math
import os
import signal
import time
from functools import partial

import zmq

from ownlab.errors import LabError
from ownlab.lab.journal.death import Death
from ownlab.lab.supervisor.channels import Channels
from ownlab.lab.supervisor.control_commands import answer
from ownlab.lab.supervisor.job_address import write_address
from ownlab.lab.supervisor.journal_recorder import JournalRecorder
from ownlab.lab.supervisor.lifecycle import Lifecycle
from ownlab.lab.supervisor.script_channels import ScriptChannels
from ownlab.lab.supervisor.state_writer import log
from ownlab.lab.transport.control import ControlServer
from ownlab.text import text

__all__ = ["run"]

# Seconds for on_end when the process that started the runtime is gone.
_ORPHANED = 5.0
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1)


def run(lifecycle: Lifecycle, keeper: int) -> None:
    """Run until the runtime is over."""
    plan, poller = lifecycle.plan, zmq.Poller()
    recorder = JournalRecorder(plan) if plan.journal else None
    commands = partial(answer, lifecycle)
    try:
        channels: Channels | ScriptChannels = (
            ScriptChannels()
            if plan.script_folder
            else Channels(
                plan.connection, poller, recorder, plan.sockets, plan.journal_endpoint, plan.backlog_mb << 20, commands
            )
        )
        listener = ControlServer(plan.control_endpoint.path, commands)
        if plan.is_job and isinstance(channels, Channels):
            write_address(plan.job_folder, channels.journal_endpoint)
    except (zmq.ZMQError, OSError, LabError) as exc:
        reason = exc.message if isinstance(exc, LabError) else exc.strerror or exc
        lifecycle.fail("ended", text("its sockets cannot be opened: {reason}", reason=reason))
        if recorder:
            recorder.add_event("ended", why=lifecycle.writer.state["reason"])
            recorder.write()
            recorder.close()
        return
    lifecycle.open(channels, recorder)
    _Loop(lifecycle, channels, listener, poller, keeper).run()
    listener.close()


class _Loop:
    def __init__(
        self,
        lifecycle: Lifecycle,
        channels: Channels | ScriptChannels,
        listener: ControlServer,
        poller: zmq.Poller,
        keeper: int,
    ) -> None:
        self._lifecycle, self._channels, self._listener, self._poller = lifecycle, channels, listener, poller
        self._keeper = keeper
        self._signals = _signal_pipe()
        self._starter = -1 if lifecycle.plan.detached else 0
        self._descriptors: set[int] = set()

    def run(self) -> None:
        self._lifecycle.reap()  # the kernel may have died before the signal handlers were installed
        while self._lifecycle.exit_code is None:
            self._register()
            for what, _ in self._poller.poll(self._timeout()):
                self._serve(what)
            self._lifecycle.inspect_messages()
            now = time.monotonic()
            self._listener.expire(now)
            if self._lifecycle.exit_code is None:
                self._channels.check(now)
                self._lifecycle.check(now)

    def _register(self) -> None:
        """Update the poller: connections and probes come and go."""
        children = (*self._lifecycle.probe.descriptors(), *self._lifecycle.usage.descriptors())
        wanted = {self._signals, *self._listener.descriptors(), *children}
        if self._starter >= 0:
            wanted.add(self._starter)
        for descriptor in self._descriptors - wanted:
            self._poller.unregister(descriptor)
        for descriptor in wanted - self._descriptors:
            self._poller.register(descriptor, zmq.POLLIN)
        self._descriptors = wanted

    def _timeout(self) -> int | None:
        """Milliseconds until the next timer; None if there is none."""
        times = [at for at in (self._lifecycle.due(), self._listener.due(), self._channels.due()) if at is not None]
        # Rounded up: a timeout of 0 would spin for the last millisecond.
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
                self._lifecycle.end(text("the process that started it is gone"), now=False, seconds=_ORPHANED)
        elif what in self._lifecycle.probe.descriptors():
            self._lifecycle.probe.serve()
        elif what in self._lifecycle.usage.descriptors():
            self._lifecycle.usage.serve()
        elif isinstance(what, int):
            self._listener.serve(what)

    def _signalled(self, signum: int) -> None:
        if signum == signal.SIGCHLD:
            self._lifecycle.reap()
        elif signum == signal.SIGTERM:
            self._terminated()
        elif os.getppid() != self._keeper:
            log("the keeper died")
            self._lifecycle.end(text("its keeper was killed"), now=True, death=Death("keeper"))

    def _terminated(self) -> None:
        """SIGTERM: somebody on this machine stops the runtime, or the cluster ends its job."""
        plan = self._lifecycle.plan
        if not plan.is_job:
            self._lifecycle.end(text("it was stopped"), now=False)
            return
        from ownlab.lab.engines.slurm.job_log import cause_in, describe_cause, read_log

        why = describe_cause(cause_in(read_log(plan.job_folder)) or "cancelled", plan.job_folder)
        self._lifecycle.end(why, now=False, death=Death("limit", reason=why))


def _signal_pipe() -> int:
    """Return a descriptor that becomes readable when a signal arrives; the bytes read are signal numbers."""
    out, inward = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(inward, warn_on_full_buffer=False)
    for signum in _SIGNALS:
        signal.signal(signum, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    return out
