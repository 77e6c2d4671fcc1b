"""The doctor's verdict for the start page: `ownlab doctor` in a child process, since what it imports stays in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from ownlab.errors import LabError
from ownlab.json_encoding import decode_guest_json
from ownlab.lab.start_page.records import DoctorReport, ReportedFinding
from ownlab.text import text

__all__ = ["CheckedPython", "examine_machine"]

# Importing several frameworks from a cold disk is slow.
_SECONDS = 180.0
# Python searches the working folder first, which may belong to anybody.
# The report is shown in the language of the page that asks, whatever that will be.
_OWNLAB = """\
import sys
sys.path[:] = filter(None, sys.path)
from ownlab.json_encoding import keep_templates
keep_templates()
from ownlab.cli.main import main
main()
"""


class CheckedPython(NamedTuple):
    """An environment, and its interpreter."""

    environment: str
    python: str


class _Verdict(Struct, frozen=True):
    gpu_work: Literal["yes", "no", "unknown"]
    sentence: str


class _Diagnosis(Struct, frozen=True):
    """The part of `ownlab doctor --json` that the page shows."""

    verdict: _Verdict
    findings: tuple[ReportedFinding, ...]


def examine_machine(pythons: Iterable[CheckedPython]) -> DoctorReport:
    """Examine the machine with each Python until GPU work runs in one.

    Otherwise return the report of the first that has a framework, or of the first.
    """
    best: DoctorReport | None = None
    for each in pythons:
        report = _examine(each)
        if report.gpu_work == "yes":
            return report
        if best is None or (_lacks_framework(best) and not _lacks_framework(report)):
            best = report
    if best is None:
        raise LabError(text("There is no environment with which the machine could be examined."))
    return best


def _lacks_framework(report: DoctorReport) -> bool:
    return any(finding.code == "framework-absent" for finding in report.findings)


def _examine(checked: CheckedPython) -> DoctorReport:
    command = [sys.executable, "-c", _OWNLAB, "doctor", "--json", "--python", checked.python]
    environ = {name: value for name, value in os.environ.items() if name != "OWNLAB_PYTHON"}
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_SECONDS, env=environ
        )
        diagnosis: _Diagnosis = decode_guest_json(ran.stdout, _Diagnosis)
    except subprocess.TimeoutExpired as exc:
        raise LabError(
            text("The examination of this machine took longer than {seconds:g} s.", seconds=_SECONDS),
            hint=text("Run it in a terminal: ownlab doctor"),
        ) from exc
    except msgspec.DecodeError as exc:
        raise LabError(
            text("This machine could not be examined."), hint=text("Run it in a terminal: ownlab doctor")
        ) from exc
    return DoctorReport(
        gpu_work=diagnosis.verdict.gpu_work,
        sentence=diagnosis.verdict.sentence,
        environment=checked.environment,
        python=checked.python,
        checked_at=time.time(),
        findings=diagnosis.findings,
    )
