"""Reports as files: where they are kept, how one is found by name, and the reference results that came with ownlab."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.config.paths import state_folder
from ownlab.errors import InputError, LabError, OwnlabError, RecordError
from ownlab.files import write_file
from ownlab.instruments.bench.records import BenchReport
from ownlab.json_encoding import encode_json

__all__ = [
    "FORMAT",
    "Listed",
    "ReportList",
    "find_report",
    "kept_reports",
    "list_reports",
    "load_report",
    "reference_files",
    "references",
    "save_report",
    "where_kept",
]

FORMAT = 1
_LIBRARY = Path(__file__).with_name("library")
# Nothing that is measured lies outside: a picosecond, a million of the fastest cards.
_LEAST, _MOST = 1e-12, 1e24
# The newest of one's own.
_LAST = "last"


def save_report(report: BenchReport, path: Path) -> None:
    """Write a report, whole or not at all."""
    write_file(path, msgspec.json.format(encode_json(report), indent=1) + b"\n")


def where_kept(report: BenchReport) -> Path:
    """A new file in the state folder: `2026-11-15T22-40-03-h200.json`."""
    folder = _folder()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as exc:
        raise LabError(f"{folder} cannot be made: {exc.strerror}", hint="Name a file yourself: --save FILE") from exc
    machine = report.machine
    what = machine.cards[0].name if machine.cards else "cpu"
    short = re.sub(r"[^a-z0-9]+", "-", what.lower().removeprefix("nvidia ")).strip("-")
    begun = re.sub(r"[^0-9T-]", "-", report.when.partition("+")[0])
    return folder / f"{begun}-{short}.json"


def kept_reports() -> list[Path]:
    """One's own, the newest last."""
    return sorted(_folder(make=False).glob("*.json"))


def reference_files() -> list[Path]:
    """What came with ownlab: measured by us, or published by others, which `source` says."""
    return sorted(_LIBRARY.glob("*.json"))


def references() -> dict[str, BenchReport]:
    """What came with ownlab, by name. One that cannot be read is a bug of ours, and raises."""
    return {path.stem: load_report(path) for path in reference_files()}


def find_report(name: str) -> BenchReport:
    """A file; the name of one that was kept or came with ownlab; or "last"."""
    if os.path.exists(name) or os.sep in name or name.endswith(".json"):
        return load_report(Path(name))
    known = {path.stem: path for path in (*reference_files(), *kept_reports())}
    if name == _LAST and kept_reports():
        return load_report(kept_reports()[-1])
    if name in known:
        return load_report(known[name])
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise InputError(f"there is no result {name!r}", hint=f"{hint}Name a file, or what `ownlab bench list` shows.")


def load_report(path: Path) -> BenchReport:
    """Read a report that was saved."""
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise InputError(
            f"{path} cannot be read: {exc.strerror}", hint="Make one with: ownlab bench --save FILE"
        ) from exc
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version > FORMAT:
            raise RecordError(f"{path} has format {version}; this ownlab reads up to {FORMAT}", hint="Update ownlab.")
        report = msgspec.json.decode(data, type=BenchReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise RecordError(f"{path} is no result of ownlab bench: {exc}") from exc
    for measure in report.results:
        if not all(_LEAST < figure < _MOST for figure in (measure.median, measure.low, measure.high)):
            raise RecordError(
                f"{path} is damaged: {measure.name} has a figure of zero or less, or one beyond all measure"
            )
    return report


def _folder(*, make: bool = True) -> Path:
    return state_folder(make=make) / "bench"


class _Versioned(msgspec.Struct):
    version: int
    results: list[msgspec.Raw]


class Listed(Struct, frozen=True):
    """One result, by the name that `compare` and `show` take."""

    name: str
    path: str
    reference: bool  # it came with ownlab
    when: str = ""
    machine: str = ""
    results: int = 0
    complete: bool = False
    source: str = ""
    trouble: str = ""  # why it cannot be read


class ReportList(Struct, frozen=True):
    """`ownlab bench list --json`."""

    reports: tuple[Listed, ...]


def list_reports() -> ReportList:
    """All of them, the newest last; one that cannot be read says why."""
    listed = []
    for path in (*reference_files(), *kept_reports()):
        own = path in kept_reports()
        try:
            report = load_report(path)
        except OwnlabError as exc:
            listed.append(Listed(path.stem, str(path), not own, trouble=exc.message))
            continue
        listed.append(
            Listed(
                path.stem,
                str(path),
                not own,
                report.when,
                report.machine.description,
                len(report.results),
                report.complete,
                report.source,
            )
        )
    return ReportList(tuple(listed))
