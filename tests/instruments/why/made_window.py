"""A trace of three steps as torch's profiler writes it: operators, launches and kernels that belong together by their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAIN, ENGINE = 100, 101


class MadeWindow:
    """Events, in microseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._number = 0

    def annotation(self, name: str, begin: float, duration: float, thread: int = MAIN) -> MadeWindow:
        self._add("user_annotation", name, begin, duration, thread, {"External id": self._next()})
        return self

    def launch(
        self, op: str, kernel: str, begin: float, gpu_begin: float, gpu_us: float, *, thread: int = MAIN, **details: Any
    ) -> MadeWindow:
        """An operator, the launch within it, and its kernel."""
        external, correlation = self._next(), self._next()
        self._add(
            "cpu_op", op, begin, 8, thread,
            {"External id": external, "Input type": details.get("types", []), "Input Dims": details.get("shapes", [])},
        )  # fmt: skip
        self._add("cuda_runtime", "cudaLaunchKernel", begin + 2, 5, thread, {"correlation": correlation})
        self._add(
            "kernel", kernel, gpu_begin, gpu_us, 7,
            {"External id": external, "correlation": correlation, "device": 0, "blocks per SM": details.get("blocks", 4.0)},
        )  # fmt: skip
        return self

    def runtime(self, name: str, begin: float, duration: float) -> MadeWindow:
        self._add("cuda_runtime", name, begin, duration, MAIN, {"correlation": self._next()})
        return self

    def operator(self, name: str, begin: float, duration: float) -> MadeWindow:
        self._add("cpu_op", name, begin, duration, MAIN, {"External id": self._next()})
        return self

    def copy(self, kind: str, begin: float, duration: float, size: int) -> MadeWindow:
        self._add("gpu_memcpy", f"Memcpy {kind}", begin, duration, 7, {"device": 0, "bytes": size})
        return self

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _add(self, kind: str, name: str, begin: float, duration: float, thread: int, details: Any) -> None:
        self.events.append(
            {
                "ph": "X",
                "cat": kind,
                "name": name,
                "pid": 1,
                "tid": thread,
                "ts": begin,
                "dur": duration,
                "args": details,
            }
        )

    def write(self, folder: Path) -> str:
        path = folder / "trace-1.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
        return str(path)


def three_steps() -> MadeWindow:
    """Each: a copy, a forward product, its gradient in the engine's thread, a wait, and two kernels of the optimizer."""
    made = MadeWindow()
    for number in range(3):
        at = 1000.0 * number
        made.copy("HtoD (Pageable -> Device)", at + 10, 90, 1_000_000)
        made.launch("aten::mm", "sgemm", at + 100, at + 110, 200, types=["float", "float"], shapes=[[64, 32], [32, 16]])
        made.annotation("autograd::engine::evaluate_function: MmBackward0", at + 150, 20, ENGINE)
        made.launch(
            "aten::mm", "sgemm", at + 155, at + 310, 300, thread=ENGINE, types=["float"], shapes=[[32, 64]], blocks=0.5
        )
        made.runtime("cudaStreamSynchronize", at + 200, 412)
        made.annotation("Optimizer.step#AdamW.step", at + 650, 100)
        made.launch("aten::mul_", "elementwise", at + 660, at + 700, 5)
        made.launch("aten::add_", "elementwise", at + 670, at + 710, 5)
    return made
