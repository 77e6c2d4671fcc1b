"""Explains what `%%why` and `ownlab.why` have measured in a kernel: `python -m ownlab.instruments.why.notebook FOLDER [FILE]`.

A kernel (`ownlab_guest.kernel.why`) without ownlab in its environment starts this module in another process, which prints one line of
JSON: the explanation as text, picture and record, or an error. Others call `explain_folder`.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import Any

import msgspec

from ownlab.errors import OwnlabError
from ownlab.instruments.why.collection import collect, save_evidence
from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.records import Explanation
from ownlab.json_encoding import encode_shown_json, error_to_builtins, to_typed_builtins
from ownlab.text import text

__all__ = ["explain_folder"]

_WIDTH = 100


def explain_folder(folder: str, save: str | None) -> dict[str, Any]:
    """Explain the evidence in a folder; keep it in a file if there is one."""
    _remember_cells(Path(folder) / "sources.json")
    evidence = collect(Path(folder), ["%%why"], None)
    explanation = explain(evidence)
    shown = _display(explanation)
    if save is not None:
        save_evidence(evidence, Path(save))
        shown["text"] += text("Evidence saved to {path}. Show it again: ownlab why {path}", path=save) + "\n"
    return {"record": to_typed_builtins(explanation), **shown}


def _remember_cells(path: Path) -> None:
    """Cells are no files: what the kernel knows of their code is put where Python looks for lines."""
    if path.exists():
        for name, code in msgspec.json.decode(path.read_bytes(), type=dict[str, str]).items():
            linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)


def _display(explanation: Explanation) -> dict[str, Any]:
    from ownlab.instruments.why.step_chart import step_chart
    from ownlab.instruments.why.terminal import show_explanation, show_lanes
    from ownlab.render.console import print_to_text

    drawn = any(lane.segments for lane in explanation.lanes)
    return {
        "text": print_to_text(lambda out: show_explanation(explanation, out, lanes=False), _WIDTH),
        "lanes": print_to_text(lambda out: show_lanes(explanation.lanes, out), _WIDTH) if drawn else "",
        "chart": step_chart(explanation) if drawn else None,
    }


def _serve(arguments: list[str]) -> None:
    try:
        answer = explain_folder(arguments[0], arguments[1] if len(arguments) > 1 else None)
    except OwnlabError as exc:
        answer = {"error": error_to_builtins(exc)}
    sys.stdout.buffer.write(encode_shown_json(answer) + b"\n")


if __name__ == "__main__":
    _serve(sys.argv[1:])
