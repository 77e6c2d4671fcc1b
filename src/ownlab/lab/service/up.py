"""What `ownlab up` does beside starting the server."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ownlab.config.paths import kernels_folder
from ownlab.config.settings import LabOptions
from ownlab.errors import InputError, LabError
from ownlab.lab.service.health import wait_until
from ownlab.lab.service.labs import Lab, Role, holder, read_lab

if TYPE_CHECKING:
    from ownlab.config.limits import Limits
    from ownlab.lab.runtimes.records import RuntimeType
    from ownlab.lab.store.location import StoreChoice

__all__ = ["Look", "await_lab", "check_folder", "look_around", "refuse_other_host", "somebody_serves"]

_ROLES: tuple[Role, ...] = ("watchdog", "server")


class Look(NamedTuple):
    """What is found while the server starts."""

    types: tuple[RuntimeType, ...]
    store: StoreChoice
    limits: Limits  # of runtimes that this lab starts: the person's own, and those of a shared store


def check_folder(folder: str) -> str:
    """Its real path, if it is a folder that can be worked in."""
    path = os.path.realpath(os.path.expanduser(folder))
    if not os.path.exists(path):
        raise InputError(f"{path} is not there", hint=f"Make it first: mkdir -p {shlex.quote(path)}")
    if not os.path.isdir(path):
        raise InputError(f"{path} is not a folder", hint="A lab serves a folder: give the one that the file is in.")
    if not path.isprintable():  # bytes that are no text come as such characters
        raise InputError(
            "the folder's name has characters that cannot be shown", hint="Jupyter cannot serve it: rename it."
        )
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"{path} may not be written by you", hint="Notebooks are saved there: give a folder of yours.")
    return path


def look_around(options: LabOptions, environ: Mapping[str, str]) -> Look:
    """The cards, so the runtime types, which are written to disk; and where runtimes are recorded."""
    from ownlab.config.limits import limits_of, stricter
    from ownlab.lab.runtimes.kernelspecs import write_specs
    from ownlab.lab.runtimes.runtime_types import current_types
    from ownlab.lab.store.layout import read_layout
    from ownlab.lab.store.location import choose_store

    types = current_types(environ)
    write_specs(types, kernels_folder(environ))
    store = choose_store(options, environ)
    layout = read_layout(store.folder)
    policy = layout.limits() if layout is not None and layout.shared else None
    return Look(types, store, stricter(limits_of(options), policy))


def await_lab(folder: str, alive: Callable[[], bool]) -> Lab | None:
    """The lab of a folder once its server answers; None where what should start it is gone."""

    def served() -> Lab | None:
        lab, server = read_lab(folder), holder(folder)
        # The record may be that of an earlier server.
        return lab if lab and server and lab.pid == server.pid and lab.state == "ready" else None

    return wait_until(served, alive)


def somebody_serves(folder: str) -> bool:
    """Whether a server or a watchdog is there for it."""
    return any(holder(folder, role) is not None for role in _ROLES)


def refuse_other_host(folder: str) -> None:
    """A pid and a port of another host mean nothing here."""
    for role in _ROLES:
        other = holder(folder, role)
        if other is not None and other.pid and not other.here:
            raise LabError(
                f"{folder} is served on {other.host}, with which this host shares your home",
                hint="Work there, or set OWNLAB_HOME to another folder on this host.",
            )
