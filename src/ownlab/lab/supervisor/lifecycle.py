"""The lifecycle of a runtime: wait for cards, start the kernel, notice its death, restart it, and end."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ownlab.errors import CardsTaken, DeviceUnusable, LabError, StoreError
from ownlab.lab.journal.death import Death
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.store.rows import Lease, QueuePosition
from ownlab.lab.supervisor.card_probe import CardProbe
from ownlab.lab.supervisor.kernel_process import Kernel, Launcher, kernel_address
from ownlab.lab.supervisor.limit_monitor import LimitMonitor
from ownlab.lab.supervisor.process_tree import end_descendants
from ownlab.lab.supervisor.registration import Registration
from ownlab.lab.supervisor.state_writer import FAILED, StateWriter, log, write_script_end
from ownlab.lab.supervisor.usage_child import UsageChild
from ownlab.text import sentences, text

if TYPE_CHECKING:  # imports zmq, which is loaded while the kernel starts
    from ownlab.lab.supervisor.channels import Channels
    from ownlab.lab.supervisor.journal_recorder import JournalRecorder
    from ownlab.lab.supervisor.script_channels import ScriptChannels

__all__ = ["Lifecycle"]

# Seconds.
_TRY = 1.0  # between attempts to lease cards
_PROBE = 10.0  # between readings of the cards while waiting
_DEAD = 30.0  # during which a dead kernel can be restarted
_KILLED = 5.0  # for killed processes to exit
_LOCKED = 0.5  # that a locked store may delay messages; updates are written later


class Lifecycle:
    """Makes all decisions and never blocks. The event loop calls it after events, and when `due()` is reached."""

    def __init__(self, plan: Plan, registration: Registration, writer: StateWriter, launcher: Launcher) -> None:
        self.plan, self.writer = plan, writer
        self.probe = CardProbe(plan.probe)
        self.usage = UsageChild(os.path.join(plan.home, "plan.json"))  # of a job
        self.channels: Channels | ScriptChannels | None = None
        self.recorder: JournalRecorder | None = None  # of a lab's runtimes, once the sockets are open
        self.kernel: Kernel | None = None
        self.limit_monitor: LimitMonitor | None = None
        self.exit_code: int | None = None  # set when the runtime is over
        self.busy = False
        self.changed_at = time.time()
        self._registration, self._launcher = registration, launcher
        self._expects: bool | None = None  # the kernel is about to exit: False for good, True for a restart
        self._ending = ""
        self._ending_death: Death | None = None  # if nobody asked for the end
        self._try_at: float | None = None
        self._probe_at = 0.0
        self._kill_at: float | None = None
        self._dead_until: float | None = None

    # -- waiting and starting

    def begin(self, granted: tuple[Lease, ...] | QueuePosition, kernel: Kernel | None) -> None:
        """Continue after the first attempt: the kernel is starting, or the runtime waits."""
        if isinstance(granted, QueuePosition):
            self._wait(granted)
        elif kernel:
            self._begun(kernel)

    def open(self, channels: Channels | ScriptChannels, recorder: JournalRecorder | None) -> None:
        """Set the sockets and the journal, which are open now."""
        self.channels, self.recorder = channels, recorder
        if self.kernel:
            channels.connect(kernel_address(self.plan))
        self.writer.update_state(connection=channels.connection)
        self.inspect_messages()

    def relaunch(self, changes: dict[str, str], cwd: str | None) -> None:
        """Start another kernel with the same cards and ports. LabError if that is impossible."""
        if self._try_at is not None or self._ending or self.limit_monitor is None:
            raise LabError(text("the runtime is {state}", state=self.writer.state["state"]))
        if self.kernel:
            self._expects = True
            self.kill_tree()
            if self.kernel:
                raise LabError(text("the kernel (pid {pid}) was killed but does not exit", pid=self.kernel.pid))
        self._launched(self._launcher.start(changes, cwd or self.plan.cwd))

    def _acquire(self) -> None:
        devices = self.probe.devices or self.plan.devices
        quota = self.plan.limits.card_seconds_per_week
        try:
            granted = self._registration.acquire(devices, quota=quota)
            if isinstance(granted, QueuePosition):
                self._wait(granted)
            else:
                self._launcher.assign(devices, granted)
                self._begun(self._launcher.start({}, self.plan.cwd))
        except StoreError as exc:  # may be temporary: retried
            if self.writer.state["reason"] != exc.message:
                self.writer.update_state(reason=exc.message)
        except (CardsTaken, DeviceUnusable) as exc:
            self.fail("refused", sentences(exc.message, exc.hint))
        except LabError as exc:
            self.fail("ended", exc.message)

    def _wait(self, place: QueuePosition) -> None:
        if not self.plan.wait:
            self.fail("refused", place.why)
            return
        self._try_at = time.monotonic() + _TRY
        seen = {"state": "waiting", "place": place.place, "reason": place.why}
        if any(self.writer.state[key] != value for key, value in seen.items()):
            self._note(**seen)

    def _begun(self, kernel: Kernel) -> None:
        """The runtime has its cards and its first kernel."""
        uuids = [device.uuid for device in self._launcher.held]
        self._try_at = None
        self._registration.set_busy_timeout(_LOCKED)
        self.limit_monitor = LimitMonitor(
            self.plan,
            self._registration,
            self.writer,
            self.probe,
            frozenset(uuids),
            self.own_processes,
            self._has_pages,
        )
        self.writer.state.update(devices=uuids, place=None)
        self.writer.update_row(started_at=time.time())
        self._launched(kernel)

    def _launched(self, kernel: Kernel) -> None:
        self.kernel = kernel
        kernel.watch_memory()
        self._dead_until = self._expects = None
        if self.channels:
            self.channels.connect(kernel_address(self.plan))
        self._note_busy(False)
        launches = self.writer.state["launches"] + 1
        self._note(state="starting", reason="", exit_code=None, kernel=kernel.process._asdict(), launches=launches)
        self.writer.update_row(now=True, state="starting", kernel=kernel.process)
        self.inspect_messages()

    # -- events

    def inspect_messages(self) -> None:
        """React to forwarded messages: the kernel is up, busy or idle, or was asked to shut down."""
        if self.channels is None:
            return
        inspector = self.channels.inspector
        if inspector.kernel_spoke and self.writer.state["state"] == "starting":
            self.writer.update_state(state="running")
            self.writer.update_row(now=True, state="running")
        if inspector.busy != self.busy:
            if inspector.busy and self.kernel:
                self.kernel.watch_memory()
            self._note_busy(inspector.busy)
        if inspector.requested_shutdown is not None:
            self.expect(restart=inspector.requested_shutdown)
            inspector.requested_shutdown = None
        if self.recorder and not self.plan.is_job:  # the relay compacts what it has, and needs single records here
            self.recorder.compact()

    def _has_pages(self) -> bool:
        return self.channels is not None and self.channels.has_pages()

    def own_processes(self) -> list[int]:
        """Descendants of this process that do not belong to the kernel."""
        return [self.probe.pid, self.usage.pid, self.recorder.compaction if self.recorder else 0]

    def reap(self) -> None:
        """Reap children: the kernel, its orphans, a probe, a compaction."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.kernel and pid == self.kernel.pid:
                self._kernel_ended(os.waitstatus_to_exitcode(status), usage)
            elif pid == self.probe.pid:
                self.probe.pid = 0
            elif pid == self.usage.pid:
                self.usage.pid = 0
            elif self.recorder and pid == self.recorder.compaction:
                self.recorder.compaction_ended(os.waitstatus_to_exitcode(status))

    def _kernel_ended(self, code: int, usage: resource.struct_rusage) -> None:
        kernel = self.kernel
        assert kernel is not None
        death = None
        self.kill_tree()  # the kernel's processes end with it; one that it has forked would hold its connections
        if self.channels:
            self.channels.drain()
            death = self._death(kernel, code, usage)
            self.channels.disconnect(self._why_ended(code), death)
            self.inspect_messages()
        was_running = self.writer.state["state"] != "starting"
        self.kernel = None
        self._note_busy(False)
        self.writer.update_state(exit_code=code, kernel=None)
        self.writer.update_row(kernel=None)
        if self.exit_code is not None:
            return  # killed because the runtime is over; the reason is recorded already
        if self._ending:
            self._finish(self._ending)
        elif self._expects is False:
            self._finish(text("it was shut down"))
        elif self.plan.script_folder:
            self._finish(text("the script has ended ({exit})", exit=_describe_exit(code)))
        elif not was_running and self._expects is None and self.writer.state["launches"] == 1:
            self.fail(
                "ended",
                text(
                    "the kernel ended before it was ready ({exit}): {line}",
                    exit=_describe_exit(code),
                    line=kernel.last_log_line(),
                ),
            )
        else:
            if death:
                log(death.summary())
            self._dead_until = time.monotonic() + _DEAD
            self.writer.update_state(state="dead", reason=self._why_dead(code, kernel, was_running))
            self.writer.update_row(state="starting")
        self._expects = None

    def _death(self, kernel: Kernel, code: int, usage: resource.struct_rusage) -> Death | None:
        """What is known about the end of the kernel; None if somebody asked for it."""
        if self._ending or self._expects is not None:
            return self._ending_death
        # Without a running cell, exit code 0 is `exit()`, which a cell has called.
        quit_itself = code == 0 and self.channels is not None and not self.channels.inspector.busy
        return None if quit_itself else kernel.death(code, usage)

    def _why_ended(self, code: int) -> str:
        if self._ending or self._expects is None:
            return self._ending or text("the kernel died ({exit})", exit=_describe_exit(code))
        return text("it is being restarted") if self._expects else text("it was shut down")

    def _why_dead(self, code: int, kernel: Kernel, was_running: bool) -> str:
        if self._expects:
            return ""
        if was_running:
            return text("the kernel died ({exit})", exit=_describe_exit(code))
        return text(
            "the kernel died ({exit}) before it was ready: {line}",
            exit=_describe_exit(code),
            line=kernel.last_log_line(),
        )

    def due(self) -> float | None:
        """When `check` must be called, even if nothing happens."""
        times = [self._try_at, self._kill_at, self._dead_until, self.writer.due(), self.probe.due()]
        if self.recorder:
            times += [self.recorder.due(), self.recorder.inspect_at]
        if self.limit_monitor and self.channels and self.kernel and not self._ending:
            times.append(self.limit_monitor.due(self.channels.inspector))
        return min((at for at in times if at is not None), default=None)

    def check(self, now: float) -> None:
        """Do what is due."""
        self.probe.expire(now)
        if self._try_at is not None and now >= self._try_at:
            self._try_again(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = now + _KILLED
            log("the kernel did not exit in time and is killed")
            self.kill_tree()
        if self._dead_until is not None and now >= self._dead_until:
            self._finish(text("the kernel died and was not restarted"))
        if self.limit_monitor and self.channels and self.kernel and not self._ending:
            end = self.limit_monitor.check(self.channels.inspector, now)
            if end:
                self.end(end.why, now=False, death=Death("limit", reason=end.why))
            elif warning := self.limit_monitor.take_warning(self.channels.inspector, now):
                ends_at = time.time() + warning.at - now
                log(f"ends in {warning.at - now:.0f} s: {warning.why}")
                self.channels.record_event("limit-warning", ends_at=ends_at, why=warning.why)
        if (due := self.writer.due()) is not None and now >= due:
            self.writer.flush(now)
        if self.recorder:
            self.recorder.check(now)
            if now >= self.recorder.inspect_at and self.recorder.notice_loss() and self.channels:
                self.channels.record_event("cut-off")

    def _try_again(self, now: float) -> None:
        self._try_at = now + _TRY
        if now >= self._probe_at:
            self._probe_at = now + _PROBE
            self.probe.start(dict(os.environ))
        self._acquire()

    # -- commands

    def signal(self, signum: int) -> None:
        """Send a signal to the kernel's process group."""
        if self.kernel is None:
            state = self.writer.state["state"]
            raise LabError(text("there is no kernel to signal: the runtime is {state}", state=state))
        self.kernel.signal(signum)

    def expect(self, *, restart: bool) -> None:
        """Note that a client asked the kernel to shut down."""
        if self.kernel:
            self._expects = restart
        elif not restart:
            self._finish(text("it was shut down"))

    def rename(self, notebook: str) -> None:
        """Record the new path of the notebook."""
        self.writer.update_row(now=True, notebook=notebook)
        if self.recorder:
            self.recorder.rename(notebook)

    def extend(self) -> None:
        """Postpone the end that a limit has set."""
        if self._ending or not (
            self.limit_monitor and self.channels and self.limit_monitor.extend(self.channels.inspector)
        ):
            raise LabError(text("this runtime has no time limit to extend"))
        self.check(time.monotonic())

    def set_job_end(self, at: float | None) -> None:
        """Set when the cluster ends the job, on the monotonic clock; None: it has no time limit."""
        if self.limit_monitor and self.plan.is_job:
            self.limit_monitor.set_job_end(at)

    def terminate(self, *, restart: bool) -> None:
        """Send SIGTERM, which runs the functions registered with on_end."""
        if not restart:
            self.end(text("it was stopped"), now=False)
        elif self.kernel:
            self._expects = True
            self.kernel.signal(signal.SIGTERM, group=False)

    def kill(self, *, restart: bool) -> None:
        """Send SIGKILL to everything below."""
        if not restart:
            self.end(text("it was killed"), now=True)
        elif self.kernel:
            self._expects = True
            self.kill_tree()

    def end(self, why: str, *, now: bool, seconds: float | None = None, death: Death | None = None) -> None:
        """End the runtime: give on_end its seconds, or kill it now. `death`: nobody asked for it, so cells say why."""
        if not self._ending:
            self._ending, self._ending_death = why, death
        self.writer.update_state(state="ending", reason=self._ending)
        self.writer.update_row(now=True, state="ending", ends_why=self._ending)
        if self.kernel is None:
            self._finish(self._ending)
        elif now:
            self._kill_at = time.monotonic() + _KILLED
            self.kill_tree()
        elif self._kill_at is None:
            self._kill_at = time.monotonic() + (self.plan.limits.on_end if seconds is None else seconds)
            self.kernel.signal(signal.SIGTERM, group=False)

    def kill_tree(self, *, spare: Collection[int] | None = None) -> None:
        """Kill all processes of the kernel and wait until they are gone, which takes a moment."""
        left = end_descendants(self.reap, _KILLED, spare=self.own_processes() if spare is None else spare)
        if left:
            log(f"killed but still running: {', '.join(map(str, left))}")

    def fail(self, state: str, reason: str) -> None:
        """The runtime never had a kernel: "refused" if the cards are not available, "ended" for any other reason."""
        log(f"{state}: {reason}")
        self.writer.update_state(state=state, reason=reason)
        self.exit_code = FAILED

    def close(self) -> None:
        """Write the last entries, after every process below has ended."""
        self.kill_tree(spare=())
        if self.channels:
            self.channels.close(self.writer.state["reason"])
        self.writer.record_usage(time.monotonic())
        if self.plan.script_folder:
            write_script_end(self.plan, self.writer.state, stopped=self._ending)
        if self.exit_code == 0:
            self.writer.update_state(state="ended")

    def status(self) -> dict[str, Any]:
        """The answer to {"do": "status"}."""
        inspector = self.channels.inspector if self.channels else None
        end = self.limit_monitor.deadline(inspector) if self.limit_monitor and inspector and self.kernel else None
        now = time.monotonic()
        state = self.writer.state["state"]
        return {
            **self.writer.state,
            "execution_state": "dead" if state == "dead" else inspector.execution_state if inspector else "starting",
            "last_activity": inspector.last_activity if inspector else self.changed_at,
            "busy": self.busy,
            "changed_at": self.changed_at,
            "ends_at": time.time() + end.at - now if end else None,
            "ends_in": end.at - now if end else None,  # for another machine, whose clock may differ
            "ends_why": end.why if end else "",
            "warned": bool(end and self.limit_monitor and self.limit_monitor.is_warning(end, now)),
            "may_extend": bool(end and end.may_extend),
            "kernel_info": inspector.kernel_info if inspector else None,
            "trouble": self.writer.trouble or (self.recorder.trouble if self.recorder else ""),
        }

    def _note(self, **changes: Any) -> None:
        """Update the state. It is written once clients can connect (`open`)."""
        if self.channels:
            self.writer.update_state(**changes)
        else:
            self.writer.state.update(changes)

    def _note_busy(self, busy: bool) -> None:
        self.busy, self.changed_at = busy, time.time()
        self.writer.update_row(busy=busy, changed_at=self.changed_at)

    def _finish(self, why: str) -> None:
        if self.exit_code is None:
            log(f"ends: {why}")
            self.writer.update_state(state="ending", reason=why)
            self.exit_code = 0


def _describe_exit(code: int) -> str:
    return text("exit code {code}", code=code) if code >= 0 else text("signal {signal}", signal=-code)
