"""The report of a script's run (`ownlab run SCRIPT --json`)."""

from __future__ import annotations

import signal
from typing import Literal

from msgspec import Struct

from ownlab.lab.engines.interface import StopCause

__all__ = ["RankFailure", "ScriptReport", "ScriptStatus", "StartedScript"]

# "stopped": by `ownlab runtimes stop`, the panel or a limit; "interrupted": by Ctrl-C.
ScriptStatus = Literal["waiting", "running", "done", "failed", "interrupted", "stopped"]

_SIGNALLED = 128  # plus the signal: the exit code of shells


class StartedScript(Struct, frozen=True):
    """run.json: what was started. It is in the run's folder."""

    runtime: str
    script: tuple[str, ...]  # the path, or "-m" and a module; then the arguments
    cwd: str
    ranks: int
    type: str
    label: str
    started_at: float  # seconds since the epoch
    nodes: int = 1
    engine: str = "local"
    reference: str = ""  # what the engine calls it: the number of a Slurm job


class RankFailure(Struct, frozen=True):
    """The first failure of a run: what ended one of its ranks."""

    rank: int
    exit_code: int | None  # None: it was killed by a signal
    signal: int | None
    name: str  # of the exception: "ValueError"; "" if there was none
    value: str
    traceback: str
    log: str  # the file with everything that the rank printed

    @property
    def shell_code(self) -> int:
        """The exit code that a shell shows."""
        return _SIGNALLED + self.signal if self.signal is not None else self.exit_code or 1


class ScriptReport(Struct, frozen=True):
    """The result of a script's run."""

    runtime: str
    type: str
    label: str  # "Python 3 (4 × NVIDIA H200)"
    script: tuple[str, ...]
    ranks: int
    folder: str  # with rank-0.log, rank-1.log …
    status: ScriptStatus
    reason: str  # why it is not "done"; otherwise ""
    seconds: float
    exit_code: int | None = None  # None: it has not ended
    failure: RankFailure | None = None
    engine: str = "local"
    nodes: int = 1
    reference: str = ""  # what the engine calls it: the number of a Slurm job
    cause: StopCause = ""  # why something other than the script has ended it

    @property
    def shell_code(self) -> int:
        """The exit code of `ownlab run`: the script's own, if it has one."""
        if self.status == "interrupted":
            return _SIGNALLED + signal.SIGINT
        if self.status == "stopped":
            return _SIGNALLED + signal.SIGTERM
        if self.failure is not None:
            return self.failure.shell_code
        return self.exit_code or int(self.status == "failed")
