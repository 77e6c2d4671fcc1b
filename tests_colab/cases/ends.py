"""How runs end."""

from __future__ import annotations

from tests_colab.cases.case import Case, like

__all__ = ["CASES"]

CASES = (
    Case(
        "failing_cell",
        code=1,
        reason="^ZeroDivisionError: division by zero$",
        says={"one": "before\n", "two": "ZeroDivisionError: division by zero\n"},
    ),
    Case(
        "stop_right_there",
        code=1,
        reason="^SystemExit: stopped$",
        says={"check": like(r"no weights: add them, and run this again\nSystemExit: stopped\n.*")},
    ),
    Case(
        "exit_call",
        says={"work": "before\n"},
    ),
    Case("restart_idiom", code=1, reason=r"died \(signal 9\)", says={"install": "restarting the runtime\n"}),
    Case(
        "unassign",
        downloads={"model.bin": "^weights$"},
        says={"train": "trained for hours\n"},
    ),
)
