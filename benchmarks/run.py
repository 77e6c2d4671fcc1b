"""Measures ownlab beside its peers in one run, and writes RESULTS.md.

Each pair is run in turn (ours, theirs, ours, theirs, …), so that whatever else the machine does falls on both. The ratio
of the medians is what counts; the times are of this machine alone. Results of each machine are kept in results/NAME.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.fit import fit_lines

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OWNLAB = [sys.executable, "-m", "ownlab"]
TRIVIAL = "import click\n@click.command()\ndef cli():\n    '''A trivial program.'''\ncli()\n"


# Group of pairs -> who measures it. Loaded when it is asked for: each needs libraries of its own.
GROUPS = {
    "cli": "",
    "lab": "benchmarks.lab:lab_rows",
    "cluster": "benchmarks.cluster:cluster_rows",
    "page": "benchmarks.page:page_rows",
    "journal": "benchmarks.journal:journal_rows",
    "cells": "benchmarks.cells:cells_rows",
    "edits": "benchmarks.edits:edits_rows",
    "runs": "benchmarks.runs:runs_rows",
    "forms": "benchmarks.forms:forms_rows",
    "top": "benchmarks.monitor:monitor_rows",
    "fit": "benchmarks.fit:fit_rows",
    "data": "benchmarks.data:data_rows",
    "data_disk": "benchmarks.data:data_disk_rows",
    "clocks": "benchmarks.clocks:clocks_rows",
    "data_get": "benchmarks.data_get:data_get_rows",
}


def seconds(command: list[str], env: dict[str, str]) -> float:
    """Wall time of a command whose outcome does not matter, only that it ran."""
    begin = time.perf_counter()
    ran = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    took = time.perf_counter() - begin
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{command} ended with {ran.returncode}:\n{ran.stderr}")
    return took


def measure(name: str, ours: list[str], theirs: list[str], *, rounds: int, limit: str) -> dict[str, Any]:
    """One pair: medians, spread, ratio."""
    env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH")}
    env |= {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    seconds(ours, env), seconds(theirs, env)  # caches warm for both
    pairs = [(seconds(ours, env), seconds(theirs, env)) for _ in range(rounds)]
    mine, other = ([pair[side] for pair in pairs] for side in (0, 1))
    row: dict[str, Any] = {"name": name, "limit": limit, "rounds": rounds}
    row |= {"ours": statistics.median(mine), "ours_low": min(mine), "ours_high": max(mine)}
    row |= {"theirs": statistics.median(other), "theirs_low": min(other), "theirs_high": max(other)}
    print(
        f"{name}: ours {row['ours']:.3f} s, theirs {row['theirs']:.3f} s, ratio {row['ours'] / row['theirs']:.2f}",
        flush=True,
    )
    return row


def describe_machine() -> str:
    """The machine, by our own reading of it."""
    from ownlab import read_machine
    from ownlab.instruments.doctor.queries import accelerators_of, name_cards
    from ownlab.machine.facts import value_of

    machine = read_machine()
    cards = name_cards(accelerators_of(machine)) or "no accelerator"
    cpu = machine.host.cpu
    return (
        f"{value_of(cpu.model)}, {value_of(cpu.usable_cores):g} cores, {cards}; "
        f"{value_of(machine.host.system)}, Python {platform.python_version()}"
    )


def span(row: dict[str, Any], side: str) -> str:
    """The median with its unit, and from where to where the rounds went."""
    middle = f"{row[side]:.3g} {row.get('unit', 's')}"
    return f"{middle} ({row[side + '_low']:.3g}–{row[side + '_high']:.3g})" if row["rounds"] > 1 else middle


def line_of(row: dict[str, Any]) -> str:
    """One line of the table."""
    ratio = row["ours"] / row["theirs"]
    digits = 3 if row["limit"].startswith("within") else 2
    return f"| {row['name']} | {span(row, 'ours')} | {span(row, 'theirs')} | {ratio:.{digits}f} | {row['limit']} |"


def write_results() -> None:
    """RESULTS.md from every machine's file."""
    lines = [
        "# Measured",
        "",
        "Written by `make bench`. Each pair was run in turn on the same machine; the ratio of the medians is what counts.",
    ]
    for path in sorted((HERE / "results").glob("*.json")):
        result = json.loads(path.read_text())
        lines += ["", f"## {result['machine']}"]
        for group in result["groups"].values():
            lines += [
                "",
                "; ".join(filter(None, (group["date"], group.get("note")))),
                "",
                "| what | ours | theirs | ratio | limit |",
                "|---|---|---|---|---|",
            ]
            lines += [line_of(row) for row in group["rows"]]
    lines += fit_lines()
    lines += survival_lines()
    # Written by hand: these runs cannot be repeated without the card.
    lines += ["", *(HERE / "why_first_look.md").read_text().splitlines()]
    (HERE / "RESULTS.md").write_text("\n".join(lines) + "\n")


