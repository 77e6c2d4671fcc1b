"""The memory of recurrent layers besides their tensors: `recurrent_errors.py LAUNCH.py RECORDED.json` prints the errors of our predictions as JSON.

Read by the interpreter that has torch; it needs no card.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def matrices_of(row: dict[str, Any], gates: int) -> int:
    """Numbers in the weights, without biases."""
    answer = row["hidden"] * row["directions"]
    wide = [row["inputs"]] + [answer] * (row["layers"] - 1)
    return sum(row["directions"] * gates * row["hidden"] * (inputs + row["hidden"]) for inputs in wide)


def main(launch: str, recorded: str) -> None:
    """Each shape that was measured."""
    importlib.import_module("guest_import").register_guest(launch)
    recurrent = importlib.import_module("ownlab_guest.fit.recurrent_layers")
    kinds = {"LSTM": recurrent.LSTM, "GRU": recurrent.GRU, "RNN": recurrent.RNN}
    answer = json.loads(Path(recorded).read_text())
    off = []
    for values in answer["rows"]:
        row = dict(zip(answer["columns"], values, strict=True))
        kind, size = kinds[row["kind"]], 4 if row["dtype"] == "float32" else 2
        shape = recurrent.Shape(
            kind,
            row["steps"] * row["sequences"],
            row["sequences"],
            row["inputs"],
            row["hidden"],
            row["hidden"],
            row["layers"],
            row["directions"],
            row["dropout"] > 0,
            size,
        )
        off.append(shape.workspace_bytes(matrices_of(row, kind.gates) * size) / row["workspace"] - 1)
    sys.stdout.write(json.dumps(off))


if __name__ == "__main__":
    main(*sys.argv[1:])
