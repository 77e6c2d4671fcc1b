"""Asks `ownlab why` about each held-back loop, keeps the evidence, and measures the changed versions of those that MEASURED lacks.

python3 tests_gpu/why/held_back/collect.py OUT [--folder OTHER] [--measured measured.json] [--steps 30] [--budget SECONDS]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
import measure  # noqa: E402  # beside this file


def explain(script: Path, options: argparse.Namespace, evidence: Path, limit: float) -> dict[str, Any]:
    """Run a loop under `ownlab why`; return what it printed and how long a step took."""
    paths = [str(ROOT / "src"), str(ROOT / ".gpu-site"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, paths))}
    arguments = ["--steps", str(options.steps), *(["--tiny"] if options.tiny else [])]
    command = ["timeout", str(limit), sys.executable, "-m", "ownlab", "why", "--save", str(evidence), "--json"]
    began = time.monotonic()
    ran = subprocess.run(
        [*command, sys.executable, str(script), *arguments],
        cwd=script.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ran.stderr.splitlines() if line.startswith("STEP_MS ")]
    record: dict[str, Any] = {"code": ran.returncode, "seconds": round(time.monotonic() - began, 1)}
    if lines:
        record["step_ms"] = float(lines[-1].split()[1])
    record["stderr"] = "\n".join(ran.stderr.splitlines()[-25:])
    try:
        record["document"] = json.loads(ran.stdout)
    except ValueError:
        record["stdout"] = ran.stdout[-1000:]
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--measured", type=Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--budget", type=float, default=3600)
    parser.add_argument("--limit", type=float, default=40)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    ends = time.monotonic() + options.budget
    known = json.loads(options.measured.read_text())["loops"] if options.measured else {}
    cases = json.loads((options.folder / "cases.json").read_text())
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        evidence = Path(folder, "evidence")
        evidence.mkdir()
        for entry in [*cases["planted"], *cases["tuned"]]:
            name = Path(entry["file"]).stem
            if options.only and name not in options.only:
                continue
            found = results[name] = dict(known.get(name, {}))
            found.pop("runs", None)
            if ends - time.monotonic() < 12:
                found["left_out"] = "no time left"
                continue
            scripts = measure.versions(entry, options.folder / "cases", Path(folder))
            found["why"] = explain(
                scripts["slow"], options, evidence / f"{name}.json", min(options.limit, ends - time.monotonic())
            )
            if "fixed" in scripts and "fixed" not in found:
                asked = argparse.Namespace(steps=options.steps, tiny=options.tiny, preload=False, limit=25)
                found["fixed"] = measure.run(scripts["fixed"], asked, Path(folder, "log")).get("step_ms")
            sys.stdout.write(
                f"{name} {found.get('slow')} {found.get('fixed')} {found['why'].get('step_ms')} {found['why']['code']} {found['why']['seconds']}\n"
            )
            sys.stdout.flush()
            (options.out / "collected.json").write_text(json.dumps(results))
        with tarfile.open(options.out / "evidence.tar.xz", "w:xz") as archive:
            archive.add(evidence, "evidence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
