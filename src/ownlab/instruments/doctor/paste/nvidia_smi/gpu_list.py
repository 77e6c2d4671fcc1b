"""Reads `nvidia-smi -L`, and the same list where collect_env quotes it without the UUIDs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ownlab.instruments.doctor.paste.sections import Kind, run_of
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.records import Card, Machine, MigInstance

__all__ = ["GPU_LINE", "KINDS", "read_gpu_list"]

GPU_LINE = r"\s*GPU \d{1,3}(?:,\d{1,3})*: (?!Compute Capability)"
_GPU = re.compile(r"\s*GPU (\d{1,3}(?:,\d{1,3})*): (.+?)\s*(?:\(UUID: ([^)]+)\))?$")
_CAPABILITY = re.compile(r"\s*GPU (\d{1,3}(?:,\d{1,3})*) Compute Capability: (\d{1,2}\.\d)")
_MIG = re.compile(r"\s*MIG (\S+)\s+Device\s+(\d{1,3}):\s*(?:\(UUID: ([^)]+)\))?")
_LINE = re.compile(rf"{GPU_LINE}|\s*MIG \S+\s+Device\s+\d")
_SOURCE = "pasted nvidia-smi -L"


def read_gpu_list(lines: Sequence[str], source: str) -> tuple[Card, ...]:
    """The cards of a list; "GPU 0,1: NVIDIA L40S" (sglang, mmcv) is two."""
    cards: dict[int, Card] = {}
    slices: list[MigInstance] = []
    latest = -1
    for line in (" ".join(line.split()) for line in lines):
        if (mig := _MIG.match(line)) and latest >= 0:
            profile, number, uuid = mig.groups()
            slices.append(MigInstance(uuid=uuid or f"device {number}", profile=Known(profile, source)))
            of = cards[latest]
            cards[latest] = msgspec.structs.replace(
                of, mig=Known(True, source), mig_instances=Known(tuple(slices), source)
            )
        elif capability := _CAPABILITY.match(line):
            for index in map(int, capability[1].split(",")):
                if index in cards:
                    known = Known(capability[2], source)
                    cards[index] = msgspec.structs.replace(cards[index], compute_capability=known)
        elif gpu := _GPU.match(line):
            slices = []
            numbers, name, uuid = gpu.groups()
            for latest in map(int, numbers.split(",")):
                cards.setdefault(
                    latest,
                    Card(
                        vendor="nvidia",
                        index=latest,
                        name=Known(name, source),
                        uuid=Known(uuid, source) if uuid else Unknown("the list was pasted without UUIDs"),
                    ),
                )
    return tuple(cards[index] for index in sorted(cards))


def _extent(lines: Sequence[str], start: int) -> int:
    return run_of(_LINE, lines, start)


def _read(lines: Sequence[str]) -> Machine:
    return Machine(origin="pasted", cards=Known(read_gpu_list(lines, _SOURCE), _SOURCE))


# --- nvidia-smi topo -m -----------------------------------------------------------------------------------------------

_TOPOLOGY = re.compile(r"\s*(?:GPU\d|NIC\d|mlx\d|X\s|SYS\b|NODE\b|PHB\b|PXB\b|PIX\b|NV#|(?:NIC )?Legend)")


def _topology_extent(lines: Sequence[str], start: int) -> int:
    return run_of(_TOPOLOGY, lines, start, blanks=2)


def _read_topology(lines: Sequence[str]) -> Machine:
    return Machine(origin="pasted")  # no rule asks how the cards are joined


KINDS = (
    Kind("nvidia-smi -L", GPU_LINE + r"(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID|.*\(UUID: )", _extent, _read),
    Kind("nvidia-smi topo", r"\s*GPU0\s.*Affinity|\s*Legend:\s*$", _topology_extent, _read_topology, several="each"),
)