def survival_lines() -> list[str]:
    """The kill matrix in Chromium beside other Jupyters, as `tests_survival.tally` has added it up."""
    record = json.loads((HERE / "survival.json").read_text())
    kinds = {
        "close": "tab closed",
        "reload": "reloaded",
        "cut": "network cut",
        "second": "second page",
        "away": "nobody there",
        "kill": "server killed",
    }
    lines = [
        "",
        "## What is lost when something is interrupted",
        "",
        f"{record['date']}, {record['machine']}. Random notebooks in Chromium, each run once undisturbed and once with one",
        "interruption (`python -m tests_survival.chromium`, `python -m tests_survival.peers`): in how many runs the notebook then",
        "lacked something, or had something twice. Ours also ask questions and show widgets; the others' would hang or lose those.",
        "",
        f"| | {' | '.join(kinds.values())} | all |",
        f"|---|{'---|' * (len(kinds) + 1)}",
    ]
    lines += system_lines(record, kinds) + (edits_lines(record["edits"]) if "edits" in record else [])
    lines += nodes_lines(record["nodes"]) if "nodes" in record else []
    return lines + (data_lines(record["data"]) if "data" in record else [])


def nodes_lines(record: dict[str, Any]) -> list[str]:
    """The kill matrix on nodes of a cluster, as `tests_survival.nodes.tally` has added it up."""
    words = {
        "server": "server killed", "line": "cable of a node pulled", "relay": "relay killed", "login": "server and relay killed at once",
        "controller": "slurmctld restarted", "slurmd": "slurmd killed", "power": "both nodes without power", "down": "the same, and marked down",
        "cut": "the same, with their cables pulled before", "cancel": "jobs cancelled",
    }  # fmt: skip
    happened = ", ".join(
        f"{word} {record['faults'][name]} ×" for name, word in words.items() if name in record["faults"]
    )
    runs, note = record["right"] + record["wrong"], f" {record['note']}" if record["note"] else ""
    about = f"{record['date']}, {record['machine']}. Random notebooks on the two nodes of a real Slurm, which are namespaces of this machine"
    how = "(`python -m tests_survival.nodes.matrix`), compared with an undisturbed run on this machine; those whose node or job ended, with"
    what = f"what was written there: {runs} runs, {record['wrong']} wrong. Beside what happened to their pages: {happened}.{note}"
    return ["", about, how, what]


def system_lines(record: dict[str, Any], kinds: Iterable[str]) -> list[str]:
    """One line for each system: in how many runs something was wrong."""
    lines = []
    for system, figures in record["systems"].items():
        counts = [(figures[kind]["wrong"], figures[kind]["right"] + figures[kind]["wrong"]) for kind in kinds]
        counts.append((sum(wrong for wrong, _ in counts), sum(runs for _, runs in counts)))
        lines.append(f"| {system} | {' | '.join(f'{wrong} of {runs}' for wrong, runs in counts)} |")
    return lines


