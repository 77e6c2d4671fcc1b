"""Runs on this machine. The supervisor of a run owns its ranks, writes how they ended, and needs nobody else."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from ownlab.config.settings import LabOptions
from ownlab.errors import LabError, UsageError
from ownlab.lab.engines.interface import Engine, HowToEnd, Job, JobRequest, JobStatus, Offer, Task
from ownlab.lab.engines.job_end import read_end
from ownlab.lab.engines.local.cards import check_own_lease, choose_script_type
from ownlab.lab.runtimes import operations, start
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.runtime_types import current_types
from ownlab.lab.runtimes.snapshot import with_availability
from ownlab.lab.runtimes.state import is_runtime_alive, plan_of, read_state, state_of
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.locks_only import open_any
from ownlab.lab.transport.control import send_command
from ownlab.text import text

__all__ = ["LocalEngine"]

_ENDS_WITHIN = 10.0  # seconds


class _Started:
    """A job of this process."""

    def __init__(self, plan: Plan, child: subprocess.Popen[bytes]) -> None:
        self.plan, self.child = plan, child
        self.known: JobStatus | None = None  # that it runs, which is true until it ends; or how it has ended

    def status(self, job: Job) -> JobStatus:
        ended = self.child.poll() is not None  # before reading, so that its last state is read
        if self.known is not None and (self.known.has_ended or not ended):
            return self.known
        state = read_state(self.plan.home)
        if ended:
            self.known = _end(job, state)
            return self.known
        if state is None or state["state"] not in ("waiting", "running"):
            return JobStatus("starting")
        if state["state"] == "waiting":
            return JobStatus("waiting", str(state["reason"]))
        held = state["devices"]
        self.known = JobStatus(
            "running", cards=tuple(device.number for device in self.plan.devices if device.uuid in held)
        )
        return self.known

    def end_now(self, job: Job, why: str) -> None:
        """End it in whatever state it is, and remember how, since its folders are removed."""
        if self.child.poll() is None:
            with suppress(LabError):  # it does not listen yet, or no longer
                send_command(self.plan.control_endpoint, "end", why=why, now=True)
                operations.wait_until(_ENDS_WITHIN, lambda: self.child.poll() is not None)
        if self.child.poll() is not None:
            self.status(job)
        operations.end_runtime(self.plan, self.child, why)


class LocalEngine(Engine):
    """Leases of this machine's cards."""

    name: ClassVar[str] = "local"

    def __init__(self, environ: Mapping[str, str], options: LabOptions | None = None) -> None:
        super().__init__(environ, options)
        self._started: dict[str, _Started] = {}

    def offers(self, request: JobRequest | None = None) -> tuple[Offer, ...]:
        """The type that was asked for, or all types of this machine with whether they are free."""
        if request is None:
            return self._all_offers()
        if request.nodes > 1:
            message = text("This machine is one node; {n} were requested.", n=request.nodes)
            raise UsageError(message, hint=text("Several nodes need a cluster: --engine slurm."))
        kind = choose_script_type(request.type, request.gpus, request.python, self.environ)
        check_own_lease(kind, self.environ)
        return (Offer(self.name, kind),)

    def _all_offers(self) -> tuple[Offer, ...]:
        options, devices = self.options, read_devices(self.environ)
        with open_any(choose_store(options, self.environ).folder) as store:
            types = with_availability(current_types(self.environ, devices), store, devices, options)
        return tuple(Offer(self.name, kind) for kind in types)

    def submit(self, task: Task) -> Job:
        """Start a supervisor, which waits in the queue of the store if it has to."""
        plan = None
        try:
            plan = start.make_script_plan(
                task.offer.type,
                task.script,
                runtime=task.runtime,
                ranks=task.ranks,
                folder=task.folder,
                name=task.name,
                cwd=task.cwd,
                env=task.env,
                detached=task.detached,
                wait=task.wait,
            )
            child = start.start_supervisor(plan, task.env)
        except BaseException:
            if plan is not None:
                operations.remove_folders(plan)
            raise
        self._started[task.runtime] = _Started(plan, child)
        return Job(task.runtime, task.folder)

    def status(self, jobs: Sequence[Job]) -> tuple[JobStatus, ...]:
        """From the supervisor's state, or from the folder of the run if there is no supervisor any more."""
        return tuple(
            started.status(job) if (started := self._started.get(job.runtime)) else _status(job) for job in jobs
        )

    def cancel(self, job: Job, how: HowToEnd, why: str) -> None:
        """Ask the supervisor; "now" also ends one that does not answer, and removes its folders."""
        started = self._started.get(job.runtime)
        if started is not None and how == "now":
            started.end_now(job, why)
            return
        plan = started.plan if started is not None else plan_of(job.runtime)
        if plan is None:
            return
        if how == "now":
            operations.end_runtime(plan, None, why)
        elif self.status([job])[0].has_ended:
            return
        elif how == "interrupt":
            operations.command_started(plan, "signal", signum=int(signal.SIGINT))
        else:
            operations.command_started(plan, "end", why=why, now=False)


def _end(job: Job, state: Mapping[str, object] | None) -> JobStatus:
    """How a job has ended, whose supervisor left this state."""
    state = state or {}
    if state.get("state") == "refused":
        return JobStatus("refused", str(state.get("reason") or ""))
    if state.get("launches") == 0:
        return JobStatus("unstarted", str(state.get("reason") or text("its supervisor ended")))
    return read_end(job.folder) or JobStatus("failed", text("its supervisor died"))


def _status(job: Job) -> JobStatus:
    """The state of a job that another process has started."""
    end = read_end(job.folder)
    if end is not None:
        return end
    if is_runtime_alive(job.runtime):
        return JobStatus("waiting" if state_of(job.runtime) == "waiting" else "running")
    return read_end(job.folder) or JobStatus("failed", text("its supervisor died"))  # it may have just ended
