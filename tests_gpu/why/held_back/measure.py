"""Measures the training loops of this or another folder, as they are and with their change, without ownlab.

    python3 tests_gpu/why/held_back/measure.py [--folder OTHER] [--steps 80] [--repeats 2] [--only case_03 …] [--earlier FILE] [--output FILE]

Each script prints `STEP_MS <number>` as its last line: the median over windows of steps of the wall time per step,
the device awaited at the end of each window only. The two versions of a script take turns. `--preload` starts the
scripts from a process that has imported torch already, which saves some seconds for each of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import runpy
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MISSING = 127  # exit status of a run that was stopped


def changed(script: str, difference: str) -> str:
    """The script with a unified difference applied; every line of context must be where the difference says."""
    lines, result, position = script.splitlines(keepends=True), list[str](), 0
    for line in difference.splitlines(keepends=True):
        if line.startswith(("--- ", "+++ ")):
            continue
        header = re.match(r"@@ -(\d+)(?:,(\d+))? \+", line)
        if header:
            start = int(header[1]) - (0 if header[2] == "0" else 1)
            result += lines[position:start]
            position = start
        elif line[0] == "+":
            result.append(line[1:])
        elif line[0] in " -":
            if lines[position] != line[1:]:
                raise ValueError(f"line {position + 1} is {lines[position]!r}, not {line[1:]!r}")
            if line[0] == " ":
                result.append(line[1:])
            position += 1
    return "".join(result + lines[position:])


def run_forked(script: Path, arguments: list[str], log: Path) -> int:
    """Process id of a copy of this process that runs the script."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.argv = [str(script), *arguments]
        runpy.run_path(str(script), run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - the copy must end here, whatever the script raises
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run_started(script: Path, arguments: list[str], log: Path) -> int:
    """Process id of a new Python that runs the script."""
    with log.open("w") as handle:
        command = [sys.executable, str(script), *arguments]
        return subprocess.Popen(command, stdout=handle, stderr=handle, start_new_session=True).pid


def wait(child: int, seconds: float) -> int:
    """Exit status of the process; it and its children are killed when the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return MISSING


def run(script: Path, options: argparse.Namespace, log: Path) -> dict[str, Any]:
    """One run: its status, its wall time, its time per step, and the end of its output when it has none."""
    arguments = ["--steps", str(options.steps), *(["--tiny"] if options.tiny else [])]
    start = run_forked if options.preload else run_started
    began = time.monotonic()
    status = wait(start(script, arguments, log), options.limit)
    record: dict[str, Any] = {"status": status, "seconds": round(time.monotonic() - began, 2)}
    output = log.read_text(errors="replace")
    last = output.strip().rpartition("\n")[2]
    if status == 0 and last.startswith("STEP_MS "):
        record["step_ms"] = float(last.split()[1])
    else:
        record["output"] = output[-1500:]
    return record


def versions(entry: dict[str, Any], cases: Path, out: Path) -> dict[str, Path]:
    """The script, and its changed version written into a folder."""
    script = cases / entry["file"]
    if "diff" not in entry:
        return {"slow": script}
    fixed = out / script.name
    fixed.write_text(changed(script.read_text(), (cases / entry["diff"]).read_text()))
    return {"slow": script, "fixed": fixed}


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The median time per step of each version, and the gain."""
    result: dict[str, Any] = {"runs": runs}
    for version, records in runs.items():
        times = [record["step_ms"] for record in records if "step_ms" in record]
        if times:
            result[version] = round(statistics.median(times), 3)
    if "slow" in result and "fixed" in result:
        result["gain"] = round(result["slow"] / result["fixed"], 3)
    return result


def environment() -> dict[str, Any]:
    """What the figures were measured on; asked in a process of its own, so that none is forked from one that uses the card."""
    question = (
        "import json, os, torch; print(json.dumps({'torch': torch.__version__, 'cores': os.cpu_count(), "
        "'card': torch.cuda.get_device_name(0) if torch.cuda.is_available() else None}))"
    )
    answer = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True).stdout
    facts: dict[str, Any] = json.loads(answer)
    return {**facts, "python": platform.python_version()}


def measure(entries: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Runs every script; what was measured so far is written after each."""
    began = time.monotonic()
    results: dict[str, Any] = {"environment": environment(), "steps": options.steps, "loops": {}}
    earlier = json.loads(options.earlier.read_text())["loops"] if options.earlier else {}
    with tempfile.TemporaryDirectory() as temporary:
        for entry in entries:
            name = Path(entry["file"]).stem
            if "gain" in earlier.get(name, {}) or ("diff" not in entry and "slow" in earlier.get(name, {})):
                results["loops"][name] = earlier[name]
                continue
            scripts = versions(entry, options.folder / "cases", Path(temporary))
            runs: dict[str, list[dict[str, Any]]] = {version: [] for version in scripts}
            for _ in range(options.repeats):
                for version, script in scripts.items():
                    if time.monotonic() - began < options.budget:
                        runs[version].append(run(script, options, Path(temporary) / "log"))
            found = summary(runs)
            results["loops"][name] = found
            ended = [(record["status"], record["seconds"]) for records in runs.values() for record in records]
            figures = {key: found[key] for key in ("slow", "fixed", "gain") if key in found}
            sys.stdout.write(f"{name} {figures} {ended}\n")
            sys.stdout.flush()
            options.output.write_text(json.dumps(results, indent=1) + "\n")
    return results


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE, help="the folder with cases.json and cases/")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60, help="seconds for one run")
    parser.add_argument("--budget", type=float, default=3600, help="seconds after which no run is started")
    parser.add_argument("--earlier", type=Path, help="a result whose complete loops are kept and not measured again")
    parser.add_argument("--only", nargs="*", help="names of scripts, such as case_03")
    parser.add_argument("--output", type=Path, help="measured.json of the folder")
    parser.add_argument("--preload", action="store_true", help="fork the runs from a process with torch")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the scripts on a CPU")
    options = parser.parse_args()
    options.output = options.output or options.folder / "measured.json"
    return options


def main() -> int:
    options = parse()
    described = json.loads((options.folder / "cases.json").read_text())
    entries = list(described["planted"] + described["tuned"])
    if options.only:
        entries = [entry for entry in entries if Path(entry["file"]).stem in options.only]
    if options.preload:
        for library in ("numpy", "torch"):
            importlib.import_module(library)
    results = measure(entries, options)
    return 0 if all(entry.get("slow") for entry in results["loops"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
