"""Runtime types as kernelspecs on disk, where JupyterLab, VS Code, `jupyter execute` and papermill find them.

Only folders named ownlab-… whose kernel.json has our metadata are ever changed or removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ownlab.atomic_files import replace_file
from ownlab.config.paths import cluster_kernels_folder, kernels_folder
from ownlab.errors import LabError
from ownlab.json_encoding import to_builtins
from ownlab.lab.environments.registry import DEFAULT, own_python
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import Template, template, text

__all__ = ["PROVISIONER", "read_specs", "read_types", "remove_specs", "write_specs", "write_types"]

PROVISIONER = "ownlab-provisioner"
_PREFIX = "ownlab-"
_SPEC = "kernel.json"
_LOGO = "logo-svg.svg"
# Fields that describe the current moment only.
_PASSING = ("free", "why_not", "starts_at")
# Fields of types that start elsewhere.
_OF_CLUSTERS = ("engine", "partition")

_CPU_LOGO = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
 <path d="M4 20h9M4 32h9M4 44h9M51 20h9M51 32h9M51 44h9" stroke="#868e96" stroke-width="4"/>
 <rect x="14" y="10" width="36" height="44" rx="5" fill="#ffffff" stroke="#5c7099" stroke-width="4"/>
 <rect x="24" y="23" width="16" height="18" rx="2" fill="#5c7099"/>
</svg>
"""
_CARD_LOGO = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
 <path d="M22 4v56M32 4v56M42 4v56M4 22h56M4 32h56M4 42h56" stroke="#868e96" stroke-width="4"/>
 <rect x="12" y="12" width="40" height="40" rx="6" fill="#2b8a3e"/>
 <rect x="23" y="23" width="18" height="18" rx="2" fill="#d3f9d8"/>
</svg>
"""


def write_specs(types: Sequence[RuntimeType], folder: Path) -> bool:
    """Make the folder hold exactly these types; return whether anything changed. Other kernelspecs are not touched."""
    changed = False
    try:
        os.makedirs(folder, exist_ok=True)
        for kind in types:
            changed |= _write_spec(kind, folder / kind.name)
        wanted = {kind.name for kind in types}
        for path in [path for path, _ in _ours(folder) if path.name not in wanted]:
            _remove(path)
            changed = True
    except OSError as exc:
        raise _failure(
            template("The kernelspecs in {folder} cannot be written: {reason} ({path})."), folder, exc
        ) from exc
    return changed


def write_types(types: Sequence[RuntimeType], environ: Mapping[str, str] = os.environ) -> None:
    """Write the types that a lab offers: those of a cluster where only labs that use it find them."""
    write_specs([kind for kind in types if not kind.engine], kernels_folder(environ))
    of_cluster = [kind for kind in types if kind.engine]
    if of_cluster:
        write_specs(of_cluster, cluster_kernels_folder(environ))


def read_types(environ: Mapping[str, str] = os.environ) -> tuple[RuntimeType, ...]:
    """Read the types of this machine and of the cluster that a lab of this user has used last."""
    return read_specs(kernels_folder(environ)) + read_specs(cluster_kernels_folder(environ))


def remove_specs(folder: Path) -> int:
    """Remove all our kernelspecs; return how many there were."""
    try:
        paths = [path for path, _ in _ours(folder)]
        for path in paths:
            _remove(path)
    except OSError as exc:
        raise _failure(
            template("The kernelspecs in {folder} cannot be removed: {reason} ({path})."), folder, exc
        ) from exc
    return len(paths)


def read_specs(folder: Path) -> tuple[RuntimeType, ...]:
    """Read the types of our kernelspecs, in the order in which they are offered."""
    try:
        specs = [spec for _, spec in _ours(folder)]
    except OSError as exc:
        raise _failure(template("The kernelspecs in {folder} cannot be read: {reason} ({path})."), folder, exc) from exc
    return tuple(sorted(filter(None, map(_type_of, specs)), key=_sort_key))


def _type_of(spec: dict[str, Any]) -> RuntimeType | None:
    try:
        return msgspec.convert(spec["metadata"]["ownlab"], RuntimeType)
    except msgspec.ValidationError:  # written by another version of ownlab: the next `write_specs` updates it
        return None


def _sort_key(kind: RuntimeType) -> tuple[bool, str, str, bool, int, int]:
    """The order of `runtime_types`: CPU, whole cards, shares, several cards; our own environment first."""
    several = kind.cards > 1
    return kind.environment != DEFAULT, kind.environment, kind.kind or "", several, kind.cards, -kind.parts


def _ours(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each of our kernelspecs with the content of its kernel.json."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names:
        if name.startswith(_PREFIX):
            spec = _read(folder / name)
            if spec is not None:
                yield folder / name, spec


def _read(path: Path) -> dict[str, Any] | None:
    """Read a kernelspec with our metadata; None if it is not ours, or does not exist."""
    try:
        spec = json.loads((path / _SPEC).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    metadata = spec.get("metadata") if isinstance(spec, dict) else None
    ours = metadata.get("ownlab") if isinstance(metadata, dict) else None
    return spec if isinstance(ours, dict) else None


def _write_spec(kind: RuntimeType, path: Path) -> bool:
    spec, logo = _spec_of(kind), _CPU_LOGO if kind.kind is None else _CARD_LOGO
    if os.path.lexists(path / _SPEC):
        there = _read(path)
        if there is None:
            message = text("{path} is a kernelspec that ownlab did not write.", path=path)
            raise LabError(message, hint=text("Move it away, then try again."))
        if there == spec and _read_text(path / _LOGO) == logo:
            return False
    os.makedirs(path, exist_ok=True)
    # Jupyter finds a kernelspec by its kernel.json, so that is written last; each file is replaced atomically.
    for name, content in ((_LOGO, logo), (_SPEC, json.dumps(spec, ensure_ascii=False, indent=1) + "\n")):
        replace_file(str(path / name), content)
        os.chmod(path / name, 0o644)  # it contains no secrets, and several people may use an environment
    return True


def _spec_of(kind: RuntimeType) -> dict[str, Any]:
    left_out = _PASSING if kind.engine else (*_PASSING, *_OF_CLUSTERS)
    described = {name: value for name, value in to_builtins(kind).items() if name not in left_out}
    return {
        "argv": [
            own_python(),
            "-m",
            "ownlab.lab.runtimes.direct_launch",
            "--type",
            kind.name,
            "-f",
            "{connection_file}",
        ],
        "display_name": kind.label,
        "language": "python",
        "interrupt_mode": "signal",
        "metadata": {
            "debugger": True,
            "supported_encryption": ["curve"],
            "kernel_provisioner": {"provisioner_name": PROVISIONER, "config": {}},
            "ownlab": described,
        },
    }


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _remove(path: Path) -> None:
    """Remove kernel.json first: without it the folder is not a kernelspec, even if the rest cannot be removed."""
    os.unlink(path / _SPEC)
    shutil.rmtree(path)


def _failure(message: Template, folder: Path, exc: OSError) -> LabError:
    return LabError(
        message.fill(folder=folder, reason=exc.strerror, path=exc.filename or folder),
        hint=text("Set OWNLAB_KERNELS to a folder of your own, named kernels, and JUPYTER_PATH to its parent folder."),
    )
