"""Traces of a GPU, made in the format of torch.profiler (Kineto's ChromeTraceBaseTime): not recorded on a card. Times in microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STEP_US = 100_000


class MadeTrace:
    """Events of some steps, of 100 ms each."""

    def __init__(self, steps: int = 10) -> None:
        self.steps = steps
        self.events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}
        ]
        for number in range(steps):
            self._add("user_annotation", f"ProfilerStep#{number}", number * STEP_US, STEP_US, 1)

    def host(self, kind: str, name: str, begin: float, duration: float) -> MadeTrace:
        """The same event of the host in each step."""
        for number in range(self.steps):
            self._add(kind, name, number * STEP_US + begin, duration, 1)
        return self

    def gpu(self, name: str, begin: float, duration: float, kind: str = "kernel", **details: Any) -> MadeTrace:
        """The same work of the GPU in each step."""
        for number in range(self.steps):
            self._add(kind, name, number * STEP_US + begin, duration, 7, {"device": 0, "stream": 7, **details})
        return self

    def _add(self, kind: str, name: str, begin: float, duration: float, thread: int, details: Any = None) -> None:
        event = {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": duration}
        self.events.append(event if details is None else {**event, "args": details})

    def text(self) -> str:
        return json.dumps(
            {
                "schemaVersion": 1,
                "deviceProperties": [{"name": "made"}],
                "traceEvents": self.events,
                "traceName": "made.json",
            }
        )

    def write(self, folder: Path) -> str:
        path = folder / "made.json"
        path.write_text(self.text())
        return str(path)


def waits_for_data(steps: int = 10) -> MadeTrace:
    """The host waits 60 ms for its workers; then 20 ms of operators, during which the GPU works 30 ms."""
    made = MadeTrace(steps).host(
        "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 60_000
    )
    made.host("cpu_op", "aten::conv2d", 60_000, 10_000).host(
        "cpu_op", "autograd::engine::evaluate_function: ConvBackward", 70_000, 10_000
    )
    return made.host("user_annotation", "Optimizer.step#AdamW.step", 80_000, 10_000).gpu("sm90_conv", 65_000, 30_000)
