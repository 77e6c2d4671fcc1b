"""Brings the kernelspecs up to date with the cards, the environments and the configuration of this moment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_export, kernels_folder, state_folder
from ownlab.lab.environments.registry import list_environments
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.kernelspecs import read_specs, write_specs
from ownlab.lab.runtimes.listings import ListedType, TypeList
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.runtimes.types import runtime_types
from ownlab.lab.store.rows import Device

__all__ = ["current_types", "list_types", "refresh_specs"]


def current_types(
    environ: Mapping[str, str] = os.environ, devices: Sequence[Device] | None = None
) -> tuple[RuntimeType, ...]:
    """The types that can be started now."""
    options = resolve_lab_options(environ=environ)
    found = read_devices(environ) if devices is None else devices
    return runtime_types(found, list_environments(environ), options)


def refresh_specs(environ: Mapping[str, str] = os.environ, devices: Sequence[Device] | None = None) -> bool:
    """Write their kernelspecs; whether anything had changed."""
    folder = kernels_folder(environ)
    if folder.is_relative_to(state_folder(environ, make=False)):
        state_folder(environ)  # so that it is made for this person alone
    return write_specs(current_types(environ, devices), folder)


def list_types(environ: Mapping[str, str] = os.environ) -> TypeList:
    """What there is, against what is written."""
    folder = kernels_folder(environ)
    current, written = current_types(environ), read_specs(folder)
    names = {kind.name for kind in current}
    return TypeList(
        str(folder),
        tuple(ListedType(kind, kind in written) for kind in current),
        tuple(kind.name for kind in written if kind.name not in names),
        kernels_export(environ),
    )
