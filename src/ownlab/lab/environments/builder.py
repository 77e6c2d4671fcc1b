"""Builds an environment: uv makes it, resolves, downloads and installs; then it is checked, proven and registered."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ownlab.atomic_files import replace_file
from ownlab.config.loader import resolve_lab_options
from ownlab.errors import LabError, OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.environments.builds import (
    Build,
    build_folder,
    environment_folder,
    first_progress,
    read_build,
    write_build,
)
from ownlab.lab.environments.offline import offline_commands
from ownlab.lab.environments.plan import LOCKED, make_plan
from ownlab.lab.environments.presets import package_name
from ownlab.lab.environments.proof import prove
from ownlab.lab.environments.records import EnvironmentPlan, EnvironmentProgress, NewEnvironment, Phase
from ownlab.lab.environments.registry import Environment, probe_environment, register_environment
from ownlab.lab.environments.uv import Downloads, UvFailed, find_uv, read_output, run_uv, uv_environment
from ownlab.processes import runner
from ownlab.text import plural, text
from ownlab.units import format_bytes

__all__ = ["BuildCancelled", "EnvironmentBuilder", "plan_environment"]

_WRITE_SECONDS = 0.3  # between two writes of the progress
_PYTHON_SECONDS = 60.0
# What wheels take unpacked, as a multiple of their size: CUDA's libraries take about 1.6, Python sources up to 4.
_UNPACKED = 2.5


class BuildCancelled(LabError):
    """A person stopped the build."""


class EnvironmentBuilder:
    """One build. Its caller holds the lock of the build."""

    def __init__(
        self,
        request: NewEnvironment,
        show: Callable[[Build], None],
        environ: Mapping[str, str] = os.environ,
        *,
        upgrade: bool = False,
        registered: Callable[[], object] = lambda: None,
    ) -> None:
        """`registered` is called when runtimes can start in it, before it counts as ready."""
        self._request, self._show, self._environ, self._upgrade = request, show, environ, upgrade
        self._registered = registered
        self._name = request.name
        self._folder = environment_folder(request.name, environ)
        self._options = resolve_lab_options(environ=environ)
        self._started = time.time()
        self._written = 0.0
        before = read_build(request.name, environ)
        # The last proof stays until there is a new one.
        proof, proven, size = (
            (before.proof, before.proven, before.size_bytes) if before and upgrade else ("", None, None)
        )
        self._build = Build(
            request,
            "updating" if upgrade else "building",
            first_progress(),
            proof=proof,
            proven=proven,
            size_bytes=size,
        )

    def run(self) -> Build:
        """Build it; what goes wrong is recorded, and raised."""
        try:
            return self._run()
        except (KeyboardInterrupt, BuildCancelled):
            self._set(outcome="cancelled", progress=None)
            raise
        except UvFailed as exc:
            hint = exc.hint or offline_commands(self._request, exc, self._options, self._environ)
            self._set(outcome="failed", progress=None, error=exc.message, hint=hint)
            raise LabError(exc.message, hint=hint) from exc
        except OwnlabError as exc:
            self._set(outcome="failed", progress=None, error=exc.message, hint=exc.hint)
            raise

    def _run(self) -> Build:
        self._set()
        variables = uv_environment(self._options, self._environ)
        python = _make_environment(self._request, self._folder, variables, self._environ)
        version = _version(python)
        files = build_folder(self._name, self._environ)
        plan = make_plan(
            self._request, python, version, files, variables, self._options, self._environ, upgrade=self._upgrade
        )
        self._set(notes=plan.notes)
        _check_space(plan, self._folder)
        self._download(plan, python, files, variables)
        self._progress("checking", text("Checking that notebooks can use it."))
        environment = msgspec.structs.replace(probe_environment(self._name, python), created=True)
        self._prove(plan, environment, variables)
        register_environment(environment, self._environ)
        self._registered()
        _forget_replaced(self._folder)
        size, seconds = _disk_usage(self._folder), time.time() - self._started
        self._set(outcome="ready", progress=None, size_bytes=size, seconds=seconds)
        return self._build

    def _download(self, plan: EnvironmentPlan, python: str, files: Path, variables: Mapping[str, str]) -> None:
        count, size = len(plan.packages), plan.download_bytes
        if size is None:
            message = plural(count, "Downloading 1 package.", "Downloading {n} packages.")
        else:
            message = plural(
                count,
                "Downloading 1 package, {size} at most.",
                "Downloading {n} packages, {size} at most.",
                size=format_bytes(size),
            )
        self._progress("downloading", message, 0.0, 0, size)

        def report(downloads: Downloads) -> None:
            if downloads.installing:
                self._progress("installing", plural(count, "Installing 1 package.", "Installing {n} packages."), 1.0)
            elif time.monotonic() - self._written >= _WRITE_SECONDS:
                self._report(downloads, plan)

        folder = str(files / LOCKED)
        read_output(
            ["--directory", folder, "pip", "install", "--python", python, "-r", "pyproject.toml"], variables, report
        )

    def _report(self, downloads: Downloads, plan: EnvironmentPlan) -> None:
        done, total = map(sum, zip(*downloads.files.values(), strict=True)) if downloads.files else (0, 0)
        if not total:
            return
        if downloads.packages == len(plan.packages) and plan.download_bytes is not None:
            total = max(total, plan.download_bytes)  # nothing is in uv's cache: also what has not begun counts
        largest = max(downloads.files, key=lambda name: downloads.files[name][1] - downloads.files[name][0])
        message = text(
            "Downloading {name}: {done} of {total}, {prepared} of {packages} packages.",
            name=largest,
            done=format_bytes(done),
            total=format_bytes(total),
            prepared=downloads.prepared,
            packages=downloads.packages,
        )
        self._progress("downloading", message, done / total, done, total)

    def _prove(self, plan: EnvironmentPlan, environment: Environment, variables: Mapping[str, str]) -> None:
        if not any(package.name == "torch" for package in plan.packages):
            self._set(proof="", proven=None)
            return
        self._progress("checking", text("Computing a matrix product with torch on each device."))
        proof = prove(environment.python)
        self._set(proof=proof.summary, proven=proof.proven)
        if proof.torchvision:
            self._set(notes=(*self._build.notes, self._drop_torchvision(environment, proof.torchvision, variables)))

    def _drop_torchvision(self, environment: Environment, error: str, variables: Mapping[str, str]) -> str:
        """Remove a torchvision that was built for another torch, unless a person named it; return a note.

        transformers and others use it as soon as it is there, and fail with its error.
        """
        if any(package_name(each) == "torchvision" for each in self._request.packages):
            return text("torchvision does not work with this torch, for which it was not built: {error}", error=error)
        python = environment.python
        run_uv(["--directory", "/", "pip", "uninstall", "--python", python, "torchvision"], variables)
        return text(
            "torchvision was left out: this index has none that was built for this torch ({error}). PyTorch's own index has "
            "builds that fit each other.",
            error=error,
        )

    def _progress(
        self,
        phase: Phase,
        message: str,
        fraction: float | None = None,
        done: int | None = None,
        total: int | None = None,
    ) -> None:
        progress = EnvironmentProgress(phase, message, fraction, done, total, self._started)
        if progress != self._build.progress:
            self._set(progress=progress)

    def _set(self, **changes: object) -> None:
        """Change the build's state, on disk and where it is shown."""
        self._build = msgspec.structs.replace(self._build, **changes)
        write_build(self._name, self._build, self._environ)
        self._written = time.monotonic()
        self._show(self._build)


