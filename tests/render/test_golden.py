"""Outputs that users see, kept as files: read them as a newcomer would. `make golden` rewrites them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console
from tests.render import pictures

from ownlab.instruments.doctor.diagnosis import case_of, diagnose
from ownlab.instruments.doctor.rules import find_rule
from ownlab.instruments.doctor.terminal import show_diagnosis, show_rule_page
from ownlab.machine.machine_file import load_machine
from ownlab.machine.terminal import show_machine

TESTS = Path(__file__).resolve().parents[1]
MACHINES = sorted(path.stem for path in (TESTS / "machines").glob("*.json"))


def paper() -> tuple[Console, io.StringIO]:
    sheet = io.StringIO()
    return Console(file=sheet, width=100, highlight=False, color_system=None), sheet


def compare(name: str, shown: str) -> None:
    path = TESTS / "golden" / name
    shown = "".join(f"{line.rstrip()}\n" for line in shown.splitlines())
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize("name", MACHINES)
def test_golden_diagnosis(name: str) -> None:
    out, sheet = paper()
    show_diagnosis(diagnose(case_of(load_machine(TESTS / "machines" / f"{name}.json"))), out)
    compare(f"doctor-{name}.txt", sheet.getvalue())


@pytest.mark.parametrize("name", ["cpu", "h200"])
def test_golden_machine(name: str) -> None:
    out, sheet = paper()
    show_machine(load_machine(TESTS / "machines" / f"{name}.json"), out)
    compare(f"machine-{name}.txt", sheet.getvalue())


@pytest.mark.parametrize("name", pictures.NAMES)
def test_generated_picture(name: str) -> None:
    """The pictures of the README are real: a diagnosis and a run."""
    compare_picture(pictures.FOLDER / f"{name}.svg", pictures.draw(name))


def compare_picture(path: Path, drawn: str) -> None:
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.write_text(drawn, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == drawn


def test_golden_page() -> None:
    out, sheet = paper()
    show_rule_page(find_rule("driver-old"), out)
    compare("explain-driver-old.txt", sheet.getvalue())
