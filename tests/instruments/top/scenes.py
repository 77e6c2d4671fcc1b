"""Invented samples with values measured on an H200, always the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ownlab.instruments.top.records import (
    CardProcess,
    CardSample,
    HostSample,
    Owner,
    ProcessSample,
    Sample,
    Saturation,
)
from ownlab.instruments.top.source import StreamEnded

GIB = 1024**3
BEGAN = 1_700_000_000.0


def card(index: int = 0, *, kind: str = "product", at: int = 0, processes: Sequence[CardProcess] = ()) -> CardSample:
    """Return a card: "product" fills it, "small" does not, "idle" is idle, "old" has no GPM."""
    swing = 3 * math.sin(at / 3)
    busy, sm, tensor, dram, power = {
        "product": (100, 96 + swing / 3, 93 + swing / 2, 17 + swing, 612),
        "small": (99, 0.75, 0, 0.1, 142),
        "idle": (0, 0, 0, 0, 76),
        "old": (98, 0, 0, 0, 240),
    }[kind]
    saturation = Saturation(busy, sm, 60 if kind == "product" else 0.01, tensor, dram, 2, 0, 1, 0, 0, 0)
    return CardSample(
        uuid=f"GPU-{index:08d}",
        index=index,
        name="NVIDIA H200" if kind != "old" else "NVIDIA GeForce GTX 1080 Ti",
        memory_total=141 * GIB,
        memory_used=int((12.3 if kind != "idle" else 0.4) * GIB),
        utilisation=busy,
        power=power,
        power_limit=700,
        temperature=54,
        clock_sm=1980,
        clock_sm_max=1980,
        pstate=0,
        throttle=(),
        pcie_sent=2.1 * GIB,
        pcie_received=120 * 1024,
        pcie_generation=5,
        pcie_width=16,
        saturation=None if kind == "old" else saturation,
        no_saturation="this card does not measure it (GPM: data-centre cards of Hopper and newer)"
        if kind == "old"
        else "",
        processes=tuple(processes),
    )


def sample(
    at: int, cards: Iterable[CardSample] = (), processes: Iterable[ProcessSample] = (), trouble: str = ""
) -> Sample:
    """Return the sample of second `at`."""
    host = HostSample(
        cores=16,
        cpu=20 + 15 * math.sin(at / 5),
        busiest_core=93,
        io_wait=0.4,
        load=3.2,
        memory=128 * GIB,
        memory_used=42 * GIB,
        swap_used=0,
        disk_read=1.5e6,
        disk_written=2.2e5,
        received=4e4,
        sent=1e4,
    )
    return Sample(BEGAN + at, None if at == 0 else 1.0, host, tuple(cards), tuple(processes), trouble)


def processes(own: int | None = None) -> tuple[ProcessSample, ...]:
    """Return a notebook's kernel, a training process, one of another PID namespace, and one of the test itself."""
    ann = Owner("3f2a9c0d11", "/home/ann/lab/vision/train resnet.ipynb", "ann")
    processes = [
        ProcessSample(4711, "python -m ipykernel_launcher", "ann", owner=ann, cpu=103, memory=9 * GIB, processes=5),
        ProcessSample(815, "python train.py", "bob", container="docker 9f8e7d6c", cpu=12, memory=3 * GIB),
        ProcessSample(99_999_999, here=False),
    ]
    if own is not None:
        processes.append(ProcessSample(own, "sleep", "me", cpu=0, memory=2 * 1024**2))
    return tuple(processes)


def on_card(own: int | None = None) -> tuple[CardProcess, ...]:
    """Return the same processes as the driver reports them."""
    processes = [
        CardProcess(4711, memory=8 * GIB, sm=97),
        CardProcess(815, memory=4 * GIB, sm=2),
        CardProcess(99_999_999),
    ]
    return (*processes, CardProcess(own, memory=GIB // 4)) if own is not None else tuple(processes)


def scene(count: int, *kinds: str, own: int | None = None) -> list[Sample]:
    """Return samples of cards of these kinds, one per second."""
    return [
        sample(
            at,
            [
                card(index, kind=kind, at=at, processes=on_card(own) if index == 0 else ())
                for index, kind in enumerate(kinds)
            ],
            processes(own) if kinds else (),
            "" if kinds else "no GPU was found on this machine",
        )
        for at in range(count)
    ]


class ListSource:
    """A source with these samples."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.samples = iter(samples)
        self.closed = False

    def take(self) -> Sample:
        """Return the next sample."""
        sample = next(self.samples, None)
        if sample is None:
            raise StreamEnded
        return sample

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
