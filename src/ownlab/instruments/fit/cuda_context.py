"""What CUDA itself takes on a card beside all tensors: its context, the kernels it loads, the handles of its libraries.

Measured on one card and one torch; elsewhere it is a guess, and said to be one.
"""

from __future__ import annotations

from msgspec import Struct

from ownlab.instruments.fit.records import Request, Trace
from ownlab.units import MIB

__all__ = ["CONTEXT_APART", "H200", "Context", "context_bytes"]

# The sums of these lay as near to what was measured.
CONTEXT_APART = 4 * MIB


class Context(Struct, frozen=True):
    """Bytes of one card, with one torch."""

    start: int  # the context and torch's own kernels; convolutions alone take no more
    matmul: int  # cuBLAS: a handle for the thread of the forward pass
    matmul_backward: int  # and one for that of the backward pass
    more_kernels: int  # where matrices are multiplied in 16 bits, or beside convolutions and recurrent layers


# NVML's figure of a process on an H200, less what torch had reserved, after three steps of 25 models; torch 2.11.0+cu130,
# driver 580, 2026-11-15. After torch.zeros(1) alone it is 610 MiB.
H200 = Context(start=632 * MIB, matmul=54 * MIB, matmul_backward=56 * MIB, more_kernels=18 * MIB)


def context_bytes(trace: Trace, request: Request, context: Context = H200) -> int:
    """What the step's libraries take."""
    operations = {(tag.op.removeprefix("aten.").partition(".")[0], tag.phase) for tag in trace.tags}
    products = {phase for op, phase in operations if op in ("mm", "addmm", "bmm", "baddbmm")}
    more = any("convolution" in op or "rnn" in op for op, _ in operations)
    size = context.start
    if products:
        size += context.matmul
        size += context.matmul_backward if "backward" in products else 0
        half = request.precision not in ("fp32", "tf32")
        size += context.more_kernels if request.train and (half or more) else 0
    return size
