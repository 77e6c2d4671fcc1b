"""Choose the torch wheel for a card and driver, with the command that installs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from ownlab.catalog.architectures import runs_on
from ownlab.catalog.cuda import driver_floor
from ownlab.catalog.data_files import load_json
from ownlab.catalog.versions import major_minor, parse_version

__all__ = ["Wheel", "build_of", "newest_rocm", "pypi_wheel_for", "wheel_for"]

# From this release on PyPI's wheels for Linux on ARM are CUDA builds; before it they were CPU builds.
_FIRST_ARM_DEFAULT = "2.11"


class Build(Struct, frozen=True):
    """One CUDA variant of a release."""

    cuda: str
    tag: str  # cu126
    arch: tuple[str, ...] | None = None  # compute capabilities with machine code
    ptx: tuple[str, ...] | None = None  # compute capabilities with PTX, which the driver compiles for newer cards
    platform: str = "linux-x86_64"

    @property
    def arch_list(self) -> tuple[str, ...] | None:
        """The list in torch's notation: sm_90, compute_90; None where no source states it."""
        if self.arch is None:
            return None
        machine = tuple(f"sm_{capability.replace('.', '')}" for capability in self.arch)
        return machine + tuple(f"compute_{capability.replace('.', '')}" for capability in self.ptx or ())


class Release(Struct, frozen=True):
    torch: str  # 2.7
    builds: tuple[Build, ...]
    default_cuda: str | None = None
    released: str | None = None
    python: tuple[str, str] | None = None  # oldest and newest that it has wheels for
    rocm: tuple[str, ...] | None = None

    def serves_python(self, version: str) -> bool:
        """Return whether it has wheels for this Python; True where no source states it."""
        ours = parse_version(version)[:2]
        if self.python is None or len(ours) < 2:
            return True
        return parse_version(self.python[0]) <= ours <= parse_version(self.python[1])


class Wheels(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    newest: str
    releases: tuple[Release, ...]


class Wheel(Struct, frozen=True):
    """A torch release in one CUDA variant."""

    torch: str
    cuda: str
    tag: str
    newest: bool
    python: tuple[str, str] | None = None  # oldest and newest that it has wheels for

    @property
    def command(self) -> str:
        """The pip command that installs it."""
        pin = "" if self.newest else f"=={self.torch}.*"
        name = f"'torch{pin}'" if pin else "torch"
        return f"pip install --force-reinstall {name} --index-url https://download.pytorch.org/whl/{self.tag}"


def _wheels() -> Wheels:
    return load_json("torch_wheels", Wheels)


def newest_rocm() -> str:
    """Return the newest ROCm that torch has wheels for: "7.2" for the index rocm7.2."""
    known = [version for release in _wheels().releases for version in release.rocm or ()]
    return max(known, key=parse_version)


def build_of(torch: str, cuda: str, platform: str = "linux-x86_64") -> Build | None:
    """Return the official build of a release for a CUDA version; None where the table has none."""
    for release in _wheels().releases:
        if release.torch == major_minor(torch):
            for build in release.builds:
                if build.cuda == major_minor(cuda) and build.platform == platform:
                    return build
    return None


def wheel_for(
    capability: str | None,
    driver: str | None,
    *,
    platform: str = "linux-x86_64",
    family: str = "linux",
    python: str | None = None,
    torch: str | None = None,
) -> Wheel | None:
    """Return the newest torch that runs on this card with this driver, in its newest CUDA variant; None where none is known.

    `family`: the system whose driver numbers count. In WSL the wheels are for Linux, and the driver is that of Windows.
    `torch`: only this release.
    """
    candidates = list(_newest_first(platform))
    if torch is not None:
        candidates = [each for each in candidates if each[0].torch == major_minor(torch)]
    return _first_that_runs(candidates, capability, driver, family, python)


def pypi_wheel_for(
    capability: str | None,
    driver: str | None,
    *,
    platform: str = "linux-x86_64",
    family: str = "linux",
    python: str | None = None,
) -> Wheel | None:
    """Return the newest torch whose build on PyPI, one per release, runs on this card with this driver; None where none is known."""
    arm = platform == "linux-aarch64"
    candidates = [
        (release, build)
        for release, build in _newest_first(platform)
        if release.default_cuda == build.cuda
        and not (arm and parse_version(release.torch) < parse_version(_FIRST_ARM_DEFAULT))
    ]
    return _first_that_runs(candidates, capability, driver, family, python)


def _first_that_runs(
    candidates: Iterable[tuple[Release, Build]],
    capability: str | None,
    driver: str | None,
    family: str,
    python: str | None,
) -> Wheel | None:
    for release, build in candidates:
        if python is not None and not release.serves_python(python):
            continue
        if capability is not None and (build.arch_list is None or not runs_on(build.arch_list, capability)):
            continue
        floor = driver_floor(build.cuda, family)
        if driver is not None and (floor is None or parse_version(driver) < parse_version(floor)):
            continue
        newest = major_minor(release.torch) == major_minor(_wheels().newest)
        return Wheel(torch=release.torch, cuda=build.cuda, tag=build.tag, newest=newest, python=release.python)
    return None


def _newest_first(platform: str) -> Iterator[tuple[Release, Build]]:
    for release in sorted(_wheels().releases, key=lambda row: parse_version(row.torch), reverse=True):
        builds = [build for build in release.builds if build.platform == platform]
        for build in sorted(builds, key=lambda row: parse_version(row.cuda), reverse=True):
            yield release, build
