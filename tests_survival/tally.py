"""Adds up the results of browser runs for benchmarks/RESULTS.md: `python -m tests_survival.tally LOG…`."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.run import HERE, describe_machine, write_results
from tests_survival import browser
from tests_survival.edits import browser as edits

__all__: list[str] = []

LINE = re.compile(r"(?P<system>.+), seed (?P<seed>\d+), (?P<kind>\w+): (?P<word>right|wrong|not judged)")
PROTOCOL = re.compile(r"seed (?P<seed>\d+): (?P<word>right|wrong), ")


def add_up(text: str, kinds: Sequence[str]) -> dict[str, dict[str, dict[str, int]]]:
    """System -> kind of interruption -> how many runs were right, wrong, or could not be judged."""
    last: dict[tuple[str, str], tuple[str, str]] = {}  # a repeated run counts once, with its last result
    for line in text.splitlines():
        if answer := LINE.match(line):
            last[answer["system"], answer["seed"]] = answer["kind"], answer["word"]
    counts = Counter((system, kind, word) for (system, _), (kind, word) in last.items())
    systems = dict.fromkeys(system for system, _, _ in counts)
    words = ("right", "wrong", "not judged")
    return {
        system: {kind: {word: counts[system, kind, word] for word in words} for kind in kinds} for system in systems
    }


def protocol_runs(text: str) -> dict[str, int]:
    """How many runs through the protocol were right or wrong; a repeated one counts once, with its last result."""
    last = {answer["seed"]: answer["word"] for line in text.splitlines() if (answer := PROTOCOL.match(line))}
    counts = Counter(last.values())
    return {word: counts[word] for word in ("right", "wrong")}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path, nargs="+", help="the output of tests_survival.chromium and .peers")
    parser.add_argument(
        "--edits", action="store_true", help="of the runs with edits, and of tests_survival.edits.matrix"
    )
    parser.add_argument("--note", default="", help="what to know about these runs")
    given = parser.parse_args()
    text = "\n".join(path.read_text(encoding="utf-8") for path in given.logs)
    record: dict[str, Any] = {"date": date.today().isoformat(), "machine": describe_machine(), "note": given.note}
    file = HERE / "survival.json"
    kept = json.loads(file.read_text(encoding="utf-8"))
    if given.edits:
        record |= {"systems": add_up(text, edits.KINDS), "protocol": protocol_runs(text)}
        written = {**kept, "edits": record}
    else:
        written = {**kept, **record, "systems": add_up(text, browser.KINDS)}
    file.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    write_results()


if __name__ == "__main__":
    main()
