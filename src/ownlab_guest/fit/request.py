"""What is asked: the model, and how it is trained or used."""

import json
from typing import Any, Dict, NamedTuple, Optional

from ownlab_guest.fit.errors import Refused

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16")


class Card(NamedTuple):
    """As much of a card as decides which kernels run and how much they take. The defaults are an H200's."""

    capability: float = 9.0
    multiprocessors: int = 132
    threads: int = 2048  # that one multiprocessor holds
    cublas_bytes: Optional[int] = None  # cuBLAS's workspace for one thread, where it was measured


class Request(NamedTuple):
    """One step of one model."""

    target: str
    train: bool = True
    optimizer: str = "adamw"
    foreach: Optional[bool] = None
    fused: bool = False
    precision: str = "fp32"
    batch: Optional[int] = None
    seq: Optional[int] = None
    checkpointing: bool = False
    channels_last: bool = False
    accumulate: int = 1
    steps: int = 3
    card: Card = Card()

    @property
    def autocast(self) -> Optional[str]:
        """The type that autocast computes in, by torch's name."""
        return {"amp-bf16": "bfloat16", "amp-fp16": "float16"}.get(self.precision)

    @property
    def dtype(self) -> Optional[str]:
        """The type that weights and inputs are made."""
        return {"bf16": "bfloat16", "fp16": "float16"}.get(self.precision)


def read(path: str) -> Request:
    """The request that the host wrote."""
    with open(path, encoding="utf-8") as file:
        return parsed(json.load(file))


def parsed(said: Dict[str, Any]) -> Request:
    """The request that a dictionary of its fields makes."""
    unknown = sorted(set(said) - set(Request._fields))
    if unknown or "target" not in said:
        raise Refused("bad-request", f"the request has no target, or fields that nobody knows: {', '.join(unknown)}")
    request = Request(**{**said, "card": Card(**(said.get("card") or {}))})
    if request.precision not in PRECISIONS:
        raise Refused("bad-request", f"no precision is called {request.precision}; there are {', '.join(PRECISIONS)}")
    return request
