"""Runs training loops with a planted cause, slow and fixed, and asks `ownlab why` about the slow one.

    python -m tests_gpu.why.run_loops [FOLDER …] --out OUT [--steps 40] [--only NAME …] [--at-once 2] [--try NAME …] [--overhead] [--budget SECONDS]

A loop is a file NAME.py with `CAUSES = ("code", …)`, the findings of which one must come first (none: nothing may cost 5 %).
`python NAME.py slow|fixed STEPS` trains, and prints a line of JSON: {"step_ms": …, "samples": …}. Loops that import `harness`
wait for each other where they use the card, so that several may be started at once.

OUT/loops.json says of each loop whether the right cause came first, and the predicted gain against the measured one;
OUT/evidence.tar.xz has the evidence of each.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOOPS = Path(__file__).with_name("loops")
# Causes in the machine, which are none of the loop's.
AMBIENT = {"busy-machine", "swapping", "cpu-limit", "throttled"}
SECONDS = 200
OVERHEAD = ("well_used_gpt2", "well_used_resnet")


def causes_of(path: Path) -> tuple[str, ...] | None:
    """The constant CAUSES of a loop, or None if the file is no loop."""
    for node in ast.parse(path.read_text()).body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == "CAUSES":
            return tuple(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return None


def loops_of(folders: list[Path]) -> list[Path]:
    """The loops of some folders."""
    return [path.resolve() for folder in folders for path in sorted(folder.glob("*.py")) if causes_of(path) is not None]


def run(
    command: list[str], folder: Path, **more: str
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str], float]:
    """Run a command beside the loop; return the last JSON object that a line of it has, and how long it took."""
    paths = [str(ROOT / "src"), str(ROOT / ".gpu-site"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": ":".join(filter(None, paths)), **more}
    began = time.monotonic()
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    lines = [line for line in (ran.stdout + "\n" + ran.stderr).splitlines() if line.startswith('{"step_ms"')]
    return (json.loads(lines[-1]) if lines else {}), ran, time.monotonic() - began


class Runner:
    """Measures loops, several at once."""

    def __init__(self, steps: int, evidence: Path, budget: float) -> None:
        self.steps, self.evidence = steps, evidence
        self.deadline = time.monotonic() + budget
        self.lock = str(evidence / "card-lock")

    def plain(self, path: Path, how: str) -> dict[str, Any]:
        """A loop without ownlab."""
        result, ran, seconds = run([sys.executable, path.name, how, str(self.steps)], path.parent, LOOP_LOCK=self.lock)
        return {**result, "seconds": seconds, **({} if result else {"error": ran.stderr[-800:]})}

    def why(self, path: Path, steps: int | None = None, name: str = "") -> dict[str, Any]:
        """The slow loop with ownlab: its explanation."""
        saved = self.evidence / f"{name or path.stem}.json"
        command = [sys.executable, "-m", "ownlab", "why", "--json", "--save", str(saved)]
        command += [] if steps else ["--steps", str(self.steps)]
        command += [sys.executable, path.name, "slow", str(steps or 10 * self.steps)]
        result, ran, seconds = run(command, path.parent, LOOP_LOCK=self.lock)
        try:
            explanation = json.loads(ran.stdout)
        except ValueError:
            return {"error": ran.stderr[-1500:] + ran.stdout[-300:], "seconds": seconds}
        return {"timing": result, "explanation": explanation, "seconds": seconds}

    def loop(self, path: Path) -> dict[str, Any]:
        """All of one loop."""
        if time.monotonic() > self.deadline:
            return {"loop": path.stem, "causes": causes_of(path), "right": False, "errors": ["no time was left"]}
        with ThreadPoolExecutor(3) as pool:
            slow, fixed = (pool.submit(self.guarded, self.plain, path, how) for how in ("slow", "fixed"))
            why = pool.submit(self.guarded, self.why, path)
            row = judged(path, slow.result(), fixed.result(), why.result())
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        return row

    def guarded(self, function: Any, *arguments: Any) -> dict[str, Any]:
        try:
            result: dict[str, Any] = function(*arguments)
        except Exception as exc:  # noqa: BLE001  # the other loops go on
            return {"error": repr(exc)[:500]}
        return result


def judged(path: Path, slow: dict[str, Any], fixed: dict[str, Any], why: dict[str, Any]) -> dict[str, Any]:
    """Compare what was said with what was planted and measured."""
    causes = causes_of(path) or ()
    explanation = why.get("explanation") or {}
    findings = [each for each in explanation.get("findings", ()) if each["code"] not in AMBIENT]
    large = [each for each in findings if each["share"] > 0.05]
    first = findings[0]["code"] if findings else None
    row: dict[str, Any] = {
        "loop": path.stem,
        "causes": causes,
        "first": first,
        "right": (first in causes) if causes else not large,
        "found": [[each["code"], each["share"], each["step_ms_after"]] for each in findings],
        "sentence": explanation.get("sentence"),
        "notes": explanation.get("notes"),
        "step": explanation.get("step"),
        "slow_ms": slow.get("step_ms"),
        "fixed_ms": fixed.get("step_ms"),
        "why_ms": (why.get("timing") or {}).get("step_ms"),
        "errors": [each["error"] for each in (slow, fixed, why) if "error" in each],
    }
    if slow.get("step_ms") and fixed.get("step_ms"):
        row["measured_gain"] = slow["step_ms"] / slow["samples"] * fixed["samples"] / fixed["step_ms"]
    chosen = next((each for each in findings if each["code"] in causes and each["step_ms_after"]), None)
    if chosen is not None and explanation.get("step"):
        row["predicted_gain"] = explanation["step"]["step_ms"] / max(1e-6, sum(chosen["step_ms_after"]) / 2)
        row["predicted_band"] = chosen["step_ms_after"]
        if "measured_gain" in row:
            row["within_25"] = abs(row["predicted_gain"] / row["measured_gain"] - 1) <= 0.25
            low, high = (explanation["step"]["step_ms"] / max(1e-6, ms) for ms in chosen["step_ms_after"][::-1])
            row["band_within_25"] = low / 1.25 <= row["measured_gain"] <= high * 1.25
    return row


def watched(runner: Runner, path: Path) -> dict[str, Any]:
    """A loop of 200 steps at which `ownlab why --pid` looks meanwhile."""
    ready = runner.evidence / "ready"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / '.gpu-site'}", "LOOP_READY": str(ready)}
    command = [sys.executable, path.name, "slow", "200"]
    with subprocess.Popen(command, cwd=path.parent, env=environment, stdout=subprocess.PIPE, text=True) as child:
        while not ready.exists() and child.poll() is None:
            time.sleep(0.1)
        look = [sys.executable, "-m", "ownlab", "why", "--pid", str(child.pid), "--seconds", "6", "--json"]
        looked = subprocess.run(look, env=environment, capture_output=True, text=True, timeout=60, check=False)
        out, _ = child.communicate(timeout=SECONDS)
    lines = [line for line in out.splitlines() if line.startswith('{"step_ms"')]
    said = json.loads(looked.stdout)["sentence"] if looked.returncode == 0 else looked.stderr[-500:]
    return {**(json.loads(lines[-1]) if lines else {}), "said": said}


def overhead(runner: Runner, rounds: int) -> list[dict[str, Any]]:
    """Loops of 200 steps with and without ownlab, one at a time: the time from the first step to the end is `loop_s`."""
    runner.steps = 200

    def one(name: str, how: str) -> dict[str, Any]:
        path = LOOPS / f"{name}.py"
        if how == "plain":
            found = runner.guarded(runner.plain, path, "slow")
        else:
            why = runner.guarded(runner.why, path, 200, f"overhead-{name}")
            found = {
                **(why.get("timing") or {}),
                "error": why.get("error"),
                "sentence": (why.get("explanation") or {}).get("sentence"),
            }
        row = {"loop": name, "how": how, **found}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        return row

    rows = []
    for _ in range(rounds):  # all import at once, and then wait for each other
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(one, name, how) for name in OVERHEAD for how in ("plain", "why")]
            rows += [job.result() for job in jobs]
    rows.append({"loop": OVERHEAD[0], "how": "pid", **runner.guarded(watched, runner, LOOPS / f"{OVERHEAD[0]}.py")})
    sys.stdout.write(json.dumps(rows[-1]) + "\n")
    return rows


def tried(path: Path, seconds: int) -> dict[str, Any]:
    """`ownlab why --try` on the slow loop."""
    command = [sys.executable, "-m", "ownlab", "why", "--try", "--try-budget", str(seconds), "--allow-writes", "--json"]
    _, ran, took = run([*command, sys.executable, path.name, "slow", "400"], path.parent)
    try:
        trials = json.loads(ran.stdout)["trials"]
    except (ValueError, KeyError):
        return {"loop": path.stem, "error": ran.stderr[-1500:] + ran.stdout[-500:], "seconds": took}
    return {"loop": path.stem, "causes": causes_of(path), "trials": trials, "seconds": took}


def framework(path: Path, evidence: Path) -> dict[str, Any]:
    """A script of a framework with ownlab: does it run to its end, and is its GPU measured?"""
    saved = evidence / f"framework-{path.stem}.json"
    command = [sys.executable, "-m", "ownlab", "why", "--json", "--save", str(saved), sys.executable, path.name]
    _, ran, seconds = run(command, path.parent)
    row: dict[str, Any] = {"script": path.stem, "code": ran.returncode, "seconds": seconds, "stderr": ran.stderr[-700:]}
    try:
        explanation = json.loads(ran.stdout)
        processes = json.loads(saved.read_text())["processes"]
    except (OSError, ValueError):
        return row
    return {
        **row,
        "sentence": explanation["sentence"],
        "found": [[each["code"], each["share"]] for each in explanation["findings"]],
        "notes": explanation["notes"],
        "processes": [
            {
                "steps": len(each["steps"]),
                "problems": each.get("problems"),
                "marked": len((each.get("gpu") or {}).get("steps", ())),
                "window": bool((each.get("gpu") or {}).get("window")),
            }
            for each in processes
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path, default=[LOOPS])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--try", dest="tried", nargs="*", default=[])
    parser.add_argument("--try-budget", type=int, default=60)
    parser.add_argument("--overhead", type=int, default=0, metavar="ROUNDS")
    parser.add_argument("--frameworks", action="store_true")
    parser.add_argument("--budget", type=float, default=1e9, help="no loop begins after so many seconds")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    evidence = Path(tempfile.mkdtemp(prefix="loops-"))
    runner = Runner(given.steps, evidence, given.budget)
    loops = loops_of(given.folders)
    loops = [path for path in loops if not given.only or path.stem in given.only]
    results: dict[str, Any] = {"loops": [], "overhead": [], "tried": []}

    def write() -> None:
        (given.out / "loops.json").write_text(json.dumps(results, indent=1))
        with tarfile.open(given.out / "evidence.tar.xz", "w:xz", preset=2) as archive:
            for path in sorted(evidence.glob("*.json")):
                archive.add(path, path.name)

    if given.overhead:
        results["overhead"] = overhead(runner, given.overhead)
        runner.steps = given.steps
        write()
    if not given.overhead or given.folders != [LOOPS]:
        with ThreadPoolExecutor(given.at_once) as pool:
            results["loops"] = list(pool.map(runner.loop, loops))
        write()
    if given.frameworks:
        with ThreadPoolExecutor(4) as pool:
            scripts = sorted(LOOPS.with_name("frameworks").glob("*.py"))
            results["frameworks"] = list(pool.map(lambda path: runner.guarded(framework, path, evidence), scripts))
        sys.stdout.write(json.dumps(results["frameworks"])[:4000] + "\n")
        write()
    for name in given.tried:
        try:
            path = next(path for path in loops_of(given.folders) if path.stem == name)
            results["tried"].append(tried(path, given.try_budget))
        except Exception as exc:  # noqa: BLE001  # the other loops go on
            results["tried"].append({"loop": name, "error": repr(exc)[:500]})
        sys.stdout.write(json.dumps(results["tried"][-1])[:3000] + "\n")
        write()
    rows = results["loops"]
    sys.stdout.write(
        f"right {sum(row['right'] for row in rows)} of {len(rows)}; within 25 %: "
        f"{sum(row.get('within_25', False) for row in rows)} of {sum('within_25' in row for row in rows)}\n"
    )


if __name__ == "__main__":
    main()