def edits_lines(record: dict[str, Any]) -> list[str]:
    """The kill matrix of people who type, as `tests_survival.tally --edits` has added it up."""
    kinds = {
        "crash": "tab killed",
        "close": "tab closed",
        "cut": "network cut",
        "kill": "server killed",
        "second": "second page",
        "away": "nobody there",
    }
    protocol = record["protocol"]
    return [
        "",
        "## What is lost of the code when something is interrupted",
        "",
        f"{record['date']}, {record['machine']}. {record['note']}",
        "Random typing, inserting, moving, splitting, deleting and running of cells in Chromium, with one interruption",
        "(`python -m tests_survival.chromium --edits`, `… .peers VENV --edits`): in how many runs code was lost that was older than",
        "two seconds, code was there twice, or an output stood under other code. Of two pages that change the same lines at once, one",
        "loses: that counts as lost unless a page shows the text and the history has it. Runs that could not be judged are left out.",
        "",
        f"| | {' | '.join(kinds.values())} | all |",
        f"|---|{'---|' * (len(kinds) + 1)}",
        *system_lines(record, kinds),
        "",
        "Through the protocol, one or two people, and another program that changes the file (`python -m tests_survival.edits.matrix`):",
        f"wrong in {protocol['wrong']} of {protocol['right'] + protocol['wrong']} runs.",
    ]


def data_lines(record: dict[str, Any]) -> list[str]:
    """The kills of `ownlab data`, as `tests_survival.data.kills` prints them."""
    lines = [
        "",
        "## What is lost of data when a command is killed",
        "",
        f"{record['date']}, {record['machine']}. {record['note']}",
        "Each run kills the command at random moments with SIGKILL and starts it again until it ends by itself",
        "(`python -m tests_survival.data.kills get 200`): wrong is what is lost, there twice, left over, or not resumed.",
        "",
        "| command | runs | kills | wrong |",
        "|---|---|---|---|",
    ]
    for command, figures in record["commands"].items():
        lines.append(f"| `ownlab data {command}` | {figures['runs']} | {figures['kills']} | {figures['wrong']} |")
    return lines


def main() -> None:
    """Measure every pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="this-machine", help="name of the machine's result file")
    parser.add_argument(
        "--torch-python", default=str(ROOT / ".venv-torch/bin/python"), help="an interpreter with torch"
    )
    parser.add_argument("--plain-python", default=sys.executable, help="an interpreter without frameworks")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--only",
        choices=tuple(GROUPS),
        help="measure these alone, and keep the others' figures",
    )
    parser.add_argument("--note", default="", help="what to know about this run, such as other work on the machine")
    options = parser.parse_args()
    rows = {name: _rows_of(name, options) for name in GROUPS if options.only in (None, name)}
    target = HERE / "results" / f"{options.name}.json"
    target.parent.mkdir(exist_ok=True)
    before = json.loads(target.read_text())["groups"] if target.exists() else {}
    groups = {
        **before,
        **{
            name: {"date": date.today().isoformat(), "note": options.note, "rows": measured}
            for name, measured in rows.items()
            if measured
        },
    }
    result = {"machine": describe_machine(), "groups": groups}
    target.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    write_results()


def _rows_of(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    if not GROUPS[name]:
        return cli_rows(options)
    module, function = GROUPS[name].split(":")
    rows: list[dict[str, Any]] = getattr(importlib.import_module(module), function)(options.rounds)
    return rows


def cli_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The commands that look at a machine."""
    torch = options.torch_python
    collect_env = [torch, "-m", "torch.utils.collect_env"]
    import_torch = [torch, "-c", "import torch"]
    return [
        measure(
            "`ownlab --help` / a trivial click program's `--help`",
            [*OWNLAB, "--help"],
            [sys.executable, "-c", TRIVIAL, "--help"],
            rounds=options.rounds * 2,
            limit="2",
        ),
        measure(
            "`ownlab doctor`, no frameworks / `python -m torch.utils.collect_env`",
            [*OWNLAB, "doctor", "--python", options.plain_python],
            collect_env,
            rounds=options.rounds,
            limit="0.5",
        ),
        measure(
            "`ownlab doctor`, torch / `python -c 'import torch'`",
            [*OWNLAB, "doctor", "--python", torch],
            import_torch,
            rounds=options.rounds,
            limit="1.2, plus 0.5 s",
        ),
    ]


if __name__ == "__main__":
    main()
