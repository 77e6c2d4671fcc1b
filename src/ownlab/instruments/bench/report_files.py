"""Report files: saved results and the reference results of ownlab; finding them by name, and listing them."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.atomic_files import write_file
from ownlab.config.paths import state_folder
from ownlab.errors import InputError, LabError, OwnlabError, RecordError
from ownlab.input_files import read_bytes
from ownlab.instruments.bench.records import BenchReport
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import listing, sentences, text

__all__ = [
    "FORMAT",
    "ReportEntry",
    "ReportList",
    "find_report",
    "list_reports",
    "load_report",
    "new_report_path",
    "reference_files",
    "references",
    "save_report",
    "saved_reports",
]

FORMAT = 1
_LIBRARY = Path(__file__).with_name("library")
# Results outside of this range are damaged: below a picosecond, above a million of the fastest cards.
_LEAST, _MOST = 1e-12, 1e24
# The name of the newest saved result.
_LAST = "last"


def save_report(report: BenchReport, path: Path) -> None:
    """Write a report atomically."""
    write_file(path, msgspec.json.format(encode_json(report), indent=1) + b"\n")


def new_report_path(report: BenchReport) -> Path:
    """Return a new file name in the state folder: `2026-11-15T22-40-03-h200.json`."""
    folder = _folder()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as exc:
        raise LabError(
            text("Cannot create {folder}: {reason}.", folder=folder, reason=exc.strerror),
            hint=text("Choose a file yourself: --save FILE"),
        ) from exc
    machine = report.machine
    name = machine.cards[0].name if machine.cards else "cpu"
    short = re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("nvidia ")).strip("-")
    begun = re.sub(r"[^0-9T-]", "-", report.when.partition("+")[0])
    return folder / f"{begun}-{short}.json"


def saved_reports() -> list[Path]:
    """Return the saved results, the newest last."""
    return sorted(_folder(make=False).glob("*.json"))


def reference_files() -> list[Path]:
    """Return the files of the reference results: measured with ownlab, or published by others (`source`)."""
    return sorted(_LIBRARY.glob("*.json"))


def references() -> dict[str, BenchReport]:
    """Load the reference results by name. An unreadable one is a bug of ours and raises."""
    return {path.stem: load_report(path) for path in reference_files()}


def find_report(name: str) -> BenchReport:
    """Load a file, a saved or reference result by its name, or "last"."""
    if os.path.exists(name) or os.sep in name or name.endswith(".json"):
        return load_report(Path(name))
    known = {path.stem: path for path in (*reference_files(), *saved_reports())}
    if name == _LAST and saved_reports():
        return load_report(saved_reports()[-1])
    if name in known:
        return load_report(known[name])
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = text("Give a file, or a name from `ownlab bench list`.")
    if close:
        hint = sentences(text("Did you mean {names}?", names=listing(close, "{items} or {last}")), hint)
    raise InputError(text("No result is called {name!r}.", name=name), hint=hint)


def load_report(path: Path) -> BenchReport:
    """Read a report from a file."""
    data = read_bytes(path, hint=text("Create one with: ownlab bench --save FILE"))
    try:
        version = decode_json(data, _Versioned).version
        if version > FORMAT:
            raise RecordError(
                text(
                    "{path} has format {version}; this ownlab reads up to {known}.",
                    path=path,
                    version=version,
                    known=FORMAT,
                ),
                hint=text("Update ownlab."),
            )
        report = decode_json(data, BenchReport)
    except msgspec.DecodeError as exc:
        raise RecordError(text("{path} is not a result of ownlab bench: {error}.", path=path, error=exc)) from exc
    for measure in report.results:
        if not all(_LEAST < figure < _MOST for figure in (measure.median, measure.low, measure.high)):
            raise RecordError(text("{path} is damaged: {test} has an impossible value.", path=path, test=measure.name))
    return report


def _folder(*, make: bool = True) -> Path:
    return state_folder(make=make) / "bench"


class _Versioned(msgspec.Struct):
    version: int
    results: list[msgspec.Raw]


class ReportEntry(Struct, frozen=True):
    """One result, with the name for `compare` and `show`."""

    name: str
    path: str
    reference: bool  # part of ownlab
    when: str = ""
    machine: str = ""
    results: int = 0
    complete: bool = False
    source: str = ""
    trouble: str = ""  # why it is unreadable


class ReportList(Struct, frozen=True):
    """`ownlab bench list --json`."""

    reports: tuple[ReportEntry, ...]


def list_reports() -> ReportList:
    """List all results, the newest last, including unreadable ones."""
    entries = []
    for path in (*reference_files(), *saved_reports()):
        own = path in saved_reports()
        try:
            report = load_report(path)
        except OwnlabError as exc:
            entries.append(ReportEntry(path.stem, str(path), not own, trouble=exc.message))
            continue
        entries.append(
            ReportEntry(
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
    return ReportList(tuple(entries))
