"""The table of engines: installed packages register theirs as entry points of the group `ownlab.engines`, as ownlab itself does.

[project.entry-points."ownlab.engines"]
slurm = "ownlab.lab.engines.slurm.engine:SlurmEngine"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from ownlab.config.settings import LabOptions
from ownlab.errors import LabError, UsageError
from ownlab.lab.engines.interface import Engine
from ownlab.text import listing, text

__all__ = ["DEFAULT_ENGINE", "GROUP", "engine_names", "find_engine"]

GROUP = "ownlab.engines"
DEFAULT_ENGINE = "local"


def engine_names() -> tuple[str, ...]:
    """The names of all engines that are installed, the default one first."""
    names = {entry.name for entry in entry_points(group=GROUP)} - {DEFAULT_ENGINE}
    return (DEFAULT_ENGINE, *sorted(names))


def find_engine(name: str, environ: Mapping[str, str] = os.environ, options: LabOptions | None = None) -> Engine:
    """Make the engine of this name. UsageError if there is none, LabError if its package is broken."""
    if name == DEFAULT_ENGINE:
        # The entry points of all installed packages are read in 10-50 ms, which every run and every notebook on a node would pay.
        from ownlab.lab.engines.local.engine import LocalEngine

        return LocalEngine(environ, options)
    if name == "slurm":
        from ownlab.lab.engines.slurm.engine import SlurmEngine

        return SlurmEngine(environ, options)
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        message = text("There is no engine {name}; installed are {names}.", name=name, names=listing(engine_names()))
        raise UsageError(message, hint=text("An engine is installed together with the package that has it."))
    return _load(found[0])(environ, options)


def _load(entry: EntryPoint) -> type[Engine]:
    package = entry.dist.name if entry.dist is not None else entry.value
    try:
        loaded = entry.load()
    except Exception as exc:  # code of others: whatever is wrong with it
        message = text(
            "The engine {name} of {package} cannot be loaded: {reason}", name=entry.name, package=package, reason=exc
        )
        raise LabError(message, hint=text("Update or remove that package.")) from exc
    if not (isinstance(loaded, type) and issubclass(loaded, Engine)):
        message = text("{value} of {package} is not an engine.", value=entry.value, package=package)
        raise LabError(message, hint=text("Update or remove that package."))
    return loaded
