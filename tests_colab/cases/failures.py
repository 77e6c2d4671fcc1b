"""Runs that fail, stop or end their runtime."""

from __future__ import annotations

from tests_colab.cases.case import Case, like

__all__ = ["CASES"]

CASES = (
    Case(
        "failing_cell",
        code=1,
        reason="^ZeroDivisionError: division by zero$",
        texts={"one": "before\n", "two": "ZeroDivisionError: division by zero\n"},
    ),
    Case(
        "stop_right_there",
        code=1,
        reason="^SystemExit: stopped$",
        texts={"check": like(r"no weights: add them, and run this again\nSystemExit: stopped\n.*")},
    ),
    Case(
        "exit_call",
        texts={"work": "before\n"},
    ),
    Case(
        "restart_idiom",
        code=1,
        reason=r"died \(signal 9\)",
        texts={
            "install": "restarting the runtime\n",
            "restart": "KernelDied: The cell ended its own kernel, with signal 9.\n",
        },
    ),
    Case(
        "unassign",
        downloads={"model.bin": "^weights$"},
        texts={"train": "trained for hours\n"},
    ),
)
