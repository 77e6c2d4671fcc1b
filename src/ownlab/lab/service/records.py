"""Labs as documents: what `ownlab up`, `status`, `open` and `down` print with --json."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["ConnectedLab", "LabDown", "LabState", "LabStates", "OpenedNotebook", "RuntimeSummary", "ServerState"]

# "restarting": it ended or is starting, and answers in some seconds. "not answering": it runs, but is busy or suspended.
ServerState: TypeAlias = Literal["ready", "restarting", "not answering"]


class LabState(Struct, frozen=True):
    """A running lab: `ownlab up --json`."""

    url: str  # without the token
    token: str
    address: str  # for a browser, with the token
    pid: int | None  # of the server; None: it has ended, and is being restarted
    watchdog: int | None  # pid of the process that restarts the server; None: there is none
    folder: str
    port: int
    started: float  # seconds since the epoch
    runtimes: int  # started by this lab and still running
    log: str
    state: ServerState = "ready"
    fingerprint: str | None = None  # SHA-256 of its certificate, for a lab that other computers can reach


class LabStates(Struct, frozen=True):
    """`ownlab status --json`: the running labs of this user."""

    labs: tuple[LabState, ...]
    notices: tuple[str, ...] = ()  # what is wrong with the store


class ConnectedLab(Struct, frozen=True):
    """`ownlab connect --json`: a lab of another machine, as it is reached on this one."""

    destination: str
    folder: str  # there
    url: str  # without the token
    token: str
    address: str  # for a browser, with the token
    port: int  # on this machine


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
