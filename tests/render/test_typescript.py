"""The front end's types: committed, and the same as the records. `make golden` rewrites them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import pytest
from msgspec import Struct

import ownlab
from ownlab.lab.environments.records import EnvironmentPlan, Environments, NewEnvironment
from ownlab.lab.notebooks.edits.records import Changes, Patch
from ownlab.lab.notebooks.history.records import DeletedNotebooks, NotebookHistory, VersionContent
from ownlab.lab.runtimes.records import Snapshot
from ownlab.lab.runtimes.runtime_removal import Leftovers, RemovablePackages, RemovedPackages
from ownlab.lab.server.disk import DiskUse
from ownlab.lab.server.edit_handlers import NewVersion, Renamed
from ownlab.lab.server.forms import Forms
from ownlab.lab.server.routes import Proposed
from ownlab.lab.server.secrets import Secrets
from ownlab.lab.start_page.records import DoctorReport, PlacedNotebook, StartPage
from ownlab.render.documents import Failure
from ownlab.render.typescript import declarations

LABEXTENSION = Path(__file__).resolve().parents[2] / "labextension"


def test_generated_types_are_those_of_the_records() -> None:
    path = LABEXTENSION / "src" / "records.ts"
    declared = declarations(
        [
            Snapshot,
            Forms,
            Proposed,
            Leftovers,
            RemovablePackages,
            RemovedPackages,
            Secrets,
            Patch,
            Changes,
            NewVersion,
            Renamed,
            NotebookHistory,
            VersionContent,
            DeletedNotebooks,
            StartPage,
            DoctorReport,
            PlacedNotebook,
            Environments,
            NewEnvironment,
            EnvironmentPlan,
            DiskUse,
            Failure,
        ]
    )
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.write_text(declared)
    assert path.read_text() == declared


class Inner(Struct, frozen=True):
    """A nested record."""

    kind: Literal["a", "b"]


class Other(Struct, frozen=True, tag_field="is", tag="other"):
    size: int


class Outer(Struct, frozen=True, rename={"inner": "within"}):
    inner: tuple[Inner, ...]
    sizes: dict[str, int | None]
    first: Inner
    ready: bool = False


def test_a_record_comes_after_what_it_is_made_of() -> None:
    assert declarations([Outer]).partition("\n\n")[2] == (
        "/** A nested record. */\n"
        "export interface Inner {\n"
        "  readonly kind: 'a' | 'b';\n"
        "}\n"
        "\n"
        "export interface Outer {\n"
        "  readonly within: ReadonlyArray<Inner>;\n"
        "  readonly sizes: Readonly<Record<string, number | null>>;\n"
        "  readonly first: Inner;\n"
        "  readonly ready: boolean;\n"
        "}\n"
    )


def test_a_record_says_which_of_several_it_is() -> None:
    assert "  readonly is: 'other';\n  readonly size: number;\n" in declarations([Other])


def test_what_has_no_type_over_there_is_refused() -> None:
    class Odd(Struct):
        raw: bytes

    with pytest.raises(TypeError, match="no TypeScript"):
        declarations([Odd])


def test_the_front_end_has_the_version_of_the_package() -> None:
    assert json.loads((LABEXTENSION / "package.json").read_text())["version"] == ownlab.__version__


def test_the_lock_names_no_registry() -> None:
    """A build uses the registry that is configured on its machine."""
    lock = json.loads((LABEXTENSION / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in lock["packages"].items() if name)
