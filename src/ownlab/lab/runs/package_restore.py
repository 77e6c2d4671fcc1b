"""--restore-packages: installs the packages that a notebook recorded and its interpreter lacks."""

from __future__ import annotations

import json

from msgspec import Struct

from ownlab.errors import LabError
from ownlab.guest_client import ask
from ownlab.lab.journal.installed_packages import packages_of
from ownlab.lab.runs.reporter import Reporter
from ownlab.lab.runs.validation import PreparedRun
from ownlab.lab.runtimes.kernelspecs import read_types
from ownlab.lab.runtimes.start import find_type
from ownlab.text import listing, text

__all__ = ["restore_packages"]

_SECONDS = 3600.0  # torch alone may be gigabytes


class Lacking(Struct, frozen=True):
    """The answer of the interpreter: what is missing."""

    pip: tuple[str, ...]
    apt: tuple[str, ...]


class Restored(Struct, frozen=True):
    """The answer of the interpreter: what was installed."""

    installed: tuple[str, ...]
    failed: str


def restore_packages(prepared: PreparedRun, reporter: Reporter) -> None:
    """Install what the interpreter lacks. LabError if that fails, before anything is started."""
    wanted = packages_of(prepared.notebook)
    if not wanted:
        reporter.notice(text("The notebook has recorded no packages: there is nothing to restore."))
        return
    python = find_type(prepared.type, read_types(prepared.env)).python
    arguments = json.dumps(wanted)
    lacks = ask(python, "shell.packages", ["lacking", arguments], answer=Lacking, deadline=_SECONDS, env=prepared.env)
    if not lacks.pip and not lacks.apt:
        reporter.notice(text("All packages that the notebook recorded are installed."))
        return
    # Somebody else may have written the list: it is shown before anything is installed.
    missing = listing([*lacks.pip, *lacks.apt], "{items}, {last}")
    reporter.notice(text("Installing the recorded packages that are missing: {packages}", packages=missing))
    done = ask(python, "shell.packages", ["restore", arguments], answer=Restored, deadline=_SECONDS, env=prepared.env)
    if done.installed:
        reporter.notice(text("Installed: {packages}", packages=listing(done.installed, "{items}, {last}")))
    if done.failed:
        raise LabError(
            text(
                "Cannot install all packages that {notebook} recorded: {reason}.",
                notebook=prepared.request.notebook,
                reason=done.failed,
            ),
            hint=text("Run it without --restore-packages, or edit the list in its metadata (ownlab.packages)."),
        )
