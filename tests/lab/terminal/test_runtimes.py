"""Runtimes in the terminal, compared with golden files; `make golden` rewrites them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from ownlab.lab.runtimes.records import CardShare, Snapshot, Usage, UsageLine
from ownlab.lab.terminal.runtimes import show_runtimes, show_usage

TESTS = Path(__file__).resolve().parents[2]
SNAPSHOTS = sorted(path.stem for path in (TESTS / "snapshots").glob("*.json"))
USAGE = Usage(
    2,
    (
        UsageLine("2026-W46", "ann", None, None, 30.5, 21.25, 106.2, 8.75),
        UsageLine("2026-W46", "ann", "deep/nets/resnet/train.ipynb", "Python 3 (½ × NVIDIA H200)", 22.0, 11.0, 55.0),
        UsageLine("2026-W46", "ann", "", "Python 3 (CPU)", 8.5, 0.0, 0.0),
        UsageLine("2026-W46", "bob", None, None, 2.0, 1.0, 5.0, 29.0),
        UsageLine("2026-W45", "bob", None, None, 1.0, 0.0, 0.0),
        UsageLine("2026-W45", "eve", None, None, 0.2, 0.01, 0.1, 0.5),
    ),
)


def paper(width: int = 80) -> tuple[Console, io.StringIO]:
    sheet = io.StringIO()
    return Console(file=sheet, width=width, highlight=False, color_system=None), sheet


def snapshot(name: str) -> Snapshot:
    return msgspec.json.decode((TESTS / "snapshots" / f"{name}.json").read_bytes(), type=Snapshot)


def compare(name: str, shown: str) -> None:
    path = TESTS / "golden" / name
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_golden_runtimes(name: str) -> None:
    out, sheet = paper()
    show_runtimes(snapshot(name), out)
    compare(f"runtimes-{name}.txt", sheet.getvalue())


def test_golden_usage() -> None:
    out, sheet = paper()
    show_usage(USAGE, out)
    compare("usage.txt", sheet.getvalue())


def test_no_usage() -> None:
    out, sheet = paper()
    show_usage(Usage(4, ()), out)
    assert sheet.getvalue() == "Nothing ran here in the last 4 weeks.\n"


@pytest.mark.parametrize("width", [80, 100, 132])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    out, sheet = paper(width)
    show_runtimes(snapshot(name), out)
    show_usage(USAGE, out)
    assert max(len(line) for line in sheet.getvalue().splitlines()) <= width


def test_lines_are_not_wrapped_in_a_pipe() -> None:
    out, sheet = paper(10_000)
    show_runtimes(snapshot("group"), out)
    lines = sheet.getvalue().splitlines()
    assert any("deep/nets/resnet/train.ipynb" in line and "85 GiB !" in line for line in lines)
    assert max(len(line) for line in lines) < 300


def test_cards_without_an_index_are_not_listed() -> None:
    snapshots = snapshot("group")
    gone = tuple(CardShare(f"GPU-{n}", None, "NVIDIA H200", 12) for n in range(2))
    held = msgspec.structs.replace(snapshots.runtimes[0], label="Python 3 (2 × NVIDIA H200)", cards=gone)
    out, sheet = paper(10_000)
    show_runtimes(msgspec.structs.replace(snapshots, runtimes=(held,)), out)
    assert sheet.getvalue().splitlines()[2] == "  3f2a91bc · ann · Python 3 (2 × NVIDIA H200)"
