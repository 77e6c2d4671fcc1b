"""Which of torch's kernels computes attention on a real NVIDIA card, against what traces of `ownlab fit` take it to be.

Plain functions without fixtures. Needs torch alone. The choices are left in $OUT, in the form of fit/attention-2.11.json.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "fit"))
from attention_cases import HEADS, KERNELS, Case, attention_on, cases, given, off, taken

# What torch warns of is its own.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.takes_the_card]
# Of the node that computes its gradient, as torch names it.
NODES = {"Flash": "flash", "Efficient": "efficient", "Cudnn": "cudnn"}


def capability() -> float:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return float(major + minor / 10)


def chosen(arguments: dict[str, Any]) -> str:
    import torch

    return KERNELS[torch._fused_sdp_choice(**arguments)]


def test_traces_choose_the_kernel_that_torch_chooses() -> None:
    import torch

    kernels = [chosen(given(case, "cuda")) for case in cases()]
    if os.environ.get("OUT"):
        where = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "capability": capability()}
        letters = "".join(kernel[0] for kernel in kernels)
        Path(os.environ["OUT"], "attention.json").write_text(json.dumps({**where, "kernels": letters}) + "\n")
    wrong = off(capability(), kernels)
    assert len(wrong) == 0, dict(itertools.islice(wrong.items(), 40))


def test_the_kernel_that_runs_is_the_one_that_was_chosen() -> None:
    """Torch may choose one kernel and compute with another: recognised by what it leaves behind for the gradients."""
    import torch

    attention, wrong = attention_on(capability()), {}
    ways = itertools.product(("float32", "bfloat16"), ("", "bool", "float", "learnt", "turned"), (0.0, 0.1))
    for dtype, mask, dropout in ways:
        case = Case(dtype, 64, HEADS, (256, 256), mask, dropout, learns=True)
        arguments = given(case, "cuda")
        node = torch.nn.functional.scaled_dot_product_attention(**arguments).grad_fn.name()
        ran = next((kernel for word, kernel in NODES.items() if word in node), "plain")
        if ran != (expected := taken(attention, arguments)):
            wrong[str(case)] = (node, expected)
    assert wrong == {}
