"""Where journals stand, which notebook each belongs to, and what their files are called. Standard library alone.

One folder for each runtime: `about.json`, `held.json` (how far the notebook's file holds what the journal says),
segments `NUMBER.log`, named by their first number, and after a compaction `NUMBER.folded`, which stands for everything up
to and including that number.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from ownlab.errors import LabError
from ownlab.files import replace_file

__all__ = [
    "About",
    "Files",
    "all_journals",
    "folded_name",
    "forget_notebook",
    "journal_folder",
    "journals_folder",
    "list_files",
    "log_name",
    "make_private",
    "of_notebook",
    "read_about",
    "read_held",
    "read_trouble",
    "rename",
    "retire",
    "write_about",
    "write_held",
    "write_trouble",
]

_RUNTIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FILE = re.compile(r"[0-9]{20}\.(log|folded)")
_GOING = ".going-"
_TROUBLE = 512


class About(NamedTuple):
    """Whose journal it is."""

    runtime: str
    notebook: str  # absolute; "" for none, or one that was deleted
    lab: str
    type: str
    started_at: float


class Files(NamedTuple):
    """What a journal consists of: the number up to which it was compacted (0: never), and the first of each segment."""

    folded: int
    logs: list[int]


def journals_folder() -> Path:
    """The folder of all journals of this person, whether or not it is there."""
    from ownlab.config.paths import state_folder  # its room is more than a supervisor should load

    return state_folder(make=False) / "journals"


def journal_folder(runtime: str) -> Path:
    """Where a runtime's journal is, or would be."""
    if not _RUNTIME.fullmatch(runtime):  # it may come from an address, and folders are removed by it
        raise LabError(f"{runtime!r} is no runtime's id")
    return journals_folder() / runtime


def make_private(folder: str | Path) -> None:
    """Make a journal's folder and the one that it stands in, for their owner alone."""
    for each in (os.path.dirname(os.path.abspath(folder)), folder):
        os.makedirs(each, mode=0o700, exist_ok=True)


def log_name(first: int) -> str:
    """What the segment that begins with this number is called."""
    return f"{first:020d}.log"


def folded_name(position: int) -> str:
    """What the compacted file that holds everything up to this number is called."""
    return f"{position:020d}.folded"


def list_files(folder: str | Path) -> Files:
    """The journal's files as they are just now; nothing where there is no journal."""
    # Twice the same: one listing alone, made while a compaction renames and removes, may lack the new and the old.
    before, now = None, _names(folder)
    while now != before:
        before, now = now, _names(folder)
    numbers = [(int(name[:20]), name.endswith(".log")) for name in now]
    return Files(
        max((number for number, is_log in numbers if not is_log), default=0),
        sorted(number for number, is_log in numbers if is_log),
    )


def write_about(folder: str | Path, about: About) -> None:
    """Say whose journal is in a folder, which is made where it is not there."""
    make_private(folder)
    replace_file(os.path.join(folder, "about.json"), json.dumps(about._asdict()))


def read_about(folder: str | Path) -> About | None:
    """Whose journal is in a folder; None where none is, or nobody can tell."""
    try:
        given = _read(folder, "about.json")
        return About(**{name: given[name] for name in About._fields})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def all_journals() -> list[About]:
    """Every journal of this person, by their start."""
    try:
        names = os.listdir(journals_folder())
    except FileNotFoundError:
        return []
    found = [read_about(journals_folder() / name) for name in names if not name.startswith(".")]
    return sorted((about for about in found if about), key=lambda about: (about.started_at, about.runtime))


def of_notebook(path: str) -> list[About]:
    """The journals of the runtimes that a notebook has had, by their start."""
    real = os.path.realpath(path)
    return [about for about in all_journals() if about.notebook and os.path.realpath(about.notebook) == real]


def rename(old: str, new: str) -> None:
    """A notebook, or a folder with notebooks somewhere below it, has another name now."""
    for about in all_journals():
        if (rest := _below(about.notebook, old)) is not None:
            write_about(journal_folder(about.runtime), about._replace(notebook=os.path.abspath(new) + rest))


def forget_notebook(path: str) -> None:
    """A notebook, or a folder with notebooks somewhere below it, was deleted: another of that name has no past."""
    for about in all_journals():
        if _below(about.notebook, path) is not None:
            write_about(journal_folder(about.runtime), about._replace(notebook=""))


def read_held(folder: str | Path) -> int:
    """Up to which number the notebook's file holds what the journal says."""
    try:
        return int(_read(folder, "held.json")["position"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def write_held(folder: str | Path, position: int) -> None:
    """The notebook's file holds everything up to a number now; it never holds less than before."""
    if position > read_held(folder):
        replace_file(os.path.join(folder, "held.json"), json.dumps({"position": position}))


def write_trouble(folder: str | Path, words: str) -> None:
    """Say why nothing can be kept; "" where all is well. Written once when all was well, it fits on a full disk too."""
    file = os.open(os.path.join(folder, "trouble"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(file, words.encode()[:_TROUBLE].ljust(_TROUBLE), 0)  # over what was there: no new room is needed
    finally:
        os.close(file)


def read_trouble(folder: str | Path) -> str:
    """Why nothing can be kept in a journal just now; "" where all is well, or there is no journal."""
    try:
        with open(os.path.join(folder, "trouble"), "rb") as file:
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""


def retire(runtime: str) -> None:
    """Remove a journal; nobody sees a part of one, also where this is interrupted."""
    import shutil  # it loads compression libraries, which a supervisor has no use for

    folder = journal_folder(runtime)
    if folder.exists():
        os.rename(folder, folder.with_name(_GOING + runtime))
    for each in folder.parent.glob(_GOING + "*"):
        shutil.rmtree(each, ignore_errors=True)


def _names(folder: str | Path) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if _FILE.fullmatch(name)}
    except FileNotFoundError:
        return set()


def _below(path: str, old: str) -> str | None:
    """What follows `old` in a path: "" for itself, "/…" below it, None where it is elsewhere."""
    old = os.path.abspath(old)
    return path[len(old) :] if path == old or path.startswith(old + os.sep) else None


def _read(folder: str | Path, name: str) -> Any:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)
