"""Small traces, as a guest answers them."""

from __future__ import annotations

from ownlab.instruments.fit.records import Events, Flops, Kind, Parameters, Phase, Tag, Trace
from ownlab.units import MIB

__all__ = ["Writer", "a_trace"]


class Writer:
    """Writes events by name, so that a test reads as a program does."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []
        self.tags: list[Tag] = []
        self.marks: list[int] = []
        self._living: dict[str, tuple[int, int]] = {}

    def come(self, name: str, size: int, kind: Kind, phase: Phase = "forward", module: str = "", op: str = "") -> None:
        """A storage of this name appears."""
        tag = Tag(kind, phase, module, op)
        if tag not in self.tags:
            self.tags.append(tag)
        number = len(self.rows)
        self._living[name] = (number, self.tags.index(tag))
        self.rows.append((number, size, self.tags.index(tag)))

    def go(self, *names: str) -> None:
        """They go, in this order."""
        for name in names:
            number, tag = self._living.pop(name)
            self.rows.append((number, -1, tag))

    def trace(self, batch: int | None = None) -> Trace:
        """All of it."""
        names, sizes, tags = zip(*self.rows, strict=True)
        return Trace(
            Parameters(50 * MIB, 50 * MIB, 0, 0),
            Flops(2 * 10**12, 4 * 10**12),
            Events(names, sizes, tags),
            tuple(self.tags),
            tuple(self.marks),
            ("a number that depends on the data is taken to be 1",),
            "2.13.0+cpu",
            batch,
        )


def a_trace(batch: int = 8, steps: int = 3) -> Trace:
    """Two layers with Adam: 200 MiB of weights, activations of 40 MiB for each sample and layer."""
    writer = Writer()
    for layer in (0, 1):
        writer.come(f"weight{layer}", 100 * MIB, "weights", "setup", f"layers.{layer}")
    writer.come("input", batch * 1 * MIB, "inputs", "setup")
    for step in range(steps):
        for layer in (0, 1):
            place = f"layers.{layer}"
            writer.come(f"out{layer}", batch * 40 * MIB, "activations", "forward", place, "aten.addmm")
            writer.come("workspace", 32 * MIB, "workspace", "forward", place, "aten.addmm")
            writer.go("workspace")
        for layer in (1, 0):
            place = f"layers.{layer}"
            writer.come(f"gradient{layer}", 100 * MIB, "gradients", "backward", place, "aten.mm")
            writer.come("error", batch * 40 * MIB, "temporary", "backward", place, "aten.mm")
            writer.go("error", f"out{layer}")
        for layer in (0, 1):
            if step == 0:
                for moment in ("first", "second"):
                    writer.come(f"{moment}{layer}", 100 * MIB, "optimizer", "optimizer", f"layers.{layer}")
            writer.come("update", 100 * MIB, "temporary", "optimizer", f"layers.{layer}", "aten._foreach_mul")
            writer.go("update", f"gradient{layer}")
        writer.marks.append(len(writer.rows))
    return writer.trace(batch)
