"""Results as JSON documents, and the schemas of those documents."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ownlab.instruments.doctor.records import Diagnosis
from ownlab.machine.records import Machine

__all__ = ["RECORDS", "echo_document", "echo_record", "schema_of"]

# Document -> its record; docs/schemas/<document>.json is generated from it (make golden) and checked.
RECORDS: dict[str, type[msgspec.Struct]] = {"doctor": Diagnosis, "machine": Machine}


def echo_record(record: msgspec.Struct) -> None:
    """Print a record as one indented document."""
    click.echo(msgspec.json.format(msgspec.json.encode(record), indent=1).decode())


def echo_document(document: dict[str, Any]) -> None:
    """Print a small document that has no record of its own."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=1).decode())


def schema_of(record: type[msgspec.Struct]) -> bytes:
    """The JSON Schema of a record, as it is committed."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(record)), indent=1) + b"\n"
