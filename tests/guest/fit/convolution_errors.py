"""Predicts recorded workspaces of convolutions on tensors without data: convolution_errors.py LAUNCH RECORD.json.gz.

Prints for each kind of work the bytes that were predicted wrongly and those of the tensors, and the share of calls that are off by
more than 2 % of their tensors; for all of them, and for those without groups.
"""

import gzip
import json
import sys
from pathlib import Path

import torch  # noqa: TID251  # the interpreter that reads this has it

sys.path.insert(0, str(Path(sys.argv[1]).parents[1]))
from ownlab_guest.fit.convolution_workspaces import backward_workspaces, forward_workspaces
from ownlab_guest.fit.request import Card

DTYPES = {"f": torch.float32, "b": torch.bfloat16, "h": torch.float16}
FLOOR = 4 * 1024**2
wrong: dict[str, list[float]] = {}


def tensor(shape: list[int], dtype: torch.dtype, last: bool) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype, device="meta")
    layout = torch.channels_last if made.dim() == 4 else torch.channels_last_3d
    return made.contiguous(memory_format=layout) if last else made


for row in json.loads(gzip.decompress(Path(sys.argv[2]).read_bytes()))["rows"]:
    _, kind, batch, inside, out, size, kernel, stride, dilation, padding, groups, transposed, last, *taken = row
    dtype = DTYPES[kind]
    x = tensor([batch, inside, *size], dtype, last)
    first, second = (inside, out) if transposed else (out, inside)
    weight = tensor([first, second // groups, *kernel], dtype, last)
    how = (stride, padding, dilation, bool(transposed), [0] * len(size), groups)
    y = torch.ops.aten.convolution(x, weight, None, *how)
    y = y.contiguous(memory_format=torch.channels_last if y.dim() == 4 else torch.channels_last_3d) if last else y
    backward = backward_workspaces((y, x, weight, None, *how, [True, True, False]), Card())
    predicted = [forward_workspaces((x, weight, None, *how), y, Card())[-1], *(sizes[-1] for sizes in backward)]
    whole = max(FLOOR, sum(each.numel() * each.dtype.itemsize for each in (x, weight, y)))
    for work, ours, real in zip(("forward", "input", "weight"), predicted, taken, strict=True):
        for name in (work, *([f"{work} plain"] if groups == 1 else [])):
            sums = wrong.setdefault(name, [0, 0, 0, 0])
            off = abs(ours - real)
            for place, value in enumerate((off, whole, off > 0.02 * whole, 1)):
                sums[place] += value
sys.stdout.write(json.dumps({name: [sums[0] / sums[1], sums[2] / sums[3], sums[3]] for name, sums in wrong.items()}))
