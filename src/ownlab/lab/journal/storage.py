"""The files of journals, and the notebook that each belongs to. Standard library only.

One folder for each runtime: `about.json`, `held.json` (the last record that the notebook's file holds), segments
`NUMBER.log`, named by their first record, and after a compaction `NUMBER.folded`, which replaces everything up to and
including that number.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from ownlab.atomic_files import replace_file
from ownlab.errors import LabError
from ownlab.lab.journal.records import json_object
from ownlab.text import pack_texts, text, unpack_texts

__all__ = [
    "RUNTIME_ID",
    "JournalFiles",
    "JournalInfo",
    "all_journals",
    "compacted_name",
    "forget_notebook",
    "journal_folder",
    "journals_folder",
    "journals_of_notebook",
    "list_journal_files",
    "make_journal_folder",
    "read_journal_info",
    "read_saved_position",
    "read_trouble",
    "remove_journal",
    "rename_notebook",
    "segment_name",
    "write_journal_info",
    "write_saved_position",
    "write_trouble",
]

# A runtime's id is also a file name.
RUNTIME_ID = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_FILE = re.compile(r"[0-9]{20}\.(log|folded)")
_REMOVING = ".going-"
_TROUBLE = 512


class JournalInfo(NamedTuple):
    """The runtime and the notebook that a journal belongs to."""

    runtime: str
    notebook: str  # absolute path; "" if there is none, or it was deleted
    lab: str
    type: str
    started_at: float
    last: int = 0  # the number of its last record, once it has ended; 0: not known


class JournalFiles(NamedTuple):
    """The number up to which it was compacted (0: never), and the first number of each segment."""

    folded: int
    logs: list[int]


def journals_folder() -> Path:
    """The folder of all journals of this user, whether or not it exists."""
    from ownlab.config.paths import state_folder  # a supervisor should not load this package

    return state_folder(make=False) / "journals"


def journal_folder(runtime: str) -> Path:
    """The folder of a runtime's journal, whether or not it exists."""
    if not re.fullmatch(RUNTIME_ID, runtime):  # it may come from a URL, and folders are removed by it
        raise LabError(text("{id!r} is not a valid runtime id.", id=runtime))
    return journals_folder() / runtime


def make_journal_folder(folder: str | Path) -> None:
    """Create a journal's folder and its parent with private permissions."""
    for each in (os.path.dirname(os.path.abspath(folder)), folder):
        os.makedirs(each, mode=0o700, exist_ok=True)


def segment_name(first: int) -> str:
    """The file name of the segment that begins with this number."""
    return f"{first:020d}.log"


def compacted_name(position: int) -> str:
    """The file name of the compacted file that replaces everything up to this number."""
    return f"{position:020d}.folded"


def list_journal_files(folder: str | Path) -> JournalFiles:
    """List a journal's current files; none if there is no journal."""
    # Repeated until stable: a single listing during a compaction may miss both the new and the old files.
    before, now = None, _names(folder)
    while now != before:
        before, now = now, _names(folder)
    numbers = [(int(name[:20]), name.endswith(".log")) for name in now]
    return JournalFiles(
        max((number for number, is_log in numbers if not is_log), default=0),
        sorted(number for number, is_log in numbers if is_log),
    )


def write_journal_info(folder: str | Path, info: JournalInfo) -> None:
    """Write about.json, creating the folder if necessary."""
    make_journal_folder(folder)
    replace_file(os.path.join(folder, "about.json"), json.dumps(info._asdict()))


def read_journal_info(folder: str | Path) -> JournalInfo | None:
    """Read about.json; None if it is missing or damaged."""
    try:
        given = _read(folder, "about.json")
        first = {name: given[name] for name in JournalInfo._fields if name != "last"}
        return JournalInfo(**first, last=int(given.get("last", 0)))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def all_journals() -> list[JournalInfo]:
    """All journals of this user, oldest first."""
    try:
        names = os.listdir(journals_folder())
    except FileNotFoundError:
        return []
    infos = [read_journal_info(journals_folder() / name) for name in names if not name.startswith(".")]
    return sorted((info for info in infos if info), key=lambda info: (info.started_at, info.runtime))


def journals_of_notebook(path: str) -> list[JournalInfo]:
    """The journals of a notebook's runtimes, oldest first."""
    real = os.path.realpath(path)
    return [info for info in all_journals() if info.notebook and os.path.realpath(info.notebook) == real]


def rename_notebook(old: str, new: str) -> None:
    """Record that a notebook, or a folder above it, was renamed."""
    for info in all_journals():
        if (rest := _below(info.notebook, old)) is not None:
            write_journal_info(journal_folder(info.runtime), info._replace(notebook=os.path.abspath(new) + rest))


def forget_notebook(path: str) -> None:
    """Record that a notebook, or a folder above it, was deleted: a new one of that name has no journals."""
    for info in all_journals():
        if _below(info.notebook, path) is not None:
            write_journal_info(journal_folder(info.runtime), info._replace(notebook=""))


def read_saved_position(folder: str | Path) -> int:
    """The number of the last record that the notebook's file holds."""
    try:
        return int(_read(folder, "held.json")["position"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def write_saved_position(folder: str | Path, position: int) -> None:
    """Record that the notebook's file holds everything up to a number; the number never decreases."""
    if position > read_saved_position(folder):
        replace_file(os.path.join(folder, "held.json"), json.dumps({"position": position}))


def write_trouble(folder: str | Path, words: str) -> None:
    """Record why the journal cannot be written; "" if it can. The file has a fixed size, so it fits on a full disk too."""
    content = json.dumps(pack_texts({"message": words})).encode() if words else b""
    content = content if len(content) <= _TROUBLE else words.encode()[:_TROUBLE]
    file = os.open(os.path.join(folder, "trouble"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(file, content.ljust(_TROUBLE), 0)  # in place: needs no new space
    finally:
        os.close(file)


def read_trouble(folder: str | Path) -> str:
    """Why the journal cannot be written now; "" if it can, or if there is none."""
    try:
        with open(os.path.join(folder, "trouble"), "rb") as file:
            content = file.read().decode(errors="replace").strip()
    except OSError:
        return ""
    message = unpack_texts(json_object(content.encode())).get("message")
    return message if isinstance(message, str) else content


def remove_journal(runtime: str) -> None:
    """Remove a journal. Nobody sees a partial one, even if this is interrupted."""
    import shutil  # loads compression libraries, which a supervisor does not need

    folder = journal_folder(runtime)
    if folder.exists():
        os.rename(folder, folder.with_name(_REMOVING + runtime))
    for each in folder.parent.glob(_REMOVING + "*"):
        shutil.rmtree(each, ignore_errors=True)


def _names(folder: str | Path) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if _FILE.fullmatch(name)}
    except FileNotFoundError:
        return set()


def _below(path: str, old: str) -> str | None:
    """The rest of a path below `old`: "" for itself, "/…" below it, None elsewhere."""
    old = os.path.abspath(old)
    return path[len(old) :] if path == old or path.startswith(old + os.sep) else None


def _read(folder: str | Path, name: str) -> Any:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)
