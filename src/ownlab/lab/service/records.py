"""Labs as documents: what `ownlab up`, `status`, `open` and `down` print with --json."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["LabDown", "LabState", "LabStates", "OpenedNotebook", "RuntimeWord"]


class LabState(Struct, frozen=True):
    """A lab that is up: `ownlab up --json`."""

    url: str  # without the token
    token: str
    address: str  # what a browser is given: with the token
    pid: int  # of the server
    watchdog: int | None  # pid of the process that starts the server again; None: there is none
    folder: str
    port: int
    started: float  # seconds since the epoch
    runtimes: int  # how many the lab started that still run
    log: str


class LabStates(Struct, frozen=True):
    """`ownlab status --json`: the labs of this person that are up."""

    labs: tuple[LabState, ...]


class OpenedNotebook(Struct, frozen=True):
    """`ownlab open --json`."""

    notebook: str  # its path
    source: str  # the address or the file that it came from; without what may be secret in an address
    copied: bool  # False: it was in the lab's folder already
    colab: bool  # it was written for Colab
    lab: LabState  # its address leads to the notebook


class RuntimeWord(Struct, frozen=True):
    """A runtime in a few words."""

    id: str
    notebook: str
    folder: str | None  # of the lab that started it, where that is known
    label: str
    state: str  # "busy for 2 h 10 min"


class LabDown(Struct, frozen=True):
    """`ownlab down --json`."""

    folders: tuple[str, ...]  # of the labs that were ended
    ended: tuple[RuntimeWord, ...]
    running: tuple[RuntimeWord, ...]  # what goes on without a lab
