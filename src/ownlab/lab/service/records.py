"""Labs as documents: what `ownlab up`, `status`, `open` and `down` print with --json."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["LabDown", "LabState", "LabStates", "OpenedNotebook", "RuntimeSummary"]


class LabState(Struct, frozen=True):
    """A running lab: `ownlab up --json`."""

    url: str  # without the token
    token: str
    address: str  # for a browser, with the token
    pid: int  # of the server
    watchdog: int | None  # pid of the process that restarts the server; None: there is none
    folder: str
    port: int
    started: float  # seconds since the epoch
    runtimes: int  # started by this lab and still running
    log: str


class LabStates(Struct, frozen=True):
    """`ownlab status --json`: the running labs of this user."""

    labs: tuple[LabState, ...]


class OpenedNotebook(Struct, frozen=True):
    """`ownlab open --json`."""

    notebook: str  # its path
    source: str  # the address or file it came from, without secrets in the address
    copied: bool  # False: it was already in the lab's folder
    colab: bool  # it was written for Colab
    lab: LabState  # its address opens the notebook


class RuntimeSummary(Struct, frozen=True):
    """A runtime, briefly."""

    id: str
    notebook: str
    folder: str | None  # of the lab that started it, if known
    label: str
    state: str  # "busy for 2 h 10 min"


class LabDown(Struct, frozen=True):
    """`ownlab down --json`."""

    folders: tuple[str, ...]  # of the labs that were stopped
    ended: tuple[RuntimeSummary, ...]
    running: tuple[RuntimeSummary, ...]  # still running without a lab