def plan_environment(request: NewEnvironment, environ: Mapping[str, str] = os.environ) -> EnvironmentPlan:
    """Resolve a request without building it: what it needs, and how large that is."""
    options = resolve_lab_options(environ=environ)
    variables = uv_environment(options, environ)
    python = request.python or sys.executable
    try:
        found = _find_python(python, variables)
        # Not in the folder of a build of that name, which may be running.
        with tempfile.TemporaryDirectory(prefix="ownlab-plan-") as folder:
            return make_plan(request, found, _version(found), Path(folder), variables, options, environ)
    except UvFailed as exc:
        raise LabError(exc.message, hint=exc.hint or offline_commands(request, exc, options, environ)) from exc


def _find_python(asked: str, variables: Mapping[str, str]) -> str:
    """Return the interpreter that uv finds for a version or a path."""
    if os.path.exists(asked):
        return asked
    ran = runner.run([find_uv(variables), "python", "find", asked], deadline=_PYTHON_SECONDS, env=variables)
    if ran.returncode != 0:
        raise LabError(
            text("uv finds no Python {version} on this machine: {reason}", version=asked, reason=ran.output),
            hint=text("It is downloaded when the environment is created, if the network allows it."),
        )
    return ran.stdout.strip()


def _check_space(plan: EnvironmentPlan, folder: Path) -> None:
    """Refuse a build for which the disk is too small: it would fail after an hour of downloads."""
    if plan.download_bytes is None:
        return
    needed = int(plan.download_bytes * _UNPACKED)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise LabError(
            text(
                "The environment needs about {needed}, but {folder} has {free} free.",
                needed=format_bytes(needed),
                folder=folder,
                free=format_bytes(free),
            ),
            hint=text(
                "Free some space (uv cache prune removes unused downloads), or choose another folder: "
                "OWNLAB_ENVIRONMENTS_FOLDER=PATH"
            ),
        )


def _make_environment(
    request: NewEnvironment, folder: Path, variables: Mapping[str, str], environ: Mapping[str, str]
) -> str:
    """Return the interpreter of the environment; create it, unless an interrupted build has done so."""
    python, marker = folder / "bin" / "python", build_folder(request.name, environ) / "python"
    asked = request.python or sys.executable
    if os.access(python, os.X_OK) and marker.exists() and marker.read_text() == asked:
        return str(python)
    marker.unlink(missing_ok=True)
    run_uv(["--directory", "/", "venv", "--no-project", "--clear", "--python", asked, str(folder)], variables)
    marker.write_text(asked)
    return str(python)


def _version(python: str) -> str:
    program = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    ran = runner.run([python, "-I", "-c", program], deadline=_PYTHON_SECONDS)
    if ran.returncode != 0:
        raise LabError(text("{python} cannot be run: {reason}", python=python, reason=ran.output))
    return ran.stdout.strip()


def _disk_usage(folder: Path) -> int:
    return sum(entry.stat(follow_symlinks=False).st_size for entry in _files(str(folder)))


def _files(folder: str) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    found.append(entry)
    return found


def _forget_replaced(folder: Path) -> None:
    """An environment that was updated is not put back to versions from before (ownlab_guest/shell/origins.py)."""
    for file in folder.glob("lib/*/site-packages/ownlab-origins.json"):
        with contextlib.suppress(OSError, msgspec.DecodeError):  # a factory reset then offers an older version
            origins = msgspec.json.decode(file.read_bytes(), type=dict[str, str | None])
            replace_file(str(file), encode_json({name: None for name, origin in origins.items() if origin is None}))
