"""Results as JSON documents, and the schemas of those documents."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from msgspec import Struct

from ownlab.catalog.platforms import PlatformList
from ownlab.catalog.ranking import CardList, Ladder
from ownlab.catalog.updating import CatalogUpdate
from ownlab.errors import OwnlabError
from ownlab.instruments.advise.records import Advice
from ownlab.instruments.bench.compare import Comparison
from ownlab.instruments.bench.listing import ReportList
from ownlab.instruments.bench.records import BenchReport
from ownlab.instruments.doctor.records import Diagnosis, Severity
from ownlab.instruments.doctor.rule import Rule
from ownlab.instruments.fit.calibration import Calibration
from ownlab.instruments.fit.records import Fit, MeasuredAlone
from ownlab.instruments.monitor.records import Look
from ownlab.instruments.monitor.report import Report
from ownlab.lab.colab.form import FieldType
from ownlab.lab.colab.forms import CellForm
from ownlab.lab.colab.secrets import SecretList, SecretValue
from ownlab.lab.runs.records import RunReport
from ownlab.lab.runtimes.listings import EnvironmentList, RemovedTypes, TypeList
from ownlab.lab.runtimes.records import Snapshot, Usage
from ownlab.lab.store.records import StoreView
from ownlab.machine.records import Machine
from ownlab.options.shown import Configuration

__all__ = [
    "RECORDS",
    "CellLog",
    "CompletionScript",
    "Failure",
    "FormView",
    "LabDown",
    "LabState",
    "LabStates",
    "OpenedNotebook",
    "RuleList",
    "RulePage",
    "RuntimeLog",
    "RuntimeTold",
    "RuntimeWord",
    "echo_record",
    "schema_of",
]


class RulePage(Struct, frozen=True):
    """`ownlab doctor --explain CODE --json`."""

    code: str
    severity: Severity
    title: str
    page: str  # Markdown

    @classmethod
    def of(cls, rule: type[Rule]) -> RulePage:
        """The page of a rule."""
        return cls(rule.code, rule.severity, rule.title, rule.page())


class RuleList(Struct, frozen=True):
    """`ownlab doctor --explain all --json`."""

    rules: tuple[RulePage, ...]


class CompletionScript(Struct, frozen=True):
    """`ownlab completion SHELL --json`."""

    shell: str
    script: str
    install: str


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


class RuntimeTold(Struct, frozen=True):
    """`ownlab runtimes stop|extend --json`."""

    runtime: str
    notebook: str
    told: str  # stop, extend
    ends_at: float | None = None  # when it will end now, after it was extended


class CellLog(Struct, frozen=True):
    """One execution of a cell."""

    cell: str | None  # its id; None: it was not executed from a notebook
    source: str
    state: str  # queued, running, done, aborted, cut
    execution_count: int | None
    started_at: float | None  # seconds since the epoch
    ended_at: float | None
    outputs: list[dict[str, Any]]  # as in a notebook


class RuntimeLog(Struct, frozen=True):
    """`ownlab runtimes log --json`."""

    runtime: str
    notebook: str
    ended: str | None  # why; None: it is alive
    cells: tuple[CellLog, ...]  # in the order in which they were executed


class FieldView(Struct, frozen=True):
    """One field of a form."""

    name: str
    type: FieldType
    value: str  # as it stands in the source
    choices: tuple[str, ...] | None
    allow_input: bool
    min: float | None
    max: float | None
    step: float | None
    placeholder: str | None
    line: int  # of the cell's source, from 0


class FormView(Struct, frozen=True):
    """A cell that has a form: `ownlab form --json` prints an array of these."""

    cell: int  # among all cells of the notebook, from 0
    id: str | None
    title: str | None
    hidden: bool  # its code is
    fields: tuple[FieldView, ...]

    @classmethod
    def of(cls, given: CellForm) -> FormView:
        """What is told of a form."""
        fields = tuple(
            FieldView(**{name: getattr(field, name) for name in FieldView.__struct_fields__})
            for field in given.form.fields
        )
        return cls(given.cell, given.id, given.form.title, given.form.hidden, fields)


class FailureDetails(Struct, frozen=True):
    kind: str  # the name of the error's class
    message: str
    meaning: str
    hint: str
    exit_code: int


class Failure(Struct, frozen=True):
    """What any command prints with --json where it fails."""

    error: FailureDetails

    @classmethod
    def of(cls, error: OwnlabError) -> Failure:
        """The document of an error."""
        return cls(FailureDetails(type(error).__name__, error.message, error.meaning, error.hint, error.exit_code))


# Document -> its record; docs/schemas/<document>.json is generated from it (make golden) and checked.
RECORDS: dict[str, type[Struct] | type[tuple[Struct, ...]]] = {
    "bench": BenchReport,
    "bench-compare": Comparison,
    "bench-list": ReportList,
    "clouds": PlatformList,
    "clouds-cost": Advice,
    "completion": CompletionScript,
    "config": Configuration,
    "doctor": Diagnosis,
    "down": LabDown,
    "env": EnvironmentList,
    "error": Failure,
    "explain": RulePage,
    "explain-all": RuleList,
    "fit": Fit,
    "fit-calibration": Calibration,
    "fit-measured": MeasuredAlone,
    "form": tuple[FormView, ...],
    "gpus": CardList,
    "gpus-ladder": Ladder,
    "gpus-update": CatalogUpdate,
    "gpus-advise": Advice,
    "machine": Machine,
    "open": OpenedNotebook,
    "run": RunReport,
    "runtimes": Snapshot,
    "runtimes-log": RuntimeLog,
    "runtimes-told": RuntimeTold,
    "runtimes-usage": Usage,
    "secrets": SecretList,
    "secrets-read": SecretValue,
    "status": LabStates,
    "store": StoreView,
    "top": Look,
    "top-report": Report,
    "types": TypeList,
    "types-removed": RemovedTypes,
    "up": LabState,
}


def echo_record(record: Struct | tuple[Struct, ...]) -> None:
    """Print a record, or an array of them, as one indented document."""
    # As bytes: JSON is UTF-8, whatever the terminal's encoding is.
    click.echo(msgspec.json.format(msgspec.json.encode(record), indent=1))


def schema_of(record: type[Struct] | type[tuple[Struct, ...]]) -> bytes:
    """The JSON Schema of a record, as it is committed."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(record)), indent=1) + b"\n"
