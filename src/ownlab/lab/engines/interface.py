"""What an engine is: offers, submit, status, cancel. Everything else of a run is the same wherever it runs.

An engine is made once in a process, by `registry.find_engine`, with the environment variables that say where things are. It
may remember what it has started; but whoever asks for a job later is another process, so a job is found by its `Job` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

from msgspec import Struct

from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import UsageError
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import text

__all__ = ["Engine", "HowToEnd", "Job", "JobRequest", "JobStatus", "Offer", "OfferList", "StopCause", "Task"]

# "starting": submitted, and cannot be asked for anything yet. "refused": no card was free, and the task did not want to wait.
# "unstarted": it failed before the script began.
JobState = Literal[
    "starting", "waiting", "running", "done", "failed", "interrupted", "stopped", "refused", "unstarted"
]  # fmt: skip
# Why something other than the script has ended it; "": nothing has, or it is not known.
StopCause = Literal["", "cancelled", "preempted", "out_of_memory", "time_limit", "node_failure"]
# "interrupt": SIGINT to the ranks, as Ctrl-C. "end": SIGTERM, with time to save. "now": nothing is left when it returns.
HowToEnd = Literal["interrupt", "end", "now"]


class JobRequest(NamedTuple):
    """What a run asks for. None: not given."""

    type: str | None = None  # a runtime type or an environment, by name
    gpus: int | None = None  # on each node
    nodes: int = 1
    python: str | None = None  # the interpreter


class Offer(Struct, frozen=True):
    """Something that an engine can start, now or later."""

    engine: str
    type: RuntimeType  # of each node: interpreter and cards. `why_not` says why it would have to wait
    nodes: int = 1  # how many are asked for; in a list of everything: the most
    partition: str = ""  # of a cluster
    time_limit: float | None = None  # seconds. None: no limit


class OfferList(Struct, frozen=True):
    """`ownlab types --engine NAME --json`."""

    engine: str
    offers: tuple[Offer, ...]


class Task(NamedTuple):
    """What is to be run, and on what."""

    runtime: str  # its id
    name: str  # shown to people: the path of the script, or the module
    script: tuple[str, ...]  # the path, or "-m" and a module; then the arguments
    ranks: int  # on each node
    offer: Offer
    folder: str  # gets the logs, and end.json
    cwd: str
    env: Mapping[str, str]
    detached: bool  # True: it goes on when the process that submitted it ends
    wait: bool  # False: it fails if it would have to wait


class Job(NamedTuple):
    """What was submitted, as any process can find it again."""

    runtime: str
    folder: str
    reference: str = ""  # the engine's own name for it, such as the number of a Slurm job


class JobStatus(Struct, frozen=True):
    """A job at one moment."""

    state: JobState
    reason: str = ""  # why it waits, or why it has ended
    cause: StopCause = ""
    exit_code: int | None = None  # of the script, or of what started its ranks
    cards: tuple[int, ...] = ()  # their numbers on the node, while it runs; of several nodes: of the first
    nodes: tuple[str, ...] = ()  # "": this machine
    starts_at: float | None = None  # when a waiting one is expected to start, in seconds since the epoch
    ends_at: float | None = None  # when the engine will end a running one, if it has a time limit
    ended_at: float | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it will not change any more."""
        return self.state not in ("starting", "waiting", "running")


class Engine(ABC):
    """One way to start runs. All methods may block for seconds, and raise errors of `ownlab.errors` only."""

    name: ClassVar[str]  # of its entry point, of the setting run.engine and of --engine
    has_arrays: ClassVar[bool] = False  # whether it takes many tasks at once, and starts them by itself

    def __init__(self, environ: Mapping[str, str], options: LabOptions | None = None) -> None:
        """`options`: the settings with those of the command line; without them the settings of the environment."""
        self.environ = environ
        self._options = options

    @property
    def options(self) -> LabOptions:
        """The settings."""
        if self._options is None:
            self._options = resolve_lab_options(environ=self.environ)
        return self._options

    @abstractmethod
    def offers(self, request: JobRequest | None = None) -> tuple[Offer, ...]:
        """What can be started for a request, the best first; without one, everything.

        Called by `lab/scripts/preparation.py` with the request of a run, which takes the first offer; and by `ownlab types`
        without one. Raises UsageError or DeviceUnusable if a request can never be met, however long it waits.
        """

    def notebook_types(self) -> tuple[RuntimeType, ...]:
        """The runtime types that a lab offers beside those of its own machine; none if the engine starts no notebooks.

        Called by `lab/server/machine_reader.py` and `ownlab up` if the setting lab.engine names this engine.
        """
        return ()

    def submit_notebook(self, task: Task) -> Job:
        """Start the runtime of a notebook on a node: `ownlab.lab.relay.node` with the folder of the task. As `submit` otherwise.

        Called by `lab/relay/job_watcher.py`. Status and end of the job are those of every other.
        """
        raise UsageError(text("The engine {name} does not start notebooks.", name=self.name))

    def terminal_command(self, job: Job, cwd: str, command: Sequence[str]) -> list[str]:
        """The command that runs a command on the node of a notebook's job, in a terminal here.

        Called by `lab/server/node_terminals.py`. The command ends with the job.
        """
        raise UsageError(text("The engine {name} opens no terminals on nodes.", name=self.name))

    def find_job(self, job: Job) -> Job | None:
        """A job whose reference was lost, with its reference; None if there is none.

        Called by `lab/relay/job_watcher.py` after a relay was killed, and by `lab/server/node_terminals.py`.
        """
        return None

    @abstractmethod
    def submit(self, task: Task) -> Job:
        """Start a task, or put it into the queue. Return without waiting for its start.

        Called by `lab/scripts/run.py` for `ownlab run SCRIPT`. If it raises, nothing was started. What is not
        detached ends with the process that has submitted it, as far as the engine can know of its end: a cluster
        does not notice SIGKILL.
        """

    def submit_array(self, tasks: Sequence[Task], folder: str, at_once: int | None) -> tuple[Job, ...]:
        """Put many tasks into the queue, of which at most `at_once` run at a time. They end by themselves.

        Called by `lab/sweeps/job_array.py` if the engine has arrays. `folder`: a new one, kept until all have ended. All tasks ask
        for the same. If it raises, nothing was started.
        """
        raise UsageError(text("The engine {name} has no job arrays.", name=self.name))

    def find_in_array(self, job: Job, folder: str) -> Job | None:
        """A job of the array that was submitted with this folder, if its reference was lost.

        Called by `lab/sweeps/job_array.py` after a sweep was killed.
        """
        return None

    def cancel_all(self, jobs: Sequence[Job], how: HowToEnd, why: str) -> None:
        """End many jobs, as `cancel` does one. Called by `lab/sweeps/job_array.py`."""
        for job in jobs:
            self.cancel(job, how, why)

    @abstractmethod
    def status(self, jobs: Sequence[Job]) -> tuple[JobStatus, ...]:
        """The states of jobs, in their order. One that the engine has forgotten is read from its folder.

        Called by `lab/scripts/run.py` many times a second while a run is in the foreground (an engine that has to ask
        others limits itself how often it does), and by `lab/scripts/outcome.py` for every report of a run.
        """

    @abstractmethod
    def cancel(self, job: Job, how: HowToEnd, why: str) -> None:
        """End a job; `why` is what its report says. Harmless for one that has ended. Only "now" waits for the end.

        Called by `lab/scripts/run.py` for Ctrl-C and at the end of every run in the foreground (then it also removes what
        the engine needs no more), and by `ownlab runtimes stop`.
        """
