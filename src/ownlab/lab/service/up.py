"""`ownlab up`: checks before the server is started, and what is read while it starts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ownlab.config.settings import LabOptions
from ownlab.errors import DeadlineError, InputError, LabError, StoreError
from ownlab.lab.service.http_client import wait_for_lab
from ownlab.lab.service.labs import ROLES, Lab, lock_holder, read_lab
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.config.limits import Limits
    from ownlab.lab.runtimes.records import RuntimeType
    from ownlab.lab.store.location import StoreChoice

__all__ = ["Surroundings", "check_folder", "read_surroundings", "refuse_other_host", "wait_until_served"]


class Surroundings(NamedTuple):
    """Facts that are read while the server starts."""

    types: tuple[RuntimeType, ...]
    store: StoreChoice
    limits: Limits  # of runtimes that this lab starts: the user's own and those of a shared store


def check_folder(folder: str) -> str:
    """Return the real path of a folder that can be served; InputError otherwise."""
    path = os.path.realpath(os.path.expanduser(folder))
    if not os.path.exists(path):
        hint = text("Create it first: mkdir -p {folder}", folder=shlex.quote(path))
        raise InputError(text("{path} does not exist.", path=path), hint=hint)
    if not os.path.isdir(path):
        hint = text("A lab serves a folder: name the folder that contains the file.")
        raise InputError(text("{path} is not a folder.", path=path), hint=hint)
    if not path.isprintable():  # bytes that are not UTF-8 appear as such characters
        raise InputError(
            text("The name of the folder contains characters that cannot be printed."),
            hint=text("Jupyter cannot serve it. Rename the folder."),
        )
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        hint = text("Notebooks are saved there: choose a folder that you can write.")
        raise InputError(text("You cannot write to {path}.", path=path), hint=hint)
    return path


def read_surroundings(options: LabOptions, environ: Mapping[str, str]) -> Surroundings:
    """Read the cards, write the runtime types to disk, and find the store."""
    from ownlab.config.limits import limits_of, stricter
    from ownlab.lab.runtimes.kernelspecs import write_types
    from ownlab.lab.runtimes.runtime_types import current_types
    from ownlab.lab.store.errors import store_errors
    from ownlab.lab.store.layout import layout_of
    from ownlab.lab.store.location import choose_store

    types = current_types(environ) + _cluster_types(options, environ)
    write_types(types, environ)
    store = choose_store(options, environ)
    limits = limits_of(options)
    try:
        with store_errors(store.folder):
            limits = stricter(limits, layout_of(store.folder).limits())
    except StoreError:  # `own_runtimes` says what is wrong with the store; notebooks on the CPU can be used
        pass
    return Surroundings(types, store, limits)


def _cluster_types(options: LabOptions, environ: Mapping[str, str]) -> tuple[RuntimeType, ...]:
    """What the engine of the lab offers beside this machine. The page says why it does not answer."""
    from ownlab.lab.engines.registry import DEFAULT_ENGINE, find_engine

    if options.lab_engine == DEFAULT_ENGINE:
        return ()
    try:
        return find_engine(options.lab_engine, environ, options).notebook_types()
    except (LabError, DeadlineError):
        return ()


def wait_until_served(folder: str, alive: Callable[[], bool]) -> Lab | None:
    """Return the lab of a folder once its server answers; None if the process that starts it has ended."""

    def served() -> Lab | None:
        lab, server = read_lab(folder), lock_holder(folder)
        # The record may be of an earlier server.
        return lab if lab and server and lab.pid == server.pid and lab.state == "ready" else None

    return wait_for_lab(served, alive)


def refuse_other_host(folder: str) -> None:
    """Refuse a lab on another host: its pid and port mean nothing here."""
    for role in ROLES:
        other = lock_holder(folder, role)
        if other is not None and other.pid and not other.here:
            raise LabError(
                text(
                    "{folder} is served on {host}, which shares your home folder with this host.",
                    folder=folder,
                    host=other.host,
                ),
                hint=text("Work there, or set OWNLAB_HOME to another folder on this host."),
            )
