"""`ownlab bench` on a real NVIDIA card, as a user runs it. The report is left in $OUT if that is set."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def ownlab(*arguments: str, home: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ownlab", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OWNLAB_HOME": home},
        timeout=300,
        check=False,
    )


def keep(path: Path) -> None:
    if os.environ.get("OUT"):
        shutil.copy(path, os.environ["OUT"])


def test_a_card_is_measured_judged_placed_and_compared() -> None:
    with tempfile.TemporaryDirectory() as home:
        first, second = (Path(home, name) for name in ("first.json", "second.json"))
        device = ("--only", "products,memory", "--python", sys.executable)
        ran = ownlab("bench", "--quick", *device, "--save", str(first), home=home)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "rank " in ran.stdout, ran.stdout
        sys.stdout.write(ran.stdout)
        keep(first)
        report: dict[str, Any] = json.loads(first.read_text())
        assert report["complete"]
        assert report["machine"]["cards"][0]["catalogue"], report["machine"]
        assert [each["name"] for each in report["results"] if each["verdict"] == "above-limit"] == []
        shares = {each["name"]: each["share_of_peak"] for each in report["results"] if each["share_of_peak"]}
        assert 0.6 < shares["matmul bf16 8192"] < 1, shares
        assert all(each["after"]["clock_mhz"] for each in report["results"] if each["group"] == "products")

        again = ownlab("bench", "--quick", *device, "--save", str(second), "--json", home=home)
        assert again.returncode == 0, again.stderr
        compared = ownlab("bench", "compare", str(first), str(second), "--json", home=home)
        rows = {row["name"]: row["cells"][1] for row in json.loads(compared.stdout)["rows"]}
        sys.stdout.write(f"bf16 8192, second run to first: {rows['matmul bf16 8192']['ratio']:.4f}\n")
        assert abs(rows["matmul bf16 8192"]["ratio"] - 1) < 0.015, rows
