"""Compares two runs of one notebook, after normalising what may differ."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from tests_survival.outputs import OutputList

__all__ = ["Shown", "differences", "shown", "unlike", "widget_states"]

# A widget's id, a temporary file of ipykernel's, an object's address.
IDS = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})(?![0-9a-f])")
PLACES = re.compile(r"ipykernel_\d+/\d+\.py|0x[0-9a-f]{6,}")
TIMES = (
    "iopub.status.busy", "iopub.execute_input", "shell.execute_reply.started", "shell.execute_reply", "iopub.status.idle",
)  # fmt: skip

Shown = list[dict[str, Any]]


def shown(notebook: dict[str, Any]) -> Shown:
    """Return what a user sees of each code cell, without ids and times."""
    known: dict[str, str] = {}
    cells: Shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        outputs = [_text_joined(output) for output in cell["outputs"]]
        seen = {
            "count": cell["execution_count"],
            "outputs": outputs,
            "times": _times(cell["metadata"].get("execution")),
        }
        cells.append({"id": cell["id"], **json.loads(_without_ids(json.dumps(seen, ensure_ascii=False), known))})
    return cells


def widget_states(states: dict[str, dict[str, Any]]) -> list[str]:
    """The state of each widget, in an order that does not depend on ids."""
    kept = [
        {key: value for key, value in state.items() if key != "msg_id" and value is not None}
        for state in states.values()
    ]
    for state in kept:
        state["outputs"] = _drawn(state.get("outputs") or [])
    return sorted(IDS.sub("ID", json.dumps(state, sort_keys=True, ensure_ascii=False)) for state in kept)


def _drawn(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what an Output shows: adjacent streams look like one."""
    area = OutputList()
    area.load([_text_joined(output) for output in outputs])
    return area.as_json()


def unlike(expected: list[str], found: list[str]) -> list[str]:
    """Report widgets that are in only one of the lists."""
    wrong = [f"a widget is missing: {widget}" for widget in expected if expected.count(widget) > found.count(widget)]
    return wrong + [f"a widget is wrong: {widget}" for widget in found if found.count(widget) > expected.count(widget)]


def _text_joined(output: dict[str, Any]) -> dict[str, Any]:
    """A file may have lists of lines where a page has a single text."""
    made = {key: value for key, value in output.items() if key != "transient"}
    if isinstance(made.get("text"), list):
        made["text"] = "".join(made["text"])
    if isinstance(made.get("data"), dict):
        made["data"] = {mime: _joined(value) for mime, value in made["data"].items()}
    return made


def _joined(value: Any) -> Any:
    lines = isinstance(value, list) and value and all(isinstance(line, str) for line in value)
    return "".join(value) if lines else value


def _times(execution: dict[str, str] | None) -> list[str] | str:
    """Which timestamps there are; or what is wrong with them."""
    times = {name: moment for name, moment in (execution or {}).items() if name != "ownlab.person"}  # who ran it
    if not times:
        return []
    first, last = times.get(TIMES[0], ""), times.get(TIMES[-1], "9")
    in_order = all(first <= moment <= last for moment in times.values())
    return sorted(times) if in_order else f"not in order: {times}"


def _without_ids(text: str, known: dict[str, str]) -> str:
    text = PLACES.sub("PLACE", text)
    return IDS.sub(lambda match: known.setdefault(match[0], f"id-{len(known)}"), text)


def differences(expected: Shown, found: Shown) -> list[str]:
    """One paragraph for each cell that differs."""
    if [cell["id"] for cell in expected] != [cell["id"] for cell in found]:
        return ["the cells themselves differ"]
    return [
        f"{wanted['id']}:\n{_diff(wanted, shown)}"
        for wanted, shown in zip(expected, found, strict=True)
        if wanted != shown
    ]


def _diff(expected: dict[str, Any], found: dict[str, Any]) -> str:
    expected_lines, found_lines = (
        json.dumps(cell, indent=1, sort_keys=True, ensure_ascii=False).replace("\\n", "\\n\n").splitlines()
        for cell in (expected, found)
    )
    changed = list(difflib.unified_diff(expected_lines, found_lines, "expected", "found", lineterm="", n=1))
    return "\n".join(changed[:40]) + (f"\n… {len(changed) - 40} lines more" if len(changed) > 40 else "")
