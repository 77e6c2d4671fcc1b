"""The copies on the scratch disk: one folder each, with a record, a list of finished files, and a lock.

Only what has a valid record of ours is ever removed, and only to make room for another copy or when somebody asks for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ownlab.atomic_files import replace_file
from ownlab.config.loader import resolve_lab_options
from ownlab.errors import InputError
from ownlab.file_lock import try_lock
from ownlab.instruments.data.staging.copying import CopiedFile
from ownlab.instruments.data.staging.records import CopyRecord
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import listing, text
from ownlab.units import format_bytes

__all__ = ["CopyFolder", "StageStore"]

_RESERVE = 2**30  # bytes that stay free on the scratch disk
_PARTIAL = "partial"


class CopyFolder:
    """One copy."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.data = folder / (name or "data")  # where the complete copy is
        self.partial = folder / _PARTIAL / (name or "data")
        self._record = folder / "record.json"
        self._listing = folder / "files.jsonl"
        self._lines: list[bytes] = []

    def record(self) -> CopyRecord | None:
        """Return the record; None if there is none, or it is not ours."""
        try:
            record = decode_json(self._record.read_bytes(), CopyRecord)
        except (OSError, msgspec.DecodeError):
            return None
        return record if record.format == 1 else None

    def write_record(self, record: CopyRecord) -> None:
        """Replace the record."""
        replace_file(self._record, msgspec.json.format(encode_json(record), indent=1) + b"\n", mode=0o644)

    def finished(self) -> dict[bytes, CopiedFile]:
        """Return the files that were copied, by path. Half a line of a killed process is dropped."""
        try:
            content = self._listing.read_bytes()
        except FileNotFoundError:
            return {}
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self._listing, len(whole))
        found = {}
        for line in whole.splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                entry = decode_json(line, CopiedFile)
                if _is_inside(entry.path):
                    found[entry.path] = entry
        return found

    def add(self, entry: CopiedFile) -> None:
        """Note a finished file."""
        self._lines.append(encode_json(entry) + b"\n")
        if len(self._lines) >= 64 or entry.size > 2**20:
            self.flush()

    def flush(self) -> None:
        """Write what was noted."""
        lines, self._lines = self._lines, []
        with open(self._listing, "ab") as file:
            file.write(b"".join(lines))

    def rewrite(self, entries: Mapping[bytes, CopiedFile]) -> None:
        """Replace the list of finished files."""
        replace_file(self._listing, b"".join(encode_json(entry) + b"\n" for entry in entries.values()), mode=0o644)

    @contextlib.contextmanager
    def locked(self, *, wait: bool) -> Iterator[bool]:
        """Lock the copy; yields False if another process has it and `wait` is not asked for."""
        os.makedirs(self.folder, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            held = try_lock(descriptor)
            while wait and not held:
                time.sleep(0.2)
                held = try_lock(descriptor)
            if held:
                # Only who holds the lock replaces these files: what is there now was left by a killed process.
                for written in (self._record, self._listing):
                    for left in self.folder.glob(f"{written.name}.*.new"):
                        left.unlink(missing_ok=True)
            yield held
        finally:
            os.close(descriptor)


class StageStore:
    """All copies of this person."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        options = resolve_lab_options(environ=environ)
        cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
        self.folder = Path(options.data_stage_folder or os.path.join(cache, "ownlab", "staged"))
        self.limit = None if options.data_stage_gb is None else int(options.data_stage_gb * 1e9)

    def copy_of(self, source: str) -> CopyFolder:
        """Return the folder of the copy of a source, whether or not there is one."""
        key = hashlib.sha256(os.fsencode(source)).hexdigest()[:16]
        return CopyFolder(self.folder / key, os.path.basename(source))

    def copies(self) -> list[tuple[CopyFolder, CopyRecord]]:
        """Return all copies, the one that was used least recently first."""
        found = []
        with contextlib.suppress(OSError):
            for folder in self.folder.iterdir():
                record = CopyFolder(folder, "").record()
                if record is not None and self.copy_of(record.source).folder == folder:
                    found.append((CopyFolder(folder, record.name), record))
        return sorted(found, key=lambda each: each[1].last_used)

    def free(self) -> int:
        """Return the free bytes of the disk."""
        system = os.statvfs(self.folder)
        return system.f_bavail * system.f_frsize

    def make_room(self, needed: int, keep: CopyFolder) -> list[str]:
        """Remove copies until `needed` more bytes fit; return their sources. Raises InputError if they cannot."""
        evicted: list[str] = []
        copies = [(copy, record) for copy, record in self.copies() if copy.folder != keep.folder]
        used = sum(record.size for _, record in copies)
        reserve = min(_RESERVE, needed // 10)
        busy: list[str] = []
        while self._lacks(used, needed, reserve):
            if not copies:
                raise self._no_room(needed, busy)
            copy, record = copies.pop(0)
            if self.remove(copy):
                used -= record.size
                evicted.append(record.source)
            else:
                busy.append(record.source)
        return evicted

    def _lacks(self, used: int, needed: int, reserve: int) -> bool:
        return (self.limit is not None and used + needed > self.limit) or self.free() < needed + reserve

    def remove(self, copy: CopyFolder) -> bool:
        """Remove a copy at once, unless a process has it open or copies it. Raises OSError."""
        with copy.locked(wait=False) as held:
            if not held or is_open(copy.folder):
                return False
            doomed = copy.folder.with_name(f".{copy.folder.name}.removed")
            shutil.rmtree(doomed, ignore_errors=True)
            os.rename(copy.folder, doomed)
        shutil.rmtree(doomed, ignore_errors=True)
        return True

    def clean(self) -> None:
        """Finish removals that were interrupted."""
        with contextlib.suppress(OSError):
            for doomed in self.folder.glob(".*.removed"):
                shutil.rmtree(doomed, ignore_errors=True)

    def _no_room(self, needed: int, busy: list[str]) -> InputError:
        in_use = text(" Copies in use: {sources}.", sources=listing(busy, "{items}, {last}")) if busy else ""
        if self.limit is not None and needed > self.limit:
            return InputError(
                text(
                    "This needs {needed}; the limit of staged copies is {limit}.",
                    needed=format_bytes(needed),
                    limit=format_bytes(self.limit),
                ),
                hint=text("Raise data.stage_gb in the configuration file, or OWNLAB_DATA_STAGE_GB."),
            )
        return InputError(
            text(
                "There is no room for {needed} in {folder}: {free} free.{in_use}",
                needed=format_bytes(needed),
                folder=self.folder,
                free=format_bytes(self.free()),
                in_use=in_use,
            ),
            hint=text(
                "Make room, or name another disk: data.stage_folder in the configuration file, or OWNLAB_DATA_STAGE_FOLDER."
            ),
        )


def _is_inside(path: bytes) -> bool:
    """Whether a path of a list, which may be damaged, is below its folder."""
    return b"\0" not in path and not path.startswith(b"/") and b".." not in path.split(b"/")


def is_open(folder: Path) -> bool:
    """Whether a process that we can see has a file below a folder open, mapped, or works there."""
    prefix = f"{os.path.realpath(folder)}/"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            if _uses(process, prefix):
                return True
    return False


def _uses(process: Path, prefix: str) -> bool:
    if f"{os.readlink(process / 'cwd')}/".startswith(prefix):
        return True
    for descriptor in os.listdir(process / "fd"):
        with contextlib.suppress(OSError):
            opened = os.readlink(process / "fd" / descriptor)
            if opened.startswith(prefix) and not opened.endswith("/lock"):
                return True
    return prefix.encode(errors="surrogateescape") in (process / "maps").read_bytes()
