"""Ways of calling attention, and which kernel traces take torch to choose for each on a card.

`attention_cases.py LAUNCH.py RECORDED.json` compares that with what a card's torch chose, and prints what is off, as JSON.
Read by the interpreter that has torch; it needs no card.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

RECORDED = Path(__file__).with_name("attention-2.11.json")
KERNELS = ("plain", "flash", "efficient", "cudnn")  # as torch numbers them
BATCH, HEADS = 2, 8


class Case(NamedTuple):
    """One way."""

    dtype: str
    width: int
    key_heads: int
    lengths: tuple[int, int]
    mask: str  # "", causal, bool, float, learnt, turned
    dropout: float
    learns: bool

    def __str__(self) -> str:
        rows, columns = self.lengths
        answer = f"{self.dtype} {self.width} wide, {self.key_heads} of {HEADS} heads, {rows}x{columns}"
        return (
            f"{answer}, {self.mask or 'no'} mask, dropout {self.dropout}, {'training' if self.learns else 'inference'}"
        )


def cases() -> Iterator[Case]:
    """All of them, in the order of the recording."""
    dtypes = ("float32", "bfloat16", "float16")
    widths = (20, 36, 40, 64, 128, 192, 256, 288)
    lengths = ((256, 256), (256, 128), (1, 256), (100, 100))
    masks = ("", "causal", "bool", "float", "learnt", "turned")
    every = itertools.product(dtypes, widths, (HEADS, 2), lengths, masks, (0.0, 0.1, 0.125), (True, False))
    return itertools.starmap(Case, every)


def given(case: Case, device: str) -> dict[str, Any]:
    """Arguments of scaled_dot_product_attention."""
    torch = importlib.import_module("torch")
    kind = getattr(torch, case.dtype)
    rows, columns = case.lengths

    def heads(length: int, count: int) -> Any:
        made = torch.empty(BATCH, length, count, case.width, dtype=kind, device=device, requires_grad=case.learns)
        return made.transpose(1, 2)

    mask = None
    learnt = case.mask in ("learnt", "turned") and case.learns
    if case.mask == "bool":
        mask = torch.ones(BATCH, 1, rows, columns, dtype=torch.bool, device=device)
    elif case.mask == "turned":  # as a table of positions gives it: heads innermost
        mask = torch.zeros(rows, columns, HEADS, dtype=kind, device=device, requires_grad=learnt)
        mask = mask.permute(2, 0, 1).unsqueeze(0)
    elif case.mask in ("float", "learnt"):
        mask = torch.zeros(1, HEADS, rows, columns, dtype=kind, device=device, requires_grad=learnt)
    return {
        "query": heads(rows, HEADS),
        "key": heads(columns, case.key_heads),
        "value": heads(columns, case.key_heads),
        "attn_mask": mask,
        "dropout_p": case.dropout,
        "is_causal": case.mask == "causal",
        "enable_gqa": case.key_heads != HEADS,
    }


def attention_on(capability: float) -> Any:
    """Return the choice of kernels in traces for such a card."""
    card = importlib.import_module("ownlab_guest.fit.request").Card(capability=capability)
    return importlib.import_module("ownlab_guest.fit.attention").Attention(card)


def taken(attention: Any, arguments: dict[str, Any]) -> str:
    """The kernel that it takes for such a call."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    return str(attention.kernel(*(arguments[name] for name in names)))


def off(capability: float, kernels: list[str]) -> dict[str, tuple[str, str]]:
    """Return the cases in which a trace uses another kernel than torch chose, with both kernels."""
    attention, wrong = attention_on(capability), {}
    for case, kernel in zip(cases(), kernels, strict=True):
        expected = taken(attention, given(case, "meta"))
        if expected != kernel:
            wrong[str(case)] = (kernel, expected)
    return wrong


def main(launch: str, recorded: str) -> None:
    """Compare with the recording."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "guest" / "fit"))
    importlib.import_module("guest_import").register_guest(launch)
    answer = json.loads(Path(recorded).read_text())
    kernels = [next(name for name in KERNELS if name.startswith(letter)) for letter in answer["kernels"]]
    sys.stdout.write(json.dumps({"cases": len(kernels), "off": off(answer["capability"], kernels)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
