"""What a request needs: resolved by uv into a lock file (pylock.toml), with the size of each download."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from ownlab.catalog.versions import parse_version
from ownlab.config.machine_options import resolve_machine_options
from ownlab.config.settings import LabOptions
from ownlab.input_files import parse_toml
from ownlab.lab.environments.presets import package_name, requirements
from ownlab.lab.environments.records import EnvironmentPlan, NewEnvironment, PlannedPackage
from ownlab.lab.environments.torch_build import FROM_TORCH_INDEX, TorchBuild, choose_torch, index_answers, needs_torch
from ownlab.lab.environments.uv import run_uv
from ownlab.machine.reader import read_machine

__all__ = ["LOCKED", "make_plan", "with_torch"]

# The folder of a project with the exact versions. It is installed, not the lock file itself: uv takes files that the lock file
# names by their addresses from its cache only if their server allows it, and downloads them again otherwise.
LOCKED = "locked"
_LOCK_FILE = "pylock.toml"
_PROJECT = "pyproject.toml"
# An index that states no sizes is asked per file: gently, since registries refuse bursts.
_SIZE_SECONDS = 5.0
_SIZE_REQUESTS = 4


def make_plan(
    request: NewEnvironment,
    python: str,
    version: str,
    folder: Path,
    variables: Mapping[str, str],
    options: LabOptions,
    environ: Mapping[str, str] = os.environ,
    *,
    upgrade: bool = False,
) -> EnvironmentPlan:
    """Resolve a request for an interpreter, and leave the lock file in `folder`. UvFailed if that is impossible.

    What an earlier resolution in the same folder chose is kept, so that an interrupted build continues with the same files.
    """
    wanted, build = with_torch(requirements(request), version, options, environ)
    _write_project(folder / _PROJECT, wanted, version, build.index_url if build else None)
    lock = folder / _LOCK_FILE
    if upgrade:
        lock.unlink(missing_ok=True)
    arguments = ["--directory", str(folder), "pip", "compile", _PROJECT, "--python", python]
    run_uv([*arguments, "--format", _LOCK_FILE, "--output-file", _LOCK_FILE, "--quiet"], variables)
    packages = _read_lock(lock, version)
    (folder / LOCKED).mkdir(exist_ok=True)
    _write_project(folder / LOCKED / _PROJECT, _pinned(packages, wanted), version, build.index_url if build else None)
    sizes = [package.size_bytes for package in packages if package.size_bytes is not None]
    known = sum(sizes) if len(sizes) == len(packages) else None
    return EnvironmentPlan(packages, known, build.notes if build else (), version)


def with_torch(
    wanted: tuple[str, ...],
    version: str,
    options: LabOptions,
    environ: Mapping[str, str],
    answers: Callable[[str], bool] = index_answers,
) -> tuple[tuple[str, ...], TorchBuild | None]:
    """Return the requirements with the torch for this machine and this version of Python, and where it comes from."""
    if not needs_torch(wanted):
        return wanted, None
    requested = next((each for each in wanted if package_name(each) == "torch"), "torch")
    machine = read_machine(resolve_machine_options(environ=environ))
    build = choose_torch(machine, version, requested, options.torch_index, answers)
    return tuple(build.requirement if package_name(each) == "torch" else each for each in wanted), build


def _write_project(path: Path, wanted: Sequence[str], version: str, torch_index: str | None) -> None:
    """Write the request as a project: only a project can say that torch comes from one index and the rest from another."""
    release = ".".join(map(str, parse_version(version)[:2]))
    lines = [
        "[project]",
        'name = "ownlab-environment"',
        'version = "0"',
        f'requires-python = "=={release}.*"',
        f"dependencies = {json.dumps(list(wanted))}",
    ]
    if torch_index is not None:
        lines += ["[[tool.uv.index]]", 'name = "pytorch"', f"url = {json.dumps(torch_index)}", "explicit = true"]
        names = {package_name(each) for each in wanted} & set(FROM_TORCH_INDEX)
        lines += ["[tool.uv.sources]", *(f'{name} = {{ index = "pytorch" }}' for name in sorted(names))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _pinned(packages: Sequence[PlannedPackage], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return exact requirements; what was requested by its address has no version, and is kept as written."""
    written = {package_name(each): each for each in wanted}
    return tuple(
        f"{package.name}=={package.version}"
        if package.version and "@" not in written.get(package.name, "")
        else written[package.name]
        for package in packages
        if package.version or package.name in written
    )


# --- sizes ------------------------------------------------------------------------------------------------------------


def _read_lock(path: Path, version: str) -> tuple[PlannedPackage, ...]:
    content = parse_toml(path.read_bytes(), str(path))
    tags = _tags(version)
    files = [(each, _file(each, tags, path.parent)) for each in content.get("packages", ())]
    with ThreadPoolExecutor(_SIZE_REQUESTS) as pool:
        sizes = list(pool.map(lambda pair: _size(pair[1]), files))
    return tuple(
        PlannedPackage(each["name"], str(each.get("version", "")), size)
        for (each, _), size in zip(files, sizes, strict=True)
    )


def _tags(version: str) -> dict[Tag, int]:
    """Return the tags of wheels that this Python takes on this machine, with their rank."""
    release = parse_version(version)[:2]
    interpreter = f"cp{release[0]}{release[1]}"
    tags = [*cpython_tags(release), *compatible_tags(release, interpreter)]
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def _file(package: Mapping[str, Any], tags: Mapping[Tag, int], folder: Path) -> dict[str, Any]:
    """Return the file of a package that will be installed: the best wheel, otherwise its source."""
    ranked = [
        (rank, number)
        for number, wheel in enumerate(package.get("wheels", ()))
        if (rank := _rank(wheel, tags)) is not None
    ]
    if ranked:
        found: dict[str, Any] = dict(package["wheels"][min(ranked)[1]])
    else:
        found = dict(package.get("sdist") or package.get("archive") or {})
    if "path" in found:
        found["path"] = os.path.join(folder, found["path"])
    return found


def _rank(wheel: Mapping[str, Any], tags: Mapping[Tag, int]) -> int | None:
    name = wheel.get("name") or os.path.basename(urlsplit(wheel.get("url") or wheel.get("path") or "").path)
    try:
        return min(
            (tags[tag] for tag in parse_wheel_filename(name.replace("%2B", "+"))[3] if tag in tags), default=None
        )
    except InvalidWheelFilename:
        return None


def _size(file: Mapping[str, Any]) -> int | None:
    if isinstance(file.get("size"), int):
        return int(file["size"])
    address = str(file.get("url") or "")
    path = str(file.get("path") or "") or (url2pathname(urlsplit(address).path) if address.startswith("file:") else "")
    if path:
        return os.path.getsize(path) if os.path.exists(path) else None
    if not address.startswith(("https://", "http://")):
        return None
    try:
        head = urllib.request.Request(address, method="HEAD")  # noqa: S310  # the scheme was checked
        with urllib.request.urlopen(head, timeout=_SIZE_SECONDS) as response:  # noqa: S310
            length = response.headers.get("Content-Length")
    except (OSError, http.client.HTTPException, ValueError):  # not known, then
        return None
    return int(length) if length and length.isdigit() else None
