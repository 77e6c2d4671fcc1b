"""The runtime type that fits what a notebook asks for on Colab: its `accelerator` and `gpuType`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ownlab.lab.colab.detection import accelerator_of, gpu_type_of
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import Text, text

__all__ = ["Proposal", "propose"]

# "a T4", "an L4": the letters and digits whose names begin with a vowel.
_AN = "AEFHILMNORSXaefhilmnorsx8"


class Proposal(Struct, frozen=True):
    """What a notebook was made for, and which runtime type fits."""

    made_for: str  # "This notebook was made for a T4 GPU"
    words: str  # whole sentences: the same, and what can be done
    type: str | None = None  # the name of the type that fits; None if there is none
    offer: str = ""  # "1 × NVIDIA H200"
    free: bool = False  # it can start immediately


def propose(notebook: Mapping[str, Any], types: Iterable[RuntimeType], present: str) -> Proposal | None:
    """Propose a type for a notebook that runs on `present`. None if that type fits, or the notebook asks for nothing.

    Nothing is proposed if a person declined before (`ownlab.accelerator` is false in the notebook's metadata).
    """
    wanted = accelerator_of(notebook)
    known = {each.name: each for each in types}
    now = known.get(present)
    if wanted not in ("GPU", "TPU") or now is None or now.kind is not None or _is_declined(notebook):
        return None
    card = gpu_type_of(notebook) if wanted == "GPU" else None
    accelerator = _with_article(f"{card} GPU" if card else wanted)
    made_for = text("This notebook was made for {accelerator}", accelerator=accelerator)
    fitting = [
        each
        for each in known.values()
        if each.environment == now.environment
        and each.cards == 1
        and each.kind
        and _is_tpu(each.kind) == (wanted == "TPU")
    ]
    if not fitting:
        message = text(
            "This notebook was made for {accelerator}, but this machine has no {kind}.",
            accelerator=accelerator,
            kind=wanted,
        )
        return Proposal(made_for, message)
    best = min(fitting, key=lambda each: (not each.free, not _is_model(card, each.kind), -each.parts))
    offer = best.label.partition(" (")[2].removesuffix(")")
    if best.free:
        message = text(
            "This notebook was made for {accelerator}. Run it on {offer}?", accelerator=accelerator, offer=offer
        )
        return Proposal(made_for, message, best.name, offer, free=True)
    message = text(
        "This notebook was made for {accelerator}. It would have to wait for {offer}: {reason}.",
        accelerator=accelerator,
        offer=offer,
        reason=best.why_not,
    )
    return Proposal(made_for, message, best.name, offer)


def _is_declined(notebook: Mapping[str, Any]) -> bool:
    metadata = notebook.get("metadata")
    own = metadata.get("ownlab") if isinstance(metadata, Mapping) else None
    return isinstance(own, Mapping) and own.get("accelerator") is False


def _is_tpu(kind: str) -> bool:
    return re.search(r"\bTPU\b", kind, re.IGNORECASE) is not None


def _is_model(card: str | None, kind: str | None) -> bool:
    """Whether a card is the model that Colab names: "Tesla T4" is "T4", "NVIDIA A100-SXM4-80GB" is "A100"."""
    return (
        bool(card and kind)
        and re.search(rf"(?<!\w){re.escape(card or '')}(?!\w)", kind or "", re.IGNORECASE) is not None
    )


def _with_article(name: str) -> Text:
    """ "GPU" -> "a GPU", "A100 GPU" -> "an A100 GPU"."""
    return text("an {name}", name=name) if name[0] in _AN else text("a {name}", name=name)
