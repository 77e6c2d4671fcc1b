"""A runtime's life: it waits for its cards, starts the kernel, sees it die and starts it again, and ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ownlab.errors import CardsTaken, DeviceUnusable, LabError, StoreError
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.store.rows import Lease, Place
from ownlab.lab.store.store import Store
from ownlab.lab.supervisor.card_probe import Probe
from ownlab.lab.supervisor.kernel_process import Kernel, Launcher, kernel_address
from ownlab.lab.supervisor.limit_monitor import Vigil
from ownlab.lab.supervisor.process_tree import end_descendants
from ownlab.lab.supervisor.state_writer import FAILED, Book, say

if TYPE_CHECKING:  # imports zmq, which is done while the kernel starts
    from ownlab.lab.supervisor.channels import Channels
    from ownlab.lab.supervisor.journal_recorder import Recording

__all__ = ["Life"]

# Seconds.
_TRY = 1.0  # between two attempts to get a card
_PROBE = 10.0  # between two looks at the cards while waiting
_DEAD = 30.0  # that a dead kernel may be started again
_KILLED = 5.0  # that killed processes have to go
_LOCKED = 0.5  # that a store which somebody keeps locked holds up messages; what waits is written later


class Life:
    """Decides; waits for nothing. The loop calls it when something happened, or when `due()` has come."""

    def __init__(self, plan: Plan, store: Store, book: Book, launcher: Launcher) -> None:
        self.plan, self.book = plan, book
        self.probe = Probe(plan.probe)
        self.channels: Channels | None = None
        self.recording: Recording | None = None  # of a lab's runtimes, once there are sockets
        self.kernel: Kernel | None = None
        self.vigil: Vigil | None = None
        self.exit_code: int | None = None  # set: it is over
        self.busy = False
        self.changed_at = time.time()
        self._store, self._launcher = store, launcher
        self._expects: bool | None = None  # the kernel is about to end: False for good, True to be started again
        self._ending = ""
        self._try_at: float | None = None
        self._probe_at = 0.0
        self._kill_at: float | None = None
        self._dead_until: float | None = None

    # -- waiting and starting

    def begin(self, granted: tuple[Lease, ...] | Place, kernel: Kernel | None) -> None:
        """After the first attempt: the kernel is starting already, or the runtime waits."""
        if isinstance(granted, Place):
            self._wait(granted)
        elif kernel:
            self._begun(kernel)

    def open(self, channels: Channels, recording: Recording | None) -> None:
        """The sockets are there, and the journal."""
        self.channels, self.recording = channels, recording
        if self.kernel:
            channels.connect(kernel_address(self.plan))
        self.book.note(connection=channels.connection)

    def relaunch(self, changes: dict[str, str], cwd: str | None) -> None:
        """Another kernel with the same cards and ports. LabError where it cannot be started."""
        if self._try_at is not None or self._ending or self.vigil is None:
            raise LabError("the runtime is " + self.book.state["state"])
        if self.kernel:
            self._expects = True
            self.kill_tree()
            if self.kernel:
                raise LabError(f"the kernel (pid {self.kernel.pid}) was killed and does not end")
        self._launched(self._launcher.start(changes, cwd or self.plan.cwd))

    def _acquire(self) -> None:
        devices = self.probe.devices or self.plan.devices
        quota = self.plan.limits.card_seconds_per_week
        try:
            granted = self._store.acquire(self.plan.runtime, devices, quota=quota)
            if isinstance(granted, Place):
                self._wait(granted)
            else:
                self._launcher.give(devices, granted)
                self._begun(self._launcher.start({}, self.plan.cwd))
        except StoreError as exc:  # it may be mended, and is asked again
            if self.book.state["reason"] != exc.message:
                self.book.note(reason=exc.message)
        except (CardsTaken, DeviceUnusable) as exc:
            self.fail("refused", f"{exc.message} {exc.hint}")
        except LabError as exc:
            self.fail("ended", exc.message)

    def _wait(self, place: Place) -> None:
        if not self.plan.wait:
            self.fail("refused", place.why)
            return
        self._try_at = time.monotonic() + _TRY
        seen = {"state": "waiting", "place": place.place, "reason": place.why}
        if any(self.book.state[key] != value for key, value in seen.items()):
            self._note(**seen)

    def _begun(self, kernel: Kernel) -> None:
        """It has its cards, and its first kernel."""
        uuids = [one.uuid for one in self._launcher.held]
        self._try_at = None
        self._store.hurry(_LOCKED)
        self.vigil = Vigil(self.plan, self._store, self.book, self.probe, frozenset(uuids), self.ours)
        self.book.state.update(devices=uuids, place=None)
        self.book.row(started_at=time.time())
        self._launched(kernel)

    def _launched(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._dead_until = self._expects = None
        if self.channels:
            self.channels.connect(kernel_address(self.plan))
        self._note_busy(False)
        launches = self.book.state["launches"] + 1
        self._note(state="starting", reason="", exit_code=None, kernel=kernel.process._asdict(), launches=launches)
        self.book.row(now=True, state="starting", kernel=kernel.process)

    # -- what happens to it

    def hear(self) -> None:
        """After messages have passed: is it there, does it work, was it asked to shut down?"""
        if self.channels is None:
            return
        overheard = self.channels.overheard
        if overheard.heard and self.book.state["state"] == "starting":
            self.book.note(state="running")
            self.book.row(now=True, state="running")
        if overheard.busy != self.busy:
            self._note_busy(overheard.busy)
        if overheard.shutdown is not None:
            self.expect(restart=overheard.shutdown)
            overheard.shutdown = None
        if self.recording:
            self.recording.compact()

    def ours(self) -> list[int]:
        """Processes below this one that are none of the kernel's."""
        return [self.probe.pid, self.recording.compaction if self.recording else 0]

    def reap(self) -> None:
        """Children have ended: the kernel, orphans of its, a probe."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.kernel and pid == self.kernel.pid:
                self._kernel_ended(os.waitstatus_to_exitcode(status))
            elif pid == self.probe.pid:
                self.probe.pid = 0
            elif self.recording and pid == self.recording.compaction:
                self.recording.compacted(os.waitstatus_to_exitcode(status))

    def _kernel_ended(self, code: int) -> None:
        kernel = self.kernel
        assert kernel is not None
        if self.channels:
            self.channels.disconnect(self._why_ended(code))
            self.hear()
        heard = self.book.state["state"] != "starting"
        self.kernel = None
        self.kill_tree()  # a kernel's processes end with it
        self._note_busy(False)
        self.book.note(exit_code=code, kernel=None)
        self.book.row(kernel=None)
        if self.exit_code is not None:
            return  # killed because it is over: the reason for that is told already
        if self._ending:
            self._finish(self._ending)
        elif self._expects is False:
            self._finish("it was shut down")
        elif not heard and self._expects is None and self.book.state["launches"] == 1:
            self.fail("ended", f"the kernel ended before it was ready ({_in_words(code)}): {kernel.last_words()}")
        else:
            reason = "" if self._expects else f"the kernel died ({_in_words(code)})"
            if not heard and not self._expects:
                reason += f" before it was ready: {kernel.last_words()}"
            self._dead_until = time.monotonic() + _DEAD
            self.book.note(state="dead", reason=reason)
            self.book.row(state="starting")
        self._expects = None

    def _why_ended(self, code: int) -> str:
        if self._ending or self._expects is None:
            return self._ending or f"the kernel died ({_in_words(code)})"
        return "it is started again" if self._expects else "it was shut down"

    def due(self) -> float | None:
        """When `check` is to be called, even if nothing happens."""
        times = [self._try_at, self._kill_at, self._dead_until, self.book.due(), self.probe.due()]
        if self.recording:
            times.append(self.recording.due())
        if self.vigil and self.channels and self.kernel and not self._ending:
            times.append(self.vigil.due(self.channels.overheard))
        return min((at for at in times if at is not None), default=None)

    def check(self, now: float) -> None:
        """What is due."""
        self.probe.expire(now)
        if self._try_at is not None and now >= self._try_at:
            self._try_again(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = now + _KILLED
            say("the kernel did not end in its time, and is killed")
            self.kill_tree()
        if self._dead_until is not None and now >= self._dead_until:
            self._finish("the kernel died, and nobody started it again")
        if self.vigil and self.channels and self.kernel and not self._ending:
            end = self.vigil.check(self.channels.overheard, now)
            if end:
                self.end(end.why, now=False)
        if (due := self.book.due()) is not None and now >= due:
            self.book.flush(now)
        if self.recording:
            self.recording.check(now)

    def _try_again(self, now: float) -> None:
        self._try_at = now + _TRY
        if now >= self._probe_at:
            self._probe_at = now + _PROBE
            self.probe.ask(dict(os.environ))
        self._acquire()

    # -- what it is asked

    def signal(self, signum: int) -> None:
        """To the kernel and its group."""
        if self.kernel is None:
            raise LabError("there is no kernel to signal: the runtime is " + self.book.state["state"])
        self.kernel.signal(signum)

    def expect(self, *, restart: bool) -> None:
        """The kernel was asked to shut down, by a message."""
        if self.kernel:
            self._expects = restart
        elif not restart:
            self._finish("it was shut down")

    def rename(self, notebook: str) -> None:
        """Its notebook has another name."""
        self.book.row(now=True, notebook=notebook)
        if self.recording:
            self.recording.rename(notebook)

    def extend(self) -> None:
        """Put the end off."""
        if self._ending or not (self.vigil and self.channels and self.vigil.extend(self.channels.overheard)):
            raise LabError("there is no end that may be put off")
        self.check(time.monotonic())

    def terminate(self, *, restart: bool) -> None:
        """SIGTERM: functions given to on_end run."""
        if not restart:
            self.end("it was stopped", now=False)
        elif self.kernel:
            self._expects = True
            self.kernel.signal(signal.SIGTERM, group=False)

    def kill(self, *, restart: bool) -> None:
        """SIGKILL to everything below."""
        if not restart:
            self.end("it was killed", now=True)
        elif self.kernel:
            self._expects = True
            self.kill_tree()

    def end(self, why: str, *, now: bool, seconds: float | None = None) -> None:
        """End it: functions given to on_end have their seconds, or it is killed now."""
        self._ending = self._ending or why
        self.book.note(state="ending", reason=self._ending)
        self.book.row(now=True, state="ending", ends_why=self._ending)
        if self.kernel is None:
            self._finish(self._ending)
        elif now:
            self._kill_at = time.monotonic() + _KILLED
            self.kill_tree()
        elif self._kill_at is None:
            self._kill_at = time.monotonic() + (self.plan.limits.on_end if seconds is None else seconds)
            self.kernel.signal(signal.SIGTERM, group=False)

    def kill_tree(self, *, spare: Collection[int] | None = None) -> None:
        """SIGKILL to everything of the kernel's, and wait for it: it takes a moment."""
        left = end_descendants(self.reap, _KILLED, spare=self.ours() if spare is None else spare)
        if left:
            say(f"killed and still there: {', '.join(map(str, left))}")

    def fail(self, state: str, reason: str) -> None:
        """It never lived: "refused" where the cards are not to be had, "ended" for any other reason."""
        say(f"{state}: {reason.strip()}")
        self.book.note(state=state, reason=reason.strip())
        self.exit_code = FAILED

    def close(self) -> None:
        """Last entries; every process below is gone before anything says that it ended."""
        self.kill_tree(spare=())
        if self.channels:
            self.channels.close(self.book.state["reason"])
        self.book.meter(time.monotonic())
        if self.exit_code == 0:
            self.book.note(state="ended")

    def status(self) -> dict[str, Any]:
        """What {"do": "status"} is answered."""
        overheard = self.channels.overheard if self.channels else None
        end = self.vigil.end(overheard) if self.vigil and overheard and self.kernel else None
        now = time.monotonic()
        state = self.book.state["state"]
        return {
            **self.book.state,
            "execution_state": "dead" if state == "dead" else overheard.execution_state if overheard else "starting",
            "last_activity": overheard.last_activity if overheard else self.changed_at,
            "busy": self.busy,
            "changed_at": self.changed_at,
            "ends_at": time.time() + end.at - now if end else None,
            "ends_why": end.why if end else "",
            "warned": bool(end and self.vigil and self.vigil.warned(end, now)),
            "may_extend": bool(end and end.may_extend),
            "kernel_info": overheard.kernel_info if overheard else None,
            "trouble": self.book.trouble or (self.recording.trouble if self.recording else ""),
        }

    def _note(self, **changes: Any) -> None:
        """Nobody is told before clients can connect: `open` writes it then."""
        if self.channels:
            self.book.note(**changes)
        else:
            self.book.state.update(changes)

    def _note_busy(self, busy: bool) -> None:
        self.busy, self.changed_at = busy, time.time()
        self.book.row(busy=busy, changed_at=self.changed_at)

    def _finish(self, why: str) -> None:
        if self.exit_code is None:
            say(f"ends: {why}")
            self.book.note(state="ending", reason=why)
            self.exit_code = 0


def _in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
