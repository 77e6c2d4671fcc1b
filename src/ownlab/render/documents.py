"""JSON documents that commands print, and their schemas.

Each feature defines its own records; this table only names them, so that a command loads no other feature's.
"""

from __future__ import annotations

import importlib

import click
import msgspec
from msgspec import Struct

from ownlab.errors import OwnlabError
from ownlab.json_encoding import encode_shown_json

__all__ = ["DOCUMENTS", "Failure", "document_type", "echo_record", "schema_of"]

DocumentType = type[Struct] | type[tuple[Struct, ...]]

# Document -> "module:Record", with "[]" behind it for an array of them. docs/schemas/<document>.json is generated from
# the record (make golden) and checked.
DOCUMENTS = {
    "bench": "ownlab.instruments.bench.records:BenchReport",
    "bench-compare": "ownlab.instruments.bench.comparison:Comparison",
    "bench-list": "ownlab.instruments.bench.report_files:ReportList",
    "clouds": "ownlab.catalog.platforms:PlatformList",
    "clouds-cost": "ownlab.instruments.advise.records:Advice",
    "cluster-write": "ownlab.instruments.cluster.records:ClusterFiles",
    "completion": "ownlab.cli.completion:CompletionScript",
    "config": "ownlab.config.listing:Configuration",
    "connect": "ownlab.lab.service.records:ConnectedLab",
    "data-bench": "ownlab.instruments.data.rates.records:DataBench",
    "data-inspect": "ownlab.instruments.data.inspection.records:Inspection",
    "data-get": "ownlab.instruments.data.download.records:GetReport",
    "data-pack": "ownlab.instruments.data.packing.records:Packed",
    "data-sets": "ownlab.instruments.data.staging.records:DataSetList",
    "data-stage": "ownlab.instruments.data.staging.records:StageReport",
    "data-unpack": "ownlab.instruments.data.archives.records:UnpackReport[]",
    "data-verify": "ownlab.instruments.data.packing.records:Verified",
    "doctor": "ownlab.instruments.doctor.records:Diagnosis",
    "doctor-cluster": "ownlab.instruments.doctor.cluster.records:ClusterDiagnosis",
    "down": "ownlab.lab.service.records:LabDown",
    "env": "ownlab.lab.environments.builds:EnvironmentDocument",
    "env-export": "ownlab.lab.environments.records:EnvironmentExport",
    "error": "ownlab.render.documents:Failure",
    "explain": "ownlab.instruments.doctor.rule:RulePage",
    "explain-all": "ownlab.instruments.doctor.rule:RuleList",
    "fit": "ownlab.instruments.fit.records:Fit",
    "fit-calibration": "ownlab.instruments.fit.calibration:Calibration",
    "fit-measured": "ownlab.instruments.fit.records:MeasuredAlone",
    "fit-oom": "ownlab.instruments.fit.oom:OomExplanation",
    "form": "ownlab.lab.forms.notebook_forms:FormView[]",
    "gpus": "ownlab.catalog.gpu_ladder:CardList",
    "gpus-ladder": "ownlab.catalog.gpu_ladder:Ladder",
    "gpus-update": "ownlab.catalog.card_update:CatalogUpdate",
    "gpus-advise": "ownlab.instruments.advise.records:Advice",
    "history": "ownlab.lab.notebooks.history.records:NotebookHistory",
    "history-deleted": "ownlab.lab.notebooks.history.records:DeletedNotebooks",
    "history-diff": "ownlab.lab.notebooks.history.comparison:NotebookDifference",
    "history-restored": "ownlab.lab.cli.history:RestoredNotebook",
    "history-version": "ownlab.lab.notebooks.history.records:VersionContent",
    "machine": "ownlab.machine.records:Machine",
    "open": "ownlab.lab.service.records:OpenedNotebook",
    "run": "ownlab.lab.runs.records:RunReport",
    "run-script": "ownlab.lab.scripts.records:ScriptReport",
    "run-sweep": "ownlab.lab.sweeps.records:SweepReport",
    "runtimes": "ownlab.lab.runtimes.records:Snapshot",
    "runtimes-log": "ownlab.lab.cli.runtime_log:RuntimeLog",
    "runtimes-told": "ownlab.lab.runtimes.records:RuntimeChange",
    "runtimes-usage": "ownlab.lab.runtimes.records:Usage",
    "secrets": "ownlab.lab.secrets.store:SecretList",
    "secrets-read": "ownlab.lab.secrets.store:SecretValue",
    "status": "ownlab.lab.service.records:LabStates",
    "store": "ownlab.lab.store.location:StoreView",
    "store-repair": "ownlab.lab.store.location:StoreRepair",
    "top": "ownlab.instruments.top.records:TopReading",
    "top-report": "ownlab.instruments.top.report:Report",
    "types": "ownlab.lab.runtimes.records:TypeList",
    "types-offers": "ownlab.lab.engines.interface:OfferList",
    "types-removed": "ownlab.lab.runtimes.records:RemovedTypes",
    "up": "ownlab.lab.service.records:LabState",
    "why": "ownlab.instruments.why.records:Explanation",
    "why-evidence": "ownlab.instruments.why.records:Evidence",
    "why-explain": "ownlab.instruments.why.rule:CausePage",
    "why-explain-all": "ownlab.instruments.why.rule:CauseList",
}


class FailureDetails(Struct, frozen=True):
    kind: str  # the name of the error's class
    message: str
    meaning: str
    hint: str
    exit_code: int


class Failure(Struct, frozen=True):
    """The document that every command prints with --json if it fails."""

    error: FailureDetails

    @classmethod
    def of(cls, error: OwnlabError) -> Failure:
        """The document of an error."""
        return cls(FailureDetails(type(error).__name__, error.message, error.meaning, error.hint, error.exit_code))


def document_type(name: str) -> DocumentType:
    """Return the record (or the array of records) behind a document of DOCUMENTS."""
    module, _, record = DOCUMENTS[name].partition(":")
    found: type[Struct] = getattr(importlib.import_module(module), record.removesuffix("[]"))
    return tuple[found, ...] if record.endswith("[]") else found  # type: ignore[valid-type]  # a type made at run time


def echo_record(record: Struct | tuple[Struct, ...]) -> None:
    """Print a record, or an array of them, as one indented document."""
    # As bytes: JSON is UTF-8, whatever the terminal's encoding is.
    click.echo(msgspec.json.format(encode_shown_json(record), indent=1))


def schema_of(record: type[Struct] | type[tuple[Struct, ...]]) -> bytes:
    """The JSON Schema of a record, as it is committed."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(record)), indent=1) + b"\n"
