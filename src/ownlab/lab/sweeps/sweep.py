"""Runs the combinations of a sweep, each as an `ownlab run` of its own, as many at a time as there are free cards.

A run that finds no free card waits in the store's queue like any other; so at least one always runs or waits. Whoever started a
sweep may interrupt it at any time: what is finished is recorded, and the same command continues with the rest.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from ownlab.config.loader import resolve_lab_options
from ownlab.lab.engines.job_end import END_FILE
from ownlab.lab.runs.reporter import Stop
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.runtimes.snapshot import with_availability
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.locks_only import open_any
from ownlab.lab.sweeps.folder import SweepFolder, TrialRecord
from ownlab.lab.sweeps.grid import Combination
from ownlab.lab.sweeps.metrics import last_metrics, printed_by_notebook, printed_to_file
from ownlab.lab.sweeps.records import SweepReport, Trial, TrialStatus
from ownlab.languages import english_environment
from ownlab.processes.procfs import read_stat
from ownlab.text import text

__all__ = ["Sweep", "SweepRequest", "has_free_cards"]

PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Seconds.
_POLL = 0.1
_BETWEEN_STARTS = 1.0  # between two looks at whether a card is free


class SweepRequest(NamedTuple):
    """What to run."""

    target: tuple[str, ...]  # the notebook; or the script, or "-m" and a module, with the arguments that all have
    is_script: bool
    options: tuple[str, ...]  # of `ownlab run`, for every combination
    combinations: tuple[Combination, ...]
    type: RuntimeType
    ranks: int = 1
    jobs: int | None = None  # at most so many at a time
    is_local: bool = True  # False: each run is a job of a cluster
    force: bool = False  # repeat what is finished


class _Running(NamedTuple):
    combination: Combination
    process: subprocess.Popen[bytes]
    began: float


class Sweep:
    """One sweep in its folder."""

    def __init__(self, request: SweepRequest, folder: SweepFolder) -> None:
        self.request, self.folder = request, folder
        self._digest = _digest(request)
        self._running: list[_Running] = []
        self._interrupted: list[Combination] = []
        self._kept: list[Combination] = []  # finished before this sweep began
        self._requests = self._passed_on = 0  # to stop

    def finished(self, combination: Combination) -> Trial | None:
        """The result of a combination that need not be run again."""
        record = self.folder.read(combination)
        if record is None or record.trial.status != "done" or record.arguments != self._arguments:
            return None
        return record.trial

    def has_changed(self) -> bool:
        """Whether the notebook or script is another one than that of finished results."""
        records = [self.folder.read(combination) for combination in self.request.combinations]
        return any(record and record.trial.status == "done" and record.digest != self._digest for record in records)

    def report(self) -> SweepReport:
        """The state of every combination now."""
        return SweepReport(self.request.target, self.folder.path, tuple(map(self._trial, self.request.combinations)))

    def run(self, done: Callable[[Trial, int, int], None], free: Callable[[Collection[int]], bool], stop: Stop) -> None:
        """Run what is not finished, to the end or until it is stopped. The folder must be locked.

        `done` is called with each result, its number and their count; `free`: whether another run would get its
        cards, given the processes of those that run.
        """
        todo = self.begin()
        count, ended, next_start = len(todo), 0, 0.0
        waiting = iter(todo)
        left = count
        stop.on_request(self._note_request)
        while self._running or (left and not stop.signum):
            self._pass_requests_on(stop.signum)
            now = time.monotonic()
            if left and not stop.signum and now >= next_start:
                next_start = now + _BETWEEN_STARTS
                if self._may_start(free):
                    self._start(next(waiting))
                    left -= 1
            for trial in self._collect():
                ended += 1
                next_start = 0.0
                done(trial, ended, count)
            time.sleep(_POLL)

    def begin(self) -> list[Combination]:
        """Remove what a sweep that was killed has left. Return what is to be run."""
        for path in Path(self.folder.path).glob("*.report"):
            path.unlink(missing_ok=True)
        if self.request.force:
            for combination in self.request.combinations:
                self.folder.forget(combination)
        self._kept = [each for each in self.request.combinations if self.finished(each) is not None]
        return [each for each in self.request.combinations if each not in self._kept]

    def record(self, trial: Trial) -> None:
        """Record the result of a combination, unless it was interrupted: then it is run again."""
        if trial.status == "interrupted":
            self._interrupted.append(trial.parameters)
        else:
            self.folder.write(TrialRecord(trial, self._arguments, self._digest))

    def _may_start(self, free: Callable[[Collection[int]], bool]) -> bool:
        if not self._running:
            return True  # it may have to wait in the queue
        if len(self._running) >= (self.request.jobs or _default_jobs(self.request)):
            return False
        return free({running.process.pid for running in self._running})

    def _start(self, combination: Combination) -> None:
        self.folder.forget(combination)
        base = self.folder.base(combination)
        with open(base + ".log", "wb") as log, open(base + ".report", "wb") as report:
            process = subprocess.Popen(
                [sys.executable, "-m", "ownlab", "run", *self._command(combination)],
                stdin=subprocess.DEVNULL,
                stdout=report,
                stderr=log,
                env=english_environment(os.environ),
                start_new_session=True,  # Ctrl-C reaches it once, from here
                preexec_fn=partial(_end_with_parent, ctypes.CDLL(None), os.getpid()),  # no threads here
            )
        self._running.append(_Running(combination, process, time.time()))

    def _command(self, combination: Combination) -> list[str]:
        request, output = self.request, self._output(combination)
        options = [*request.options, "-o", output, "--force", "--json"]
        if request.is_script:
            return [*options, *request.target, *(f"--{name}={value}" for name, value in combination.items())]
        for name, value in combination.items():
            options += ["-p", f"{name}={value}"]
        return [*options, "--", *request.target]

    def _output(self, combination: Combination) -> str:
        base = self.folder.base(combination)
        return base if self.request.is_script else base + ".ipynb"

    @property
    def _arguments(self) -> tuple[str, ...]:
        return (*self.request.options, *self.request.target)

    def _collect(self) -> Iterator[Trial]:
        for running in list(self._running):
            if running.process.poll() is not None:
                self._running.remove(running)
                trial = self._result(running)
                self.record(trial)
                yield trial

    def _result(self, running: _Running) -> Trial:
        base, output = self.folder.base(running.combination), self._output(running.combination)
        report = _read_object(base + ".report")
        Path(base + ".report").unlink(missing_ok=True)
        status, reason = _status(report, running.process.returncode)
        rank_0 = os.path.join(output, "rank-0.log")
        printed = printed_to_file(rank_0) if self.request.is_script else printed_by_notebook(output)
        seconds = report.get("seconds")
        return Trial(
            parameters=running.combination,
            status=status,
            output=output,
            seconds=float(seconds) if isinstance(seconds, (int, float)) else round(time.time() - running.began, 3),
            reason=reason,
            metrics=last_metrics(printed),
        )

    def _trial(self, combination: Combination) -> Trial:
        record = self.folder.read(combination)
        if record is not None and record.arguments == self._arguments:
            return replace(record.trial, kept=combination in self._kept)
        status: TrialStatus = "interrupted" if combination in self._interrupted else "queued"
        if Path(self.folder.base(combination) + ".report").exists() or is_running(self._output(combination)):
            status = "running"
        return Trial(combination, status, self._output(combination))

    def _note_request(self) -> None:
        """Called by a signal handler: nothing but a note is safe there."""
        self._requests += 1

    def _pass_requests_on(self, signum: int) -> None:
        """The first one interrupts each run, and the second one ends it at once, as in a run of its own."""
        while self._passed_on < self._requests:
            self._passed_on += 1
            for running in self._running:
                with suppress(ProcessLookupError):
                    running.process.send_signal(signum)


def is_running(folder: str) -> bool:
    """Whether a script that a cluster runs in this folder has printed something, and has not ended."""
    names = (os.path.join(folder, name) for name in ("job.sh", "rank-0.log", END_FILE))
    is_job, has_begun, has_ended = map(os.path.exists, names)
    return is_job and has_begun and not has_ended


def _default_jobs(request: SweepRequest) -> int:
    """With cards, as many as there are free cards; on the CPU, every run gets two cores for each of its processes."""
    if request.type.kind is not None:
        return len(request.combinations)
    return max(1, len(os.sched_getaffinity(0)) // (2 * request.ranks))


def _status(report: dict[str, Any], code: int) -> tuple[TrialStatus, str]:
    if code == 0:
        return "done", ""
    error = report.get("error")
    reason = str(error.get("message", "")) if isinstance(error, dict) else str(report.get("reason", ""))
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP):
        return "interrupted", reason or text("it was interrupted")
    return "failed", reason or text("`ownlab run` ended with exit code {code}", code=code)


def _digest(request: SweepRequest) -> str:
    """Of the notebook or script; "" of a module, whose file is not known."""
    try:
        return hashlib.sha256(Path(request.target[0]).read_bytes()).hexdigest()
    except OSError:
        return ""


def _read_object(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _end_with_parent(libc: Any, parent: int) -> None:
    """Let a run end if the sweep is killed. Called in the child, before it becomes `ownlab run`."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def has_free_cards(kind: RuntimeType, env: Mapping[str, str], runs: Collection[int]) -> bool:
    """Whether another run of this type would get its cards now. `runs`: the processes of those that were started before."""
    if kind.kind is None:
        return True
    options, devices = resolve_lab_options(environ=env), read_devices(env)
    with open_any(choose_store(options, env).folder) as store:
        keepers = (read_stat(row.keeper.pid) for row in store.runtimes())
        if not {*runs} <= {stat.parent for stat in keepers if stat is not None}:
            return False  # the store does not know yet which cards that one takes
        return with_availability([kind], store, devices, options)[0].free
