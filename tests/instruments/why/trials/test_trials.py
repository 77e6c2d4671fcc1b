"""`ownlab why --try` on loops with planted causes: the remedy is measured to be faster, and shown as a change of the code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

LOOPS = Path(__file__).with_name("tried_loops.py")
TWO_CAUSES = LOOPS.with_name("two_causes.py")
# Also planted, but not for a busy machine: no_workers, no_workers_shuffled, collate_in_main, garbage_collection, many_threads,
# unfused_optimizer. By hand: ownlab why --try python tried_loops.py CAUSE


def tried(ownlab: Ownlab, *arguments: str) -> dict[str, Any]:
    # No compiler on PATH: torch.compile would take minutes.
    command = ("why", "--json", "--steps", "25", "--try", "--try-budget", "3600", *arguments)
    ran = ownlab(*command, env={"PATH": os.path.dirname(sys.executable)})
    assert ran.returncode == 0, ran.stderr
    explanation = json.loads(ran.stdout)
    assert isinstance(explanation, dict)
    return explanation


@pytest.mark.parametrize(
    ("loop", "groups", "line"),
    [
        ("no_workers_stream", ("workers-1",), "num_workers=1"),
        ("few_workers", ("workers-",), "num_workers="),
        ("workers_restarted", ("persistent-workers",), "persistent_workers=True"),
    ],
)
def test_the_planted_remedy_is_measured(
    ownlab: Ownlab,
    torch_python: str,
    valid: Callable[[str, str], Any],
    loop: str,
    groups: tuple[str, ...],
    line: str,
) -> None:
    explanation = tried(ownlab, torch_python, str(LOOPS), loop)
    valid(json.dumps(explanation), "why")
    trials = explanation["trials"]
    assert trials["isolated"]
    faster = [trial for trial in trials["trials"] if trial["status"] == "faster"]
    remedies = [trial for trial in faster if trial["code"].startswith(groups)]
    assert remedies, json.dumps(trials, indent=1)
    assert any(line in change["diff"] for trial in remedies for change in trial["changes"])
    assert all(change["file"] == str(LOOPS) for trial in remedies for change in trial["changes"])
    assert trials["sentence"].startswith("Measured: with ")


def test_the_best_changes_are_measured_together(ownlab: Ownlab, torch_python: str) -> None:
    trials = tried(ownlab, torch_python, str(TWO_CAUSES))["trials"]
    found = {trial["code"].partition("-")[0] for trial in trials["trials"] if trial["status"] == "faster"}
    assert {"workers", "no"} <= found, json.dumps(trials, indent=1)
    together = trials["together"]
    assert together["status"] == "faster"
    assert together["code"] == "together"
    assert "num_workers=" in together["changes"][0]["diff"] + together["changes"][-1]["diff"]
    assert together["step_ms"] < min(trial["step_ms"] for trial in trials["trials"])
    assert " and " in together["title"]
