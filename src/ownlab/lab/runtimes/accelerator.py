"""Which runtime type fits what a notebook asks for on Colab: its `accelerator`, and `gpuType`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ownlab.lab.colab.detection import accelerator_of, gpu_type_of
from ownlab.lab.runtimes.records import RuntimeType

__all__ = ["Proposal", "propose"]

# "a T4", "an L4": the letters whose names begin with a vowel.
_AN = "AEFHILMNORSX8"


class Proposal(Struct, frozen=True):
    """What a notebook was made for, and what there is for it here."""

    made_for: str  # "This notebook was made for a T4 GPU"
    words: str  # the same with what can be done about it: whole sentences
    type: str | None = None  # the name of the type that fits; None: there is none
    offer: str = ""  # "1 × NVIDIA H200"
    free: bool = False  # it could start at once


def propose(notebook: Mapping[str, Any], types: Iterable[RuntimeType], present: str) -> Proposal | None:
    """For a notebook on the type `present`; None where that fits, or nothing is asked for.

    Where a person said so before (`ownlab.accelerator` is false in the metadata) nothing is proposed.
    """
    wanted = accelerator_of(notebook)
    known = {each.name: each for each in types}
    now = known.get(present)
    if wanted not in ("GPU", "TPU") or now is None or now.kind is not None or _is_declined(notebook):
        return None
    card = gpu_type_of(notebook) if wanted == "GPU" else None
    made_for = f"This notebook was made for {_with_article(f'{card} GPU' if card else wanted)}"
    fitting = [
        each
        for each in known.values()
        if each.environment == now.environment
        and each.cards == 1
        and each.kind
        and _is_tpu(each.kind) == (wanted == "TPU")
    ]
    if not fitting:
        return Proposal(made_for, f"{made_for}, and there is no {wanted} here.")
    best = min(fitting, key=lambda each: (not each.free, not _is_model(card, each.kind), -each.parts))
    offer = best.label.partition(" (")[2].removesuffix(")")
    if best.free:
        return Proposal(made_for, f"{made_for}. Run it on {offer}?", best.name, offer, free=True)
    return Proposal(made_for, f"{made_for}. It would have to wait for {offer}: {best.why_not}.", best.name, offer)


def _is_declined(notebook: Mapping[str, Any]) -> bool:
    metadata = notebook.get("metadata")
    own = metadata.get("ownlab") if isinstance(metadata, Mapping) else None
    return isinstance(own, Mapping) and own.get("accelerator") is False


def _is_tpu(kind: str) -> bool:
    return re.search(r"\bTPU\b", kind, re.IGNORECASE) is not None


def _is_model(card: str | None, kind: str | None) -> bool:
    """Whether "T4" is meant by "Tesla T4", or "A100" by "NVIDIA A100-SXM4-80GB"."""
    return (
        bool(card and kind)
        and re.search(rf"(?<!\w){re.escape(card or '')}(?!\w)", kind or "", re.IGNORECASE) is not None
    )


def _with_article(words: str) -> str:
    """ "GPU" -> "a GPU", "A100 GPU" -> "an A100 GPU"."""
    return f"{'an' if words[0].upper() in _AN else 'a'} {words}"
