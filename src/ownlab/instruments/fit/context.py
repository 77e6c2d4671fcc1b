"""What CUDA itself takes on a card beside all tensors: its context, the kernels it loads, the handles of its libraries.

Measured on one card and one torch; elsewhere it is a guess, and said to be one.
"""

from __future__ import annotations

from ownlab.instruments.fit.records import Request, Trace
from ownlab.units import MIB

__all__ = ["CONTEXT_APART", "context_bytes"]

# NVML's figure of a process on an H200, less what torch had reserved, after three steps of 25 models; torch 2.11.0+cu130,
# driver 580, 2026-11-15. After torch.zeros(1) alone it is 610 MiB.
_START = 632 * MIB  # the context and torch's own kernels; convolutions alone take no more
_MATMUL = 54 * MIB  # cuBLAS: a handle for the thread of the forward pass
_MATMUL_BACKWARD = 56 * MIB  # and one for that of the backward pass
_MORE_KERNELS = 18 * MIB  # where matrices are multiplied in 16 bits, or beside convolutions and recurrent layers
# The sums of these lay as near to what was measured.
CONTEXT_APART = 4 * MIB


def context_bytes(trace: Trace, request: Request) -> int:
    """What the step's libraries take."""
    operations = {(tag.op.removeprefix("aten.").partition(".")[0], tag.phase) for tag in trace.tags}
    products = {phase for op, phase in operations if op in ("mm", "addmm", "bmm", "baddbmm")}
    more = any("convolution" in op or "rnn" in op for op, _ in operations)
    size = _START
    if products:
        size += _MATMUL
        size += _MATMUL_BACKWARD if "backward" in products else 0
        half = request.precision not in ("fp32", "tf32")
        size += _MORE_KERNELS if request.train and (half or more) else 0
    return size
