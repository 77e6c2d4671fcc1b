"""Kinds of work in words, for headings of tables and drawings."""

from __future__ import annotations

from ownlab.catalog.ladder import Workload

__all__ = ["WORK"]

WORK: dict[Workload, str] = {
    "vision": "Training of convolutional networks",
    "transformer": "Training of transformers",
    "recurrent": "Training of recurrent networks",
    "decoding": "Decoding of language models, one request",
}
