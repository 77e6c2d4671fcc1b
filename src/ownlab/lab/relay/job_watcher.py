"""Submits the job of a runtime, asks the engine for its state, and cancels it: in threads, since the commands of a cluster may take long."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Mapping

from ownlab.errors import OwnlabError
from ownlab.lab.engines.interface import Engine, HowToEnd, Job, JobStatus, Offer, Task
from ownlab.lab.engines.registry import find_engine
from ownlab.lab.relay.job_files import job_folder, read_reference, write_node_file, write_reference
from ownlab.lab.runtimes.launch_plan import NodeRequest, Plan
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.supervisor.state_writer import log
from ownlab.text import sentences, text
from ownlab.units import PARTS

__all__ = ["JobWatcher", "NotSubmitted", "Submitted"]


class Submitted:
    """The cluster has taken the job."""


class NotSubmitted(Exception):
    """The job could not be submitted; the argument says why."""


News = JobStatus | Submitted | NotSubmitted


class JobWatcher:
    """What it learns is read with `news`; `descriptor` is readable when there is some."""

    def __init__(self, plan: Plan, environ: Mapping[str, str]) -> None:
        self._plan, self._environ = plan, dict(environ)
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._stopped = threading.Event()
        self._cancelled = threading.Event()
        # One command of the cluster at a time, and nothing is cancelled while it is submitted.
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._job: Job | None = None
        self._thread = threading.Thread(target=self._watch, name="job-watcher", daemon=True)

    @property
    def descriptor(self) -> int:
        """To be polled for reading."""
        return self._woken.fileno()

    def start(self) -> None:
        """Submit the job, if no earlier relay has, and watch it. Harmless if that has begun."""
        if not self._thread.ident:
            self._thread.start()

    def news(self) -> list[News]:
        """What was learnt since the last call."""
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            pass
        news: list[News] = []
        while not self._news.empty():
            news.append(self._news.get())
        return news

    def cancel(self, how: HowToEnd, why: str) -> threading.Thread:
        """Cancel the job, or do not submit it at all. The thread ends when the cluster has taken the command."""
        self._cancelled.set()
        thread = threading.Thread(target=self._cancel, args=(how, why), name="job-cancel", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Do not ask for the job any more."""
        self._stopped.set()

    def _watch(self) -> None:
        engine = self._begin()
        job = self._job
        while engine is not None and job is not None and not self._stopped.is_set():
            try:
                with self._lock:
                    (status,) = engine.status([job])
            except OwnlabError as exc:
                log(f"the state of the job cannot be read: {exc.message}")
            else:
                self._tell(status)
                if status.has_ended:
                    return
            self._stopped.wait(engine.options.slurm_poll_seconds)

    def _begin(self) -> Engine | None:
        try:
            engine = find_engine(self._node.engine, self._environ)
            with self._lock:
                self._engine, self._job = engine, self._existing(engine)
                if self._job is None and not self._cancelled.is_set():
                    self._job = self._submitted(engine)
        except OwnlabError as exc:
            self._tell(NotSubmitted(sentences(exc.message, exc.hint)))
            return None
        self._tell(Submitted() if self._job is not None else NotSubmitted(text("it was stopped")))
        return engine

    def _existing(self, engine: Engine) -> Job | None:
        """The job that an earlier relay has submitted."""
        folder, reference = job_folder(self._plan), read_reference(self._plan)
        if reference:
            return Job(self._plan.runtime, folder, reference)
        if not os.path.isdir(folder) or (found := engine.find_job(Job(self._plan.runtime, folder))) is None:
            return None
        write_reference(self._plan, found.reference)  # that relay was killed before it could write the number down
        return found

    def _submitted(self, engine: Engine) -> Job:
        write_node_file(self._plan, self._environ)
        job = engine.submit_notebook(self._task(job_folder(self._plan)))
        write_reference(self._plan, job.reference)
        return job

    def _task(self, folder: str) -> Task:
        plan, node = self._plan, self._node
        kind = RuntimeType(
            name=plan.type, label=plan.label, environment="", python=node.argv[0], kind=node.kind, cards=node.cards,
            parts=PARTS, units_per_hour=plan.units_per_hour,
        )  # fmt: skip
        return Task(
            runtime=plan.runtime,
            name=plan.notebook or "notebook",
            script=(),
            ranks=1,
            offer=Offer(node.engine, kind, partition=node.partition),
            folder=folder,
            cwd=plan.cwd,
            env=self._environ,
            detached=True,
            wait=plan.wait,
        )

    def _cancel(self, how: HowToEnd, why: str) -> None:
        with self._lock:
            if self._engine is None or self._job is None:
                return
            try:
                self._engine.cancel(self._job, how, why)
            except OwnlabError as exc:
                log(f"the job cannot be cancelled: {exc.message}")

    @property
    def _node(self) -> NodeRequest:
        assert self._plan.node is not None
        return self._plan.node

    def _tell(self, news: News) -> None:
        self._news.put(news)
        self._waker.send(b"x")
