"""A sweep of a script as a job array of a cluster: submitted at once, started by the cluster, followed from here.

If whoever follows it is killed, the array goes on. The same command finds its runs by their folders, records those that have ended
meanwhile, follows the others, and submits what is missing.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ownlab.lab.engines.interface import Engine, HowToEnd, Job, Offer
from ownlab.lab.runs.reporter import Stop
from ownlab.lab.scripts.folder import log_file, read_start, remove_unstarted, write_reference
from ownlab.lab.scripts.outcome import describe_run
from ownlab.lab.scripts.preparation import PreparedScript, ScriptRequest, prepare_on
from ownlab.lab.scripts.records import ScriptReport, StartedScript
from ownlab.lab.scripts.run import task_of
from ownlab.lab.sweeps.grid import Combination
from ownlab.lab.sweeps.metrics import last_metrics, printed_to_file
from ownlab.lab.sweeps.records import Trial, TrialStatus
from ownlab.lab.sweeps.sweep import Sweep
from ownlab.text import text

__all__ = ["ArraySweep"]

_POLL = 0.2  # seconds
_PREFIX = "array-"  # of the folders of arrays, in that of the sweep
_STATUS: dict[str, TrialStatus] = {"done": "done", "interrupted": "interrupted", "stopped": "interrupted"}


class _Followed(NamedTuple):
    combination: Combination
    job: Job


class ArraySweep:
    """One sweep on one engine that has arrays."""

    def __init__(
        self, sweep: Sweep, engine: Engine, offer: Offer, request: ScriptRequest, env: Mapping[str, str]
    ) -> None:
        """`request`: of each run, with the arguments that all have."""
        self._sweep, self._engine, self._offer = sweep, engine, offer
        self._request, self._env = request, env
        self._followed: list[_Followed] = []
        self._requests = self._passed_on = 0  # to stop

    def run(self, done: Callable[[Trial, int, int], None], stop: Stop) -> None:
        """Submit what is not finished, and follow it to the end or until it is stopped. The folder must be locked.

        `done` is called with each result, its number and their count.
        """
        stop.on_request(self._note_request)
        todo = self._sweep.begin()
        kept = [found for each in todo if (found := self._find(each)) is not None]
        known = [each.combination for each in kept]
        self._followed = kept
        missing = [each for each in todo if each not in known]
        if missing and not stop.signum:
            self._followed = [*kept, *self._submit(missing)]
        self._follow(done, stop)
        self._remove_arrays()

    def _follow(self, done: Callable[[Trial, int, int], None], stop: Stop) -> None:
        count, ended = len(self._followed), 0
        while self._followed:
            self._pass_requests_on(stop.signum)
            statuses = self._engine.status([each.job for each in self._followed])
            for each, status in zip(list(self._followed), statuses, strict=True):
                if status.has_ended:
                    self._followed.remove(each)
                    trial = self._result(each)
                    self._sweep.record(trial)
                    ended += 1
                    done(trial, ended, count)
            if self._followed:
                time.sleep(_POLL)

    def _find(self, combination: Combination) -> _Followed | None:
        """The run of a combination that an earlier sweep has submitted. One of other arguments is ended."""
        folder = self._sweep.folder.base(combination)
        start = read_start(folder)
        if start is None or start.engine != self._engine.name:
            return None
        job = self._job_of(start, folder)
        if job is None:
            return None
        is_same = start.script == self._script(combination) and start.type == self._offer.type.name
        status = self._engine.status([job])[0]
        if is_same and not self._sweep.request.force and (not status.has_ended or status.state == "done"):
            return _Followed(combination, job)
        if not status.has_ended:
            self._engine.cancel(job, "now", text("it was replaced by another run"))
        return None

    def _job_of(self, start: StartedScript, folder: str) -> Job | None:
        job = Job(start.runtime, folder, start.reference)
        if start.reference:
            return job
        # The sweep was killed before it could write the reference down.
        return next((found for path in self._arrays() if (found := self._engine.find_in_array(job, path))), None)

    def _submit(self, combinations: list[Combination]) -> list[_Followed]:
        folder = os.path.join(self._sweep.folder.path, _PREFIX + uuid.uuid4().hex[:8])
        prepared: list[PreparedScript] = []
        try:
            for each in combinations:
                self._sweep.folder.forget(each)
                prepared.append(prepare_on(self._engine, self._offer, self._request_of(each), self._env))
            tasks = [task_of(each, detached=True) for each in prepared]
            jobs = self._engine.submit_array(tasks, folder, self._sweep.request.jobs)
        except BaseException:
            for run in prepared:
                remove_unstarted(run.folder)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for run, job in zip(prepared, jobs, strict=True):
            write_reference(run.folder, run.start, job.reference)
        return [_Followed(*each) for each in zip(combinations, jobs, strict=True)]

    def _request_of(self, combination: Combination) -> ScriptRequest:
        folder = self._sweep.folder.base(combination)
        return self._request._replace(script=self._script(combination), output=folder, force=True)

    def _script(self, combination: Combination) -> tuple[str, ...]:
        return (*self._request.script, *(f"--{name}={value}" for name, value in combination.items()))

    def _result(self, followed: _Followed) -> Trial:
        folder = followed.job.folder
        start = read_start(folder)
        if start is None:
            return Trial(followed.combination, "failed", folder, reason=text("its folder was removed"))
        report = describe_run(folder, start, self._engine)
        return Trial(
            parameters=followed.combination,
            status=self._status(report),
            output=folder,
            seconds=report.seconds,
            reason=report.reason,
            metrics=last_metrics(printed_to_file(log_file(folder, 0))),
        )

    def _status(self, report: ScriptReport) -> TrialStatus:
        """One that we have stopped is run again by the same command; one that the cluster has stopped has failed."""
        status = _STATUS.get(report.status, "failed")
        return status if status == "done" or self._passed_on else "failed"

    def _note_request(self) -> None:
        """Called by a signal handler: nothing but a note is safe there."""
        self._requests += 1

    def _pass_requests_on(self, signum: int) -> None:
        """The first one interrupts each run and takes the others out of the queue; the second one ends all at once."""
        while self._passed_on < self._requests:
            self._passed_on += 1
            how: HowToEnd = "interrupt" if signum == signal.SIGINT else "end"
            jobs = [each.job for each in self._followed]
            self._engine.cancel_all(jobs, "now" if self._passed_on > 1 else how, text("its sweep was interrupted"))

    def _remove_arrays(self) -> None:
        """Remove the folders of arrays, which are of no use once all runs have ended."""
        for path in self._arrays():
            shutil.rmtree(path, ignore_errors=True)

    def _arrays(self) -> list[str]:
        return glob.glob(os.path.join(glob.escape(self._sweep.folder.path), f"{_PREFIX}*"))
