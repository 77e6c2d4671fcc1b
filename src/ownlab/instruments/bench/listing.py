"""The results that can be named: those that came with ownlab, and one's own."""

from __future__ import annotations

from msgspec import Struct

from ownlab.errors import OwnlabError
from ownlab.instruments.bench.compare import machine_of
from ownlab.instruments.bench.files import kept_reports, load_report, reference_files

__all__ = ["Listed", "ReportList", "list_reports"]


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
                machine_of(report),
                len(report.results),
                report.complete,
                report.source,
            )
        )
    return ReportList(tuple(listed))
