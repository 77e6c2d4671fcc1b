"""Before a run: the packages that the notebook remembers are installed in its interpreter, where they are missing."""

from __future__ import annotations

import json

from msgspec import Struct

from ownlab.config.paths import kernels_folder
from ownlab.errors import LabError
from ownlab.guest_client import ask
from ownlab.lab.journal.installed_packages import packages_of
from ownlab.lab.runs.reporter import Teller
from ownlab.lab.runs.validation import Ready
from ownlab.lab.runtimes.kernelspecs import read_specs
from ownlab.lab.runtimes.start import find_type

__all__ = ["restore_packages"]

_SECONDS = 3600.0  # torch alone may be gigabytes


class Lacking(Struct, frozen=True):
    """What the interpreter answers before."""

    pip: tuple[str, ...]
    apt: tuple[str, ...]


class Restored(Struct, frozen=True):
    """And afterwards."""

    installed: tuple[str, ...]
    failed: str


def restore_packages(ready: Ready, teller: Teller) -> None:
    """Install what its interpreter lacks. LabError where that fails: nothing was started then."""
    wanted = packages_of(ready.notebook)
    if not wanted:
        teller.notice("The notebook remembers no packages: there is nothing to restore.")
        return
    python = find_type(ready.type, read_specs(kernels_folder(ready.env))).python
    arguments = json.dumps(wanted)
    lacks = ask(python, "shell.packages", ["lacking", arguments], answer=Lacking, deadline=_SECONDS, env=ready.env)
    if not lacks.pip and not lacks.apt:
        teller.notice("The packages that the notebook remembers are there.")
        return
    # Somebody else may have written the list: whoever starts this sees what it takes, and from where.
    teller.notice(f"Installing what the notebook remembers and is missing: {', '.join([*lacks.pip, *lacks.apt])}")
    done = ask(python, "shell.packages", ["restore", arguments], answer=Restored, deadline=_SECONDS, env=ready.env)
    if done.installed:
        teller.notice(f"Installed what the notebook remembers: {', '.join(done.installed)}")
    if done.failed:
        raise LabError(
            f"the packages that {ready.asked.notebook} remembers cannot all be installed: {done.failed}",
            hint="Run it without --restore-packages, or mend the list in its metadata (ownlab.packages).",
        )
