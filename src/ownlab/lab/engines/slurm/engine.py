"""Runs as jobs of a Slurm cluster."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ownlab.config.settings import LabOptions
from ownlab.errors import CardsTaken, DeadlineError, InputError, LabError
from ownlab.lab.engines.interface import Engine, HowToEnd, Job, JobRequest, JobStatus, Offer, Task
from ownlab.lab.engines.job_end import END_FILE
from ownlab.lab.engines.slurm.batch_script import LOG, batch_script, notebook_script
from ownlab.lab.engines.slurm.commands import Slurm
from ownlab.lab.engines.slurm.expected_starts import ExpectedStarts, start_in_answer
from ownlab.lab.engines.slurm.job_array import array_name, array_options, write_array
from ownlab.lab.engines.slurm.job_status import end_from_folder, has_ended, lost, status_of, write_reason
from ownlab.lab.engines.slurm.node_terminal import step_in_terminal
from ownlab.lab.engines.slurm.notebook_types import notebook_types
from ownlab.lab.engines.slurm.records import SlurmJob
from ownlab.lab.engines.slurm.requests import ENGINE, Site, all_offers, comment_of, offer_for, sbatch_options
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import text

__all__ = ["SlurmEngine"]

# Seconds.
_SOON = 60.0  # a job that is expected to start this soon does not wait
_ENDS_WITHIN = 120.0
_BETWEEN_LOOKS = 0.5


class SlurmEngine(Engine):
    """The cluster that Slurm's commands reach from here. It needs a folder that all nodes share."""

    name: ClassVar[str] = ENGINE
    has_arrays: ClassVar[bool] = True

    def __init__(self, environ: Mapping[str, str], options: LabOptions | None = None) -> None:
        super().__init__(environ, options)
        self._slurm = Slurm(environ, self.options.slurm_deadline_seconds)
        self._known: dict[str, tuple[float, JobStatus]] = {}  # of a runtime: when Slurm was asked, and what it said
        self._numbers: dict[str, str] = {}
        self._starts = ExpectedStarts(self._slurm, self.options)

    def offers(self, request: JobRequest | None = None) -> tuple[Offer, ...]:
        """The partitions with their GPUs, or what meets a request."""
        self._slurm.check_version()
        site = Site(self._slurm.partitions(), self._slurm.nodes())
        if request is None:
            return self._starts.of_offers(all_offers(site, self.options, self.environ), site)
        return (offer_for(request, site, self.options, self.environ),)

    def notebook_types(self) -> tuple[RuntimeType, ...]:
        """Each partition: its CPUs, and one to all cards of each type on a node."""
        self._slurm.check_version()
        site = Site(self._slurm.partitions(), self._slurm.nodes())
        return self._starts.of_types(notebook_types(site, self.options, self.environ), site)

    def submit_notebook(self, task: Task) -> Job:
        """Give the batch script of a notebook to sbatch."""
        return self._submit(task, notebook_script(task.folder, task.cwd, task.offer.type.python))

    def terminal_command(self, job: Job, cwd: str, command: Sequence[str]) -> list[str]:
        """A step of srun beside the batch script, with the resources of the job."""
        return step_in_terminal(self._number(job), cwd, command, self.environ)

    def find_job(self, job: Job) -> Job | None:
        """By its comment."""
        number = self._number(job)
        return job._replace(reference=number) if number else None

    def submit(self, task: Task) -> Job:
        """Give the batch script of a run to sbatch."""
        return self._submit(task, batch_script(task.folder, task.cwd, task.offer.type.python))

    def _submit(self, task: Task, script: str) -> Job:
        options = sbatch_options(task, self.options)
        path = Path(task.folder, "job.sh")
        try:
            path.write_text(script, encoding="utf-8")
        except OSError as exc:
            raise InputError(
                text("Cannot write to {folder}: {reason}.", folder=task.folder, reason=exc.strerror)
            ) from exc
        try:
            if not task.wait:
                self._refuse_to_wait(str(path), options)
            number = self._slurm.submit(str(path), options)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._numbers[task.runtime] = number
        return Job(task.runtime, task.folder, number)

    def submit_array(self, tasks: Sequence[Task], folder: str, at_once: int | None) -> tuple[Job, ...]:
        """Give job arrays to sbatch, as large as the site allows."""
        size = max(1, self._slurm.config().most_in_array)
        parts = [tasks[begin : begin + size] for begin in range(0, len(tasks), size)]
        limit = None if at_once is None else max(1, at_once // len(parts))
        jobs: list[Job] = []
        try:
            for number, part in enumerate(parts):
                array = write_array(part, os.path.join(folder, f"part-{number}"))
                reference = self._slurm.submit(array, array_options(part, array, limit, self.options))
                jobs += [
                    Job(task.runtime, task.folder, f"{reference.partition(';')[0]}_{index}")
                    for index, task in enumerate(part)
                ]
        except BaseException:
            self.cancel_all(jobs, "end", text("another part of its job array was refused"))
            for task in tasks:
                Path(task.folder, "job.sh").unlink(missing_ok=True)
            raise
        return tuple(jobs)

    def find_in_array(self, job: Job, folder: str) -> Job | None:
        """By the link to its folder, and the comment of the array."""
        for link in Path(folder).glob("part-*/*"):
            if link.is_symlink() and os.path.realpath(link) == os.path.realpath(job.folder):
                found = self.find_job(job._replace(runtime=array_name(str(link.parent))))
                return found and job._replace(reference=f"{found.reference.partition('_')[0]}_{link.name}")
        return None

    def _refuse_to_wait(self, script: str, options: Sequence[str]) -> None:
        starts_at = start_in_answer(self._slurm.test(script, options), time.time())
        if starts_at is not None and starts_at <= time.time() + _SOON:
            return
        hint = text("Leave --no-wait out to put it into the queue.")
        if starts_at is None:
            raise CardsTaken(text("Slurm does not know when this could start."), hint=hint)
        at = time.strftime("%F %H:%M", time.localtime(starts_at))
        raise CardsTaken(text("The nodes or GPUs are in use; it could start at {at}.", at=at), hint=hint)

    def status(self, jobs: Sequence[Job]) -> tuple[JobStatus, ...]:
        """From the folder of a job that has ended, otherwise from Slurm, which is asked every few seconds."""
        if len(jobs) > 1:
            self._ask_together(jobs)
        return tuple(map(self._status, jobs))

    def _ask_together(self, jobs: Sequence[Job]) -> None:
        """Ask for all jobs that may have changed by one command. Those that have ended are looked at one by one afterwards."""
        due = {job.reference: job for job in jobs if job.reference and self._is_due(job)}
        if not due:
            return
        numbers = sorted({reference.partition("_")[0] for reference in due})
        try:
            found = [job for job in self._slurm.queue(_user(), jobs=numbers) if job.number in due]
        except (LabError, DeadlineError) as exc:
            for job in due.values():  # jobs go on while the controller is away
                self._remember(job, self._last(job) or JobStatus("waiting", exc.message))
            return
        for each in found:
            if not has_ended(each):
                self._remember(due[each.number], status_of(each, due[each.number].folder))

    def _is_due(self, job: Job) -> bool:
        asked_at, known = self._known.get(job.runtime, (0.0, None))
        if known is None:
            return True
        if known.has_ended or os.path.exists(os.path.join(job.folder, END_FILE)):
            return False
        return time.monotonic() >= asked_at + self.options.slurm_poll_seconds

    def _last(self, job: Job) -> JobStatus | None:
        return self._known.get(job.runtime, (0.0, None))[1]

    def _status(self, job: Job) -> JobStatus:
        asked_at, known = self._known.get(job.runtime, (0.0, None))
        if known is not None and known.has_ended:
            return known
        if os.path.exists(os.path.join(job.folder, END_FILE)) and (end := end_from_folder(job.folder)) is not None:
            return self._remember(job, end)
        if known is not None and time.monotonic() < asked_at + self.options.slurm_poll_seconds:
            return known
        try:
            found = self._look_up(job, number) if (number := self._number(job)) else None
        except (LabError, DeadlineError) as exc:
            # A job goes on while the controller is away.
            return self._remember(job, known or JobStatus("waiting", exc.message))
        return self._remember(job, lost(job) if found is None else status_of(found, job.folder))

    def _look_up(self, job: Job, number: str) -> SlurmJob | None:
        found = self._slurm.job(number)
        array, is_task, _ = number.partition("_")
        if found is not None or not is_task or os.path.exists(os.path.join(job.folder, LOG)):
            return found
        # Tasks that are cancelled before they start become one job, with the number of the array.
        return next((each for each in self._slurm.queue(_user(), jobs=[array]) if each.number == array), None)

    def _remember(self, job: Job, status: JobStatus) -> JobStatus:
        self._known[job.runtime] = (time.monotonic(), status)
        return status

    def _number(self, job: Job) -> str:
        """The number of a job. If the process that submitted it could not write it down, the job is found by its comment."""
        number = job.reference or self._numbers.get(job.runtime, "")
        if not number:
            queue = self._slurm.queue(_user())
            number = next((each.number for each in queue if each.comment == comment_of(job.runtime)), "")
            self._numbers[job.runtime] = number
        return number.partition(";")[0]

    def cancel(self, job: Job, how: HowToEnd, why: str) -> None:
        """By scancel. Slurm gives a job that is cancelled KillWait seconds to save."""
        status = self._status(job)
        number = "" if status.has_ended else self._number(job)
        if not number:
            return
        is_running = status.state == "running"
        if how == "interrupt" and is_running:
            self._slurm.cancel(number, "--signal=INT")
            return
        write_reason(job.folder, why)
        if how == "now" and is_running:
            self._slurm.cancel(number, "--full", "--signal=KILL")
        self._slurm.cancel(number)
        self._known.pop(job.runtime, None)
        if how == "now":
            self._wait_for_end(job)

    def cancel_all(self, jobs: Sequence[Job], how: HowToEnd, why: str) -> None:
        """By one scancel for all that wait, and one for all that run; "now" does not wait for their end."""
        left = [(job, status) for job, status in zip(jobs, self.status(jobs), strict=True) if not status.has_ended]
        waiting = [self._number(job) for job, status in left if status.state != "running"]
        running = [self._number(job) for job, status in left if status.state == "running"]
        for job, status in left:
            if how != "interrupt" or status.state != "running":
                write_reason(job.folder, why)
                self._known.pop(job.runtime, None)
        if waiting:
            self._slurm.cancel_all(waiting)
        if running and how == "interrupt":
            self._slurm.cancel_all(running, "--signal=INT")
        elif running:
            if how == "now":
                self._slurm.cancel_all(running, "--full", "--signal=KILL")
            self._slurm.cancel_all(running)

    def _wait_for_end(self, job: Job) -> None:
        deadline = time.monotonic() + _ENDS_WITHIN
        while time.monotonic() < deadline:
            found = self._slurm.job(self._number(job))
            status = lost(job) if found is None else status_of(found, job.folder)
            if status.has_ended:
                self._remember(job, status)
                return
            time.sleep(_BETWEEN_LOOKS)


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name
