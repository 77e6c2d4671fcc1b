"""Adds up the results of browser runs for benchmarks/RESULTS.md: `python -m tests_survival.tally LOG…`."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from datetime import date
from pathlib import Path

from benchmarks.run import HERE, describe_machine, write_results
from tests_survival.browser import KINDS

__all__: list[str] = []

LINE = re.compile(rf"(?P<system>.+), seed (?P<seed>\d+), (?P<kind>{'|'.join(KINDS)}): (?P<word>right|wrong|not judged)")


def add_up(text: str) -> dict[str, dict[str, dict[str, int]]]:
    """System -> kind of interruption -> how many runs were right, wrong, or could not be judged."""
    last: dict[tuple[str, str], tuple[str, str]] = {}  # a repeated run counts once, with its last result
    for line in text.splitlines():
        if answer := LINE.match(line):
            last[answer["system"], answer["seed"]] = answer["kind"], answer["word"]
    found = Counter((system, kind, word) for (system, _), (kind, word) in last.items())
    systems = dict.fromkeys(system for system, _, _ in found)
    words = ("right", "wrong", "not judged")
    return {system: {kind: {word: found[system, kind, word] for word in words} for kind in KINDS} for system in systems}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path, nargs="+", help="the output of tests_survival.chromium and .peers")
    given = parser.parse_args()
    counted = add_up("\n".join(path.read_text(encoding="utf-8") for path in given.logs))
    record = {"date": date.today().isoformat(), "machine": describe_machine(), "systems": counted}
    (HERE / "survival.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    write_results()


if __name__ == "__main__":
    main()
