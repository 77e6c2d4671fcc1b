"""`ownlab data stage`: source -> room -> copy -> path. `ownlab data sets`: the list."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from ownlab.errors import InputError
from ownlab.instruments.data.data_sets import known_data_sets
from ownlab.instruments.data.download.downloader import Progress
from ownlab.instruments.data.download.transfer import disk_error
from ownlab.instruments.data.staging.copying import CopiedFile, CopyJob, copy_files
from ownlab.instruments.data.staging.records import CopyRecord, DataSetList, DataSetRow, StageReport
from ownlab.instruments.data.staging.source_tree import SourceFile, list_source
from ownlab.instruments.data.staging.store import CopyFolder, StageStore
from ownlab.processes.background import BackgroundCall
from ownlab.text import text

__all__ = ["list_data_sets", "stage", "stage_detached", "unstage"]

_REPORT_SECONDS = 0.1


class _Plan(NamedTuple):
    files: list[SourceFile]
    missing: list[SourceFile]
    finished: dict[bytes, CopiedFile]  # of the files that are as they should be
    surplus: list[bytes]  # files that the source no longer has
    size: int


def stage(source: str, progress: Callable[[Progress], None], environ: Mapping[str, str] = os.environ) -> StageReport:
    """Copy a file or a folder to the scratch disk, or use the copy that is there. Raises InputError."""
    begin = time.monotonic()
    real = _real(source)
    store = StageStore(environ)
    try:
        os.makedirs(store.folder, mode=0o700, exist_ok=True)
        if f"{real}/".startswith(f"{os.path.realpath(store.folder)}/"):
            raise InputError(text("{path} is on the scratch disk already.", path=real))
        store.clean()
        copy = store.copy_of(real)
        with copy.locked(wait=True):
            plan = _plan(real, copy)
            evicted = store.make_room(sum(file.size for file in plan.missing), copy) if plan.missing else []
            _write_record(copy, real, plan, complete=not plan.missing and copy.data.exists())
            copied = _copy(real, copy, plan, progress)
            _write_record(copy, real, plan, complete=True)
    except OSError as exc:
        raise disk_error(exc, store.folder) from exc
    return StageReport(
        str(copy.data), real, plan.size, len(plan.files), copied, tuple(evicted), True, time.monotonic() - begin
    )


def stage_detached(source: str, environ: Mapping[str, str] = os.environ) -> StageReport:
    """Begin to copy in a process of its own, which outlives this one. Raises InputError."""
    real = _real(source)
    copy = StageStore(environ).copy_of(real)
    subprocess.Popen(
        [sys.executable, "-m", "ownlab", "data", "stage", "--", real],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(environ),
    )
    return StageReport(str(copy.data), real, 0, 0, 0, (), False, 0.0)


def unstage(source: str, environ: Mapping[str, str] = os.environ) -> StageReport | None:
    """Remove the copy of a source. None if there is none. Raises InputError if it is in use."""
    store = StageStore(environ)
    real = os.path.realpath(os.path.expanduser(source))
    copy = store.copy_of(real)
    if copy.record() is None:
        return None
    if not store.remove(copy):
        raise InputError(
            text("The copy of {source} is in use.", source=source),
            hint=text("End the processes that read it: lsof {path}", path=copy.data),
        )
    return StageReport(str(copy.data), real, 0, 0, 0, (real,), False, 0.0)


def list_data_sets(environ: Mapping[str, str] = os.environ) -> DataSetList:
    """Return the data sets of this person: staged copies, and folders that were downloaded or unpacked."""
    store = StageStore(environ)
    copies = store.copies()
    rows = [
        DataSetRow(
            str(copy.data), "staged", record.source, record.size, record.files, record.last_used, _state(copy, record)
        )
        for copy, record in copies
    ]
    rows += [
        DataSetRow(
            entry.path,
            entry.origin,
            entry.source,
            entry.size,
            entry.files,
            entry.last_used,
            "complete" if os.path.isdir(entry.path) else "missing",
        )
        for entry in known_data_sets(environ)
    ]
    free = None
    with contextlib.suppress(OSError):
        free = store.free()
    return DataSetList(
        tuple(sorted(rows, key=lambda row: -row.last_used)),
        str(store.folder),
        sum(record.size for _, record in copies),
        store.limit,
        free,
    )


def _real(source: str) -> str:
    real = os.path.realpath(os.path.expanduser(source))
    if not os.path.exists(real):
        raise InputError(text("There is no {path}.", path=source))
    if not os.path.isfile(real) and not os.path.isdir(real):
        raise InputError(text("{path} is neither a file nor a folder.", path=source))
    return real


def _state(copy: CopyFolder, record: CopyRecord) -> Literal["complete", "partial", "copying"]:
    if record.complete:
        return "complete"
    with contextlib.suppress(OSError), copy.locked(wait=False) as held:
        return "partial" if held else "copying"
    return "partial"


def _plan(source: str, copy: CopyFolder) -> _Plan:
    """Compare the source with what earlier runs have copied."""
    files = list_source(source)
    base = copy.data if copy.data.exists() else copy.partial
    finished, missing, current = copy.finished(), list[SourceFile](), dict[bytes, CopiedFile]()
    for file in files:
        entry = finished.pop(os.fsencode(file.path), None)
        place = os.path.join(base, file.path) if file.path else str(base)
        same = entry is not None and (entry.size, entry.source_mtime_ns) == (file.size, file.mtime_ns)
        if entry is not None and same and _is_there(place, entry):
            current[entry.path] = entry
        else:
            missing.append(file)
    known = {os.fsencode(file.path) for file in missing}
    surplus = [path for path in finished if path not in known]
    return _Plan(files, missing, current, surplus, sum(file.size for file in files))


def _is_there(path: str, entry: CopiedFile) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (entry.size, entry.mtime_ns)


def _write_record(copy: CopyFolder, source: str, plan: _Plan, *, complete: bool) -> None:
    name = os.path.basename(source)
    copy.write_record(CopyRecord(source, name, plan.size, len(plan.files), time.time(), complete))


def _copy(source: str, copy: CopyFolder, plan: _Plan, progress: Callable[[Progress], None]) -> int:
    """Copy what is missing; return the bytes that were copied."""
    base = copy.data if copy.data.exists() else copy.partial
    copy.rewrite(plan.finished)
    for path in plan.surplus:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(os.fsencode(base), path))
    done, stop = [0, len(plan.finished)], threading.Event()
    total, before = plan.size, plan.size - sum(file.size for file in plan.missing)

    def finished(entry: CopiedFile) -> None:
        done[1] += 1
        copy.add(entry)

    def started(count: int) -> None:
        done[0] += count

    os.makedirs(base.parent, exist_ok=True)
    temporary = copy.folder / "temporary"  # what a killed run has left there is of no use
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    call = BackgroundCall(
        lambda: copy_files(CopyJob(source, str(base), str(temporary), started, finished, stop), plan.missing)
    )
    try:
        while not call.ended(within=_REPORT_SECONDS):
            progress(Progress(done[1], len(plan.files), min(before + done[0], total), total, done[0], source))
        call.result()
    finally:
        stop.set()
        call.ended(within=5.0)
        copy.flush()
    shutil.rmtree(temporary, ignore_errors=True)
    if base == copy.partial:
        if not copy.partial.exists():  # an empty folder
            os.makedirs(copy.partial)
        os.rename(copy.partial, copy.data)
        shutil.rmtree(copy.partial.parent, ignore_errors=True)
    return sum(file.size for file in plan.missing)
