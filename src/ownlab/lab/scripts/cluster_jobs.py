"""The scripts of this user that a cluster has in its queue or runs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping

from ownlab.errors import OwnlabError
from ownlab.lab.engines.interface import Job, JobStatus
from ownlab.lab.engines.job_end import END_FILE
from ownlab.lab.engines.registry import DEFAULT_ENGINE, find_engine
from ownlab.lab.runtimes.records import ScriptJob
from ownlab.lab.scripts.folder import recorded_runs
from ownlab.lab.scripts.records import StartedScript
from ownlab.text import sentence, sentences

__all__ = ["jobs_on_clusters"]


def jobs_on_clusters(environ: Mapping[str, str] = os.environ) -> tuple[tuple[ScriptJob, ...], list[str]]:
    """All that have not ended, the oldest first; and why some are not known."""
    runs: dict[str, list[tuple[str, StartedScript]]] = defaultdict(list)
    for folder, start in recorded_runs():
        if start.engine != DEFAULT_ENGINE and not os.path.exists(os.path.join(folder, END_FILE)):
            runs[start.engine].append((folder, start))
    jobs: list[ScriptJob] = []
    notices: list[str] = []
    for name, started in runs.items():
        try:
            statuses = find_engine(name, environ).status(
                [Job(run.runtime, path, run.reference) for path, run in started]
            )
        except OwnlabError as exc:  # noqa: PERF203  # there are one or two engines
            notices.append(sentences(sentence(exc.message), exc.hint))
        else:
            known = zip(started, statuses, strict=True)
            jobs += [_job(*run, status) for run, status in known if not status.has_ended]
    return tuple(sorted(jobs, key=lambda job: job.submitted_at)), notices


def _job(folder: str, start: StartedScript, status: JobStatus) -> ScriptJob:
    script = start.script[1] if start.script[0] == "-m" else start.script[0]
    return ScriptJob(
        id=start.runtime,
        script=script,
        label=start.label,
        engine=start.engine,
        reference=start.reference,
        state="running" if status.state == "running" else "waiting",
        folder=folder,
        submitted_at=start.started_at,
        why=status.reason,
        nodes=status.nodes,
        ends_at=status.ends_at,
    )
