"""Records of the start page. labextension/src/records.ts is generated from them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.lab.environments.records import Environments
from ownlab.lab.service.examples import Example

__all__ = ["DoctorReport", "ListedDataSet", "PlacedNotebook", "RecentNotebook", "ReportedFinding", "StartPage"]


class RecentNotebook(Struct, frozen=True):
    """A notebook that was used lately, and what happened to it."""

    path: str  # JupyterLab's
    file: str  # absolute, as runtimes name it
    changed_at: float  # the file, or the output of its runtime
    edited_at: float | None = None  # the newest version of its history
    versions_today: int = 0
    ran_at: float | None = None  # when its last cell ended
    run_seconds: float | None = None  # how long it took, if it was a run without a page
    failed_cells: int = 0
    stopped: bool = False  # its runtime ended while a cell ran
    died_at: float | None = None  # its kernel, if no cell was executed since
    died_of: str = ""  # "out of memory"
    owner: str = ""  # another person, whose file it is
    read_only: bool = False


class ReportedFinding(Struct, frozen=True):
    """A finding of the doctor."""

    code: str
    severity: Literal["error", "warning", "note"]
    title: str
    evidence: tuple[str, ...]
    meaning: str
    fix: tuple[str, ...]  # commands, or sentences where no command can


class DoctorReport(Struct, frozen=True):
    """The doctor's verdict on this machine and one environment: GET /ownlab/api/doctor."""

    gpu_work: Literal["yes", "no", "unknown"]
    sentence: str
    environment: str
    python: str
    checked_at: float
    findings: tuple[ReportedFinding, ...] = ()


class ListedDataSet(Struct, frozen=True):
    """A data set that `ownlab data` has brought here, unpacked, packed or staged."""

    path: str  # absolute
    place: str | None  # JupyterLab's path; None: it is not in the lab's folder
    kind: Literal["downloaded", "unpacked", "packed", "staged"]
    source: str
    size: int  # bytes
    files: int
    last_used: float
    state: Literal["complete", "partial", "copying", "missing"]


class StartPage(Struct, frozen=True):
    """GET /ownlab/api/start. `doctor`: null until the machine has been examined; `environments`: null if they cannot be listed."""

    hostname: str
    recent: tuple[RecentNotebook, ...]
    examples: tuple[Example, ...]
    data_sets: tuple[ListedDataSet, ...] = ()
    environments: Environments | None = None
    doctor: DoctorReport | None = None


class PlacedNotebook(Struct, frozen=True):
    """The result of opening an address or an example: JupyterLab's path of the notebook."""

    path: str
    colab: bool = False  # it was written for Colab
