"""Outputs that users see, kept as files: read them as a newcomer would. `make golden` rewrites them."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

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


def test_generated_picture_of_the_readme() -> None:
    """The picture is a real diagnosis: of the facts of pytorch/pytorch#150733."""
    out = Console(file=io.StringIO(), record=True, width=116, highlight=False, force_terminal=True)
    out.print("$ ownlab doctor --from report.txt", style="dim")
    facts = load_machine(TESTS / "machines" / "rtx5090d.json")
    show_diagnosis(diagnose(case_of(facts)), out)
    drawn = out.export_svg(title="ownlab doctor", unique_id="doctor", font_aspect_ratio=0.61)
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    drawn = "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())
    path = TESTS.parent / "docs" / "images" / "doctor.svg"
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn)
    assert path.read_text() == drawn


def test_golden_page() -> None:
    out, sheet = paper()
    show_rule_page(find_rule("driver-old"), out)
    compare("explain-driver-old.txt", sheet.getvalue())
