"""What was held when most was held, read from a history of the allocator; without torch."""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Sequence

BLOCK = 512  # the allocator's smallest: sizes are multiples of it
Address = int


class Moment(NamedTuple):
    """At so many entries of the allocator's history a phase began, or gradients lay at these addresses."""

    entries: int
    phase: str = ""
    gradients: FrozenSet[Address] = frozenset()


class Piece(NamedTuple):
    """Memory from the entry at which it came (-1: before all) to that at which it goes."""

    address: Address
    size: int
    came: int
    gone: int


def held_at_peak(
    base: Dict[Address, int],
    entries: Sequence[Dict[str, Any]],
    moments: Sequence[Moment],
    owners: Dict[Address, str],
) -> Dict[str, int]:
    """Bytes by kind at the moment of the history when most was held.

    `base` lay there before, and `owners` says of what is known of it what it is; what nobody owns are libraries. What came
    in the forward pass are activations, what came later and is no gradient is temporary.
    """
    pieces = _pieces(base, entries)
    changes = [0] * (len(entries) + 1)
    for piece in pieces:
        if piece.came >= 0:
            changes[piece.came] += piece.size
        changes[piece.gone] -= piece.size
    held, most, peak = 0, 0, -1
    for number, change in enumerate(changes):
        held += change
        if held > most:
            most, peak = held, number
    kinds: Dict[str, int] = {}
    for piece in pieces:
        if piece.came <= peak < piece.gone:
            kind = _kind(piece, moments, owners)
            kinds[kind] = kinds.get(kind, 0) + piece.size
    return kinds


def _pieces(base: Dict[Address, int], entries: Sequence[Dict[str, Any]]) -> List[Piece]:
    """All that lay there at any time; an address may come again."""
    living = {address: (size, -1) for address, size in base.items()}
    pieces = []
    for number, entry in enumerate(entries):
        address = entry.get("addr", -1)  # a failure has none
        if entry["action"] == "alloc":
            living[address] = -(-entry["size"] // BLOCK) * BLOCK, number
        elif entry["action"] == "free_completed" and address in living:
            pieces.append(Piece(address, *living.pop(address), number))
    return [*pieces, *(Piece(address, *one, len(entries)) for address, one in living.items())]


def _kind(piece: Piece, moments: Sequence[Moment], owners: Dict[Address, str]) -> str:
    if piece.came < 0:
        return owners.get(piece.address, "workspace")
    if any(piece.came < one.entries <= piece.gone and piece.address in one.gradients for one in moments):
        return "gradients"
    phases = [one.phase for one in moments if one.phase and one.entries <= piece.came]
    return "activations" if (phases or ["forward"])[-1] == "forward" else "temporary"
