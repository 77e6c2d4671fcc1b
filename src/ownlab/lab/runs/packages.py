"""Before a run: the packages that the notebook remembers are installed in its interpreter, where they are missing."""

from __future__ import annotations

import json

from msgspec import Struct

from ownlab.errors import LabError
from ownlab.guests.guest import ask
from ownlab.lab.journal.packages import packages_of
from ownlab.lab.runs.ready import Ready
from ownlab.lab.runs.tell import Teller
from ownlab.lab.runtimes.kernelspecs import read_specs
from ownlab.lab.runtimes.start import find_type
from ownlab.options.places import kernels_folder

__all__ = ["restore_packages"]

_SECONDS = 3600.0  # torch alone may be gigabytes


class Restored(Struct, frozen=True):
    """What the interpreter answers."""

    installed: tuple[str, ...]
    failed: str


def restore_packages(ready: Ready, teller: Teller) -> None:
    """Install what its interpreter lacks. LabError where that fails: nothing was started then."""
    wanted = packages_of(ready.notebook)
    if not wanted:
        teller.notice("The notebook remembers no packages: there is nothing to restore.")
        return
    teller.notice("Looking for the packages that the notebook remembers, and installing those that are missing.")
    python = find_type(ready.type, read_specs(kernels_folder(ready.env))).python
    done = ask(python, "kernel.packages", [json.dumps(wanted)], answer=Restored, deadline=_SECONDS, env=ready.env)
    if done.installed:
        teller.notice(f"Installed what the notebook remembers: {', '.join(done.installed)}")
    if done.failed:
        raise LabError(
            f"the packages that {ready.asked.notebook} remembers cannot all be installed: {done.failed}",
            hint="Run it without --restore-packages, or mend the list in its metadata (ownlab.packages).",
        )
