"""Results as JSON documents, and the schemas of those documents."""

from __future__ import annotations

import click
import msgspec
from msgspec import Struct

from ownlab.errors import OwnlabError
from ownlab.instruments.doctor.records import Diagnosis, Severity
from ownlab.instruments.doctor.rule import Rule
from ownlab.machine.records import Machine

__all__ = ["RECORDS", "CompletionScript", "Failure", "RuleList", "RulePage", "echo_record", "schema_of"]


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
RECORDS: dict[str, type[Struct]] = {
    "completion": CompletionScript,
    "doctor": Diagnosis,
    "error": Failure,
    "explain": RulePage,
    "explain-all": RuleList,
    "machine": Machine,
}


def echo_record(record: Struct) -> None:
    """Print a record as one indented document."""
    # As bytes: JSON is UTF-8, whatever the terminal's encoding is.
    click.echo(msgspec.json.format(msgspec.json.encode(record), indent=1))


def schema_of(record: type[Struct]) -> bytes:
    """The JSON Schema of a record, as it is committed."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(record)), indent=1) + b"\n"
