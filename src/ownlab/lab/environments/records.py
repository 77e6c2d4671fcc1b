"""Environments as pages and commands see them. labextension/src/records.ts is generated from these records."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "BuildStatus",
    "EnvironmentExport",
    "EnvironmentPlan",
    "EnvironmentPreset",
    "EnvironmentProgress",
    "EnvironmentState",
    "Environments",
    "NewEnvironment",
    "Phase",
    "PlannedPackage",
]

# "updating": it can be used meanwhile. "interrupted": its builder died; the same request continues it.
# "missing": it was added, and its interpreter is gone.
BuildStatus: TypeAlias = Literal["ready", "building", "updating", "failed", "cancelled", "interrupted", "missing"]
Phase: TypeAlias = Literal["resolving", "downloading", "installing", "checking"]


class NewEnvironment(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for an environment. With a name alone it continues what was requested before under that name."""

    name: str = ""  # "": the preset's
    preset: str = ""  # "default", "deep-learning", or ""
    packages: tuple[str, ...] = ()  # requirements beside the preset's
    python: str = ""  # a version or an interpreter; "": that of ownlab


class EnvironmentProgress(Struct, frozen=True):
    """How far a build is."""

    phase: Phase
    message: str  # a sentence
    fraction: float | None  # of the downloads, 0 to 1
    done_bytes: int | None
    total_bytes: int | None
    started_at: float  # seconds since the epoch


class EnvironmentState(Struct, frozen=True):
    """An environment, or a build of one."""

    name: str
    status: BuildStatus
    created: bool  # by ownlab: its removal deletes its files
    preset: str
    packages: tuple[str, ...]  # what was requested
    python: str  # the path of its interpreter
    version: str  # of Python
    size_bytes: int | None  # on disk
    proof: str  # "proven on card 0", or why not
    proven: bool | None  # None: there is nothing to prove
    progress: EnvironmentProgress | None
    error: str
    hint: str
    notes: tuple[str, ...]


class EnvironmentPreset(Struct, frozen=True):
    """A set of packages under a name."""

    name: str
    environment: str  # the name of the environment if no other is given
    packages: tuple[str, ...]


class Environments(Struct, frozen=True):
    """GET /ownlab/api/environments, and `ownlab env list --json` under the key `states`."""

    environments: tuple[EnvironmentState, ...]
    presets: tuple[EnvironmentPreset, ...]


class PlannedPackage(Struct, frozen=True):
    """A package that a request needs."""

    name: str
    version: str
    size_bytes: int | None  # of the file that is downloaded


class EnvironmentPlan(Struct, frozen=True):
    """What a request would install."""

    packages: tuple[PlannedPackage, ...]
    download_bytes: int | None  # at most: what uv has in its cache is not downloaded again
    notes: tuple[str, ...]  # which torch, and why
    python: str  # version


class EnvironmentExport(Struct, frozen=True):
    """`ownlab env export --json`."""

    name: str
    python: str  # version
    packages: tuple[str, ...]  # name==version
