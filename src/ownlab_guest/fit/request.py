"""The request of the host: the model, and how it is trained or used."""

import json
from typing import Any, Dict, NamedTuple, Optional

from ownlab_guest.fit.errors import FitError
from ownlab_guest.text import listing, text

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16")


class Card(NamedTuple):
    """The properties of a card that decide which kernels run and what they allocate. The defaults are an H200's."""

    capability: float = 9.0
    multiprocessors: int = 132
    threads: int = 2048  # per multiprocessor
    cublas_bytes: Optional[int] = None  # the cuBLAS workspace of one thread, if it was measured


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
    weights: str = ""  # the format of quantized weights: nf4, int8, gptq:group=64 …
    lora: str = ""  # adapters: r=16,targets=q_proj,v_proj
    card: Card = Card()

    @property
    def autocast(self) -> Optional[str]:
        """The dtype of autocast, by torch's name."""
        return {"amp-bf16": "bfloat16", "amp-fp16": "float16"}.get(self.precision)

    @property
    def dtype(self) -> Optional[str]:
        """The dtype of weights and inputs, by torch's name."""
        return {"bf16": "bfloat16", "fp16": "float16"}.get(self.precision)


def read_request(path: str) -> Request:
    """Read the request that the host wrote."""
    with open(path, encoding="utf-8") as file:
        return parse_request(json.load(file))


def parse_request(fields: Dict[str, Any]) -> Request:
    """Check the fields of a request."""
    unknown = sorted(set(fields) - set(Request._fields))
    if unknown or "target" not in fields:
        raise FitError(
            "bad-request",
            text("The request has no target, or unknown fields: {fields}", fields=listing(unknown, "{items}, {last}")),
        )
    request = Request(**{**fields, "card": Card(**(fields.get("card") or {}))})
    if request.precision not in PRECISIONS:
        raise FitError(
            "bad-request",
            text(
                "Unknown precision {precision}; known are {precisions}",
                precision=request.precision,
                precisions=listing(PRECISIONS, "{items}, {last}"),
            ),
        )
    return request
