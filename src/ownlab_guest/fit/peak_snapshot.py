"""Reads a history of torch's allocator: what held the memory at its peak. Needs no torch."""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Sequence

BLOCK = 512  # the smallest block of the allocator: sizes are multiples of it
Address = int


class Moment(NamedTuple):
    """At this number of entries a phase began, or gradients were at these addresses."""

    entries: int
    phase: str = ""
    gradients: FrozenSet[Address] = frozenset()


class Allocation(NamedTuple):
    """A block, with the entries at which it was allocated (-1: before the history) and freed."""

    address: Address
    size: int
    allocated_at: int
    freed_at: int


def bytes_at_peak(
    base: Dict[Address, int],
    entries: Sequence[Dict[str, Any]],
    moments: Sequence[Moment],
    owners: Dict[Address, str],
) -> Dict[str, int]:
    """Return the bytes by kind at the peak of the history.

    `base`: blocks from before the history; `owners`: their kinds as far as known, the rest belongs to libraries. Blocks of the
    forward pass are activations; later ones that are no gradients are temporary.
    """
    allocations = _allocations(base, entries)
    changes = [0] * (len(entries) + 1)
    for allocation in allocations:
        if allocation.allocated_at >= 0:
            changes[allocation.allocated_at] += allocation.size
        changes[allocation.freed_at] -= allocation.size
    held, most, peak = 0, 0, -1
    for number, change in enumerate(changes):
        held += change
        if held > most:
            most, peak = held, number
    kinds: Dict[str, int] = {}
    for allocation in allocations:
        if allocation.allocated_at <= peak < allocation.freed_at:
            kind = _kind(allocation, moments, owners)
            kinds[kind] = kinds.get(kind, 0) + allocation.size
    return kinds


def _allocations(base: Dict[Address, int], entries: Sequence[Dict[str, Any]]) -> List[Allocation]:
    """Return all allocations; an address may occur several times."""
    living = {address: (size, -1) for address, size in base.items()}
    allocations = []
    for number, entry in enumerate(entries):
        address = entry.get("addr", -1)  # failures have no address
        if entry["action"] == "alloc":
            living[address] = -(-entry["size"] // BLOCK) * BLOCK, number
        elif entry["action"] == "free_completed" and address in living:
            allocations.append(Allocation(address, *living.pop(address), number))
    return [*allocations, *(Allocation(address, *block, len(entries)) for address, block in living.items())]


def _kind(allocation: Allocation, moments: Sequence[Moment], owners: Dict[Address, str]) -> str:
    if allocation.allocated_at < 0:
        return owners.get(allocation.address, "workspace")
    if any(
        allocation.allocated_at < moment.entries <= allocation.freed_at and allocation.address in moment.gradients
        for moment in moments
    ):
        return "gradients"
    phases = [moment.phase for moment in moments if moment.phase and moment.entries <= allocation.allocated_at]
    return "activations" if (phases or ["forward"])[-1] == "forward" else "temporary"
