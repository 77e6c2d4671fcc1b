"""Measures the workspaces that cuDNN takes for random convolutions: the data that `grow_convolution_forests.py` reads.

`python tests_gpu/fit/measure_convolutions.py GRID SEED SECONDS OUT.jsonl` draws convolutions of a grid and measures each on the
first card until the time is over. Two grids are needed. `broad` covers what torch accepts, so that no tree is blind somewhere;
`usual` draws the sizes that people's networks have, because trees grown on `broad` alone were wrong just there. Most of the time
is spent in the interpreter, so several processes with different seeds share a card. Files are joined in the order of the grids:
`cat broad.* usual.* | gzip -9n > convolution-grid-h200.jsonl.gz`.

The committed file is from one H200, torch 2.11 and cuDNN 9.19 (2026-11-16 and 2026-11-19): 52,425 convolutions of `broad` (seeds 1 to
10) and 157,351 of `usual` (seeds 1 to 15, 101 to 106, 201 to 203), some minutes each. Those of the
first day were called twice, and the second call always took what the first had taken; one call is measured here. Read by the interpreter that has torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import torch

__all__ = ["GRIDS", "WORKS", "Convolution", "draw"]

Value = TypeVar("Value")
DTYPES = {"f": torch.float32, "b": torch.bfloat16, "h": torch.float16}
WORKS = ("forward", "input_gradient", "weight_gradient")  # the columns that follow those of a convolution
# Larger ones take too long for a grid, and smaller ones have no workspace worth predicting.
MOST_TENSOR_BYTES, MOST_WEIGHTS, MOST_FLOPS, LEAST_BYTES = 600e6, 3e7, 1.5e12, 2e4
ERRORS_SHOWN = 3
ROWS_BETWEEN_FLUSHES = 50  # also of torch's cache, which otherwise keeps blocks of all sizes

# Tables of values and how often each is drawn: one number a line would fill pages.
# fmt: off
BROAD_CHANNELS = {
    8: 2, 12: 1, 16: 4, 20: 1, 24: 4, 32: 10, 40: 2, 48: 5, 56: 2, 64: 14, 72: 1, 80: 3, 96: 6, 112: 2, 128: 12, 144: 1, 160: 4,
    192: 6, 224: 2, 256: 10, 288: 1, 320: 4, 384: 5, 448: 1, 512: 8, 640: 2, 768: 3, 1024: 2,
}
BROAD_BATCHES = {
    1: 10, 2: 10, 3: 3, 4: 12, 6: 5, 8: 14, 12: 5, 16: 14, 20: 2, 24: 5, 32: 10, 48: 3, 64: 7, 96: 2, 128: 4,
}
BROAD_LENGTHS = [
    32, 50, 64, 100, 125, 128, 200, 250, 256, 400, 499, 500, 512, 600, 800, 1000, 1024, 1500, 2000, 2048, 3000, 4000, 4096, 6000,
    8000, 8192, 12000, 16000, 16384, 22050, 24000, 32000, 44100, 48000, 65536,
]
BROAD_SIDES = [
    4, 5, 7, 8, 10, 12, 14, 15, 16, 20, 24, 28, 30, 32, 38, 40, 48, 56, 60, 64, 72, 80, 96, 100, 112, 120, 128, 150, 160, 192,
    200, 224, 240, 256, 288, 320, 384, 400, 448, 480, 512, 640, 800, 1024,
]
BROAD_EDGES = [2, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160]
BROAD_KERNELS: dict[int, dict[tuple[int, ...], int]] = {
    1: {(1,): 28, (2,): 12, (3,): 24, (5,): 7, (7,): 8, (9,): 3, (15,): 3, (31,): 3, (4,): 4, (8,): 5, (10,): 2, (16,): 3},
    2: {
        (1, 1): 25, (3, 3): 42, (2, 2): 6, (4, 4): 6, (5, 5): 7, (7, 7): 6,
        (1, 3): 2, (3, 1): 2, (1, 7): 1, (8, 8): 1, (9, 9): 1, (11, 11): 1,
    },
    3: {
        (1, 1, 1): 18, (3, 3, 3): 46, (2, 2, 2): 8, (1, 3, 3): 9, (3, 1, 1): 8,
        (5, 5, 5): 4, (4, 4, 4): 3, (7, 7, 7): 1, (3, 7, 7): 2, (1, 2, 2): 2,
    },
}
BROAD_DILATIONS = {1: [2, 3, 4, 8, 9, 16, 27, 32, 64, 128, 256, 512], 2: [2, 3, 4, 6, 12, 18, 24], 3: [2]}
BROAD_DILATED = {1: 0.45, 2: 0.1, 3: 0.05}  # the share with a dilation

USUAL_CHANNELS = {
    16: 4, 24: 3, 32: 9, 48: 6, 64: 14, 80: 3, 96: 7, 128: 13, 160: 3, 192: 6, 256: 11, 320: 4, 384: 4, 512: 8, 640: 1, 768: 2,
    1024: 2,
}
USUAL_BATCHES = {1: 12, 2: 13, 3: 4, 4: 14, 6: 8, 8: 15, 10: 2, 12: 5, 16: 13, 24: 5, 32: 10, 48: 3, 64: 6}
USUAL_LENGTHS = [
    100, 125, 200, 250, 256, 400, 500, 512, 800, 1000, 1024, 1500, 2000, 2048, 3000, 4000, 4096, 6000, 8000, 8192, 10000, 12000,
    16000, 16384, 20000, 22050, 24000, 32000, 32768, 44100, 48000, 64000, 65536,
]
USUAL_SIDES = [
    7, 14, 28, 56, 112, 224, 8, 16, 32, 64, 128, 256, 512, 10, 20, 40, 80, 160, 320, 640, 12, 24, 48, 96, 192, 384,
    15, 30, 60, 120, 240, 480, 36, 72, 144, 288, 576,
]
USUAL_EDGES = [4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160]
# fmt: on


class Convolution(NamedTuple):
    """One convolution, and one row of the data, where the bytes of its workspaces follow (WORKS)."""

    grid: str
    dtype: str  # f, b, h: float32, bfloat16, float16
    batch: int
    inputs: int  # channels
    outputs: int
    size: list[int]  # of the input, without batch and channels
    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    padding: list[int]
    groups: int
    transposed: int
    channels_last: int

    @property
    def out_size(self) -> list[int]:
        """The size of the output."""
        answer = []
        for size, kernel, stride, dilation, padding in zip(
            self.size, self.kernel, self.stride, self.dilation, self.padding, strict=True
        ):
            reach = dilation * (kernel - 1)
            plain = (size + 2 * padding - reach - 1) // stride + 1
            answer.append((size - 1) * stride - 2 * padding + reach + 1 if self.transposed else plain)
        return answer

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of its weights, which is that of a plain convolution the other way if it is transposed."""
        first, second = (self.inputs, self.outputs) if self.transposed else (self.outputs, self.inputs)
        return (first, second // self.groups, *self.kernel)

    @property
    def is_measurable(self) -> bool:
        """Whether it exists, and is neither too large nor too small for the grid."""
        if min(self.out_size) < 1 or (self.transposed and self.outputs % self.groups):
            return False
        item, weights = DTYPES[self.dtype].itemsize, prod(self.weight_shape)
        read = self.batch * self.inputs * prod(self.size) * item
        written = self.batch * self.outputs * prod(self.out_size) * item
        flops = 2 * self.batch * weights * prod(self.size if self.transposed else self.out_size)
        fits = max(read, written) <= MOST_TENSOR_BYTES and weights <= MOST_WEIGHTS and flops <= MOST_FLOPS
        return fits and read + written >= LEAST_BYTES


def draw(grid: str, seed: int) -> Iterator[Convolution]:
    """Yield measurable convolutions of a grid without end, the same ones for the same seed."""
    random = Random(seed + GRIDS[grid][1])
    while True:
        convolution = GRIDS[grid][0](random)
        if convolution.is_measurable:
            yield convolution


def draw_broad(random: Random) -> Convolution:
    """Return any convolution that torch accepts, more often of sizes that are powers of two and the like."""
    dims = _pick(random, {1: 22, 2: 53, 3: 25})
    dtype = _pick(random, {"f": 42, "b": 38, "h": 20})
    inputs, outputs = _broad_channels(random)
    size = _broad_size(random, dims)
    taps: tuple[int, ...] = _pick(random, BROAD_KERNELS[dims])
    kernel = list(taps)
    shape = random.random()
    stride = [1] * dims
    if shape >= 0.72:
        stride = [2] * dims if shape < 0.88 else list(kernel)
    dilation = [1] * dims
    if max(stride) == 1 and max(kernel) > 1 and random.random() < BROAD_DILATED[dims]:
        choices = BROAD_DILATIONS[dims]
        dilation = [random.choice(choices) if len(choices) > 1 else choices[0]] * dims
    groups, transposed, kind = 1, 0, random.random()
    if kind < 0.10 and inputs > 4:
        groups, outputs = inputs, inputs * random.choice([1, 1, 1, 2])
    elif kind < 0.16:
        groups = random.choice([2, 4, 8, 16, 32])
        groups = 1 if inputs % groups or outputs % groups else groups
    elif kind < 0.28 and max(kernel) > 1:
        transposed = 1
        if random.random() < 0.6:
            stride = random.choice([[2] * dims, list(kernel)])
    unpadded = stride == kernel or random.random() < 0.08
    padding = [0] * dims if unpadded else _same(kernel, dilation)
    last = int(dims > 1 and random.random() < 0.17)
    batch = _pick(random, BROAD_BATCHES)
    return Convolution(
        *("broad", dtype, batch, inputs, outputs, size, kernel, stride, dilation, padding, groups, transposed, last)
    )


def _broad_channels(random: Random) -> tuple[int, int]:
    """Return channels of input and output: often equal or in small ratios; some as at the ends of a network."""
    inputs = _pick(random, BROAD_CHANNELS)
    other = _pick(random, BROAD_CHANNELS)
    ratios = [inputs, 2 * inputs, max(inputs // 2, 1), other, 4 * inputs, max(inputs // 4, 1)]
    outputs = random.choices(ratios, [35, 15, 15, 20, 8, 7])[0]
    end = random.random()
    if end < 0.08:
        inputs = random.choice([1, 1, 2, 3, 3, 3, 4])
    elif end < 0.16:
        outputs = random.choice([1, 1, 2, 3, 3, 4, 5, 10, 20, 21])
    return inputs, min(outputs, 2048)


def _broad_size(random: Random, dims: int) -> list[int]:
    """Return the size of an input."""
    if dims == 1:
        return [random.choice(BROAD_LENGTHS)]
    if dims == 2:
        side = random.choice(BROAD_SIDES)
        if random.random() < 0.65:
            return [side, side]
        return [side, random.choice([side * 4 // 3, side * 2, side * 5 // 4, random.choice(BROAD_SIDES)])]
    edge = random.choice(BROAD_EDGES)
    cube, clip = [edge] * 3, [random.choice([2, 4, 8, 16, 32]), edge * 2, edge * 2]
    return random.choice([cube, cube, clip, [edge, edge, max(2, edge * 3 // 4)], [max(2, edge * 4 // 5), edge, edge]])


def draw_usual(random: Random) -> Convolution:
    """Return a convolution as networks have it: halving and upsampling, bottlenecks, dilated stacks, stems, video."""
    dims = _pick(random, {1: 25, 2: 45, 3: 30})
    dtype = _pick(random, {"f": 50, "b": 32, "h": 18})
    inputs = _pick(random, USUAL_CHANNELS)
    other = _pick(random, USUAL_CHANNELS)
    outputs = random.choices([inputs, 2 * inputs, inputs // 2, other], [45, 20, 20, 15])[0]
    end = random.random()
    if end < 0.07:
        inputs = random.choice([1, 1, 2, 3, 3, 3, 4])
    elif end < 0.13:
        outputs = random.choice([1, 1, 2, 3, 3, 4, 5, 10, 21])
    layer = _USUAL_LAYERS[dims](random, inputs, outputs)
    inputs, outputs, size, kernel, dilation, transposed = layer[:6]
    stride = layer.stride or ([2] * dims if random.random() < 0.12 else [1] * dims)
    dilation = dilation if max(stride) == 1 else [1] * dims
    groups, kind = 1, random.random()
    if kind < 0.04 and inputs > 4 and not transposed:
        groups = outputs = inputs
    elif kind < 0.11 and dims == 2 and max(kernel) > 1 and not transposed:
        groups, outputs = random.choice([2, 4, 8, 16, 32, 32]), inputs
        groups = 1 if inputs % groups or inputs < 32 else groups
    unpadded = stride == kernel or max(kernel) == 2 or (dims == 1 and random.random() < 0.5)
    padding = [0] * dims if unpadded else _same(kernel, dilation)
    if transposed and stride != kernel:
        padding = [(taps - step) // 2 for taps, step in zip(kernel, stride, strict=True)]
    if dims == 1 and padding == [0] and not transposed:  # padded before the call, as causal networks do
        size = [size[0] + dilation[0] * (kernel[0] - 1)]
    last = int(dims == 2 and random.random() < 0.14)
    batch, outputs = _pick(random, USUAL_BATCHES), max(1, outputs)
    return Convolution(
        *("usual", dtype, batch, inputs, outputs, size, kernel, stride, dilation, padding, groups, transposed, last)
    )


class _Layer(NamedTuple):
    """What a usual layer decides together; without a stride, any is right."""

    inputs: int
    outputs: int
    size: list[int]
    kernel: list[int]
    dilation: list[int]
    transposed: int
    stride: list[int] | None


def _usual_1d(random: Random, inputs: int, outputs: int) -> _Layer:
    """Sound and time series: strided filters of waveforms and their inverse, dilated stacks, pointwise layers."""
    size = [random.choice(USUAL_LENGTHS)]
    taps = _pick(random, {1: 28, 2: 16, 3: 24, 5: 4, 7: 8, 15: 6, 8: 5, 4: 4, 10: 2, 16: 2, 31: 1})
    stride, transposed, dilation = None, 0, [1]
    if taps in (4, 8, 10, 16):
        stride = [random.choice([taps // 2, taps // 2, taps // 4 or 1])]
        transposed = int(random.random() < 0.4)
    elif taps > 1 and random.random() < 0.55:
        dilation = [random.choice([2, 3, 4, 8, 9, 16, 32, 64, 128, 256, 512])]
    outputs = _bottleneck(random, inputs, outputs) if taps == 1 else outputs
    return _Layer(inputs, outputs, size, [taps], dilation, transposed, stride)


def _usual_2d(random: Random, inputs: int, outputs: int) -> _Layer:
    """Images: residual blocks and bottlenecks, upsampling, dilated pyramids."""
    side = random.choice(USUAL_SIDES)
    widths = [side, side * 4 // 3, side * 3 // 2, side * 2, side * 5 // 4]
    size = [side, random.choices(widths, [62, 12, 10, 8, 8])[0]]
    taps = _pick(random, {1: 24, 3: 52, 2: 7, 4: 6, 5: 5, 7: 6})
    stride, transposed, dilation = None, 0, [1, 1]
    outputs = _bottleneck(random, inputs, outputs) if taps == 1 else outputs
    if taps in (2, 4):
        stride, transposed = [2, 2], int(random.random() < 0.75)
    if taps == 3 and random.random() < 0.12:
        dilation = [random.choice([2, 4, 6, 12, 18])] * 2
    return _Layer(inputs, outputs, size, [taps, taps], dilation, transposed, stride)


def _usual_3d(random: Random, inputs: int, outputs: int) -> _Layer:
    """Volumes and video: cubes, boxes and clips; kernels that are split into space and time."""
    edge = random.choice(USUAL_EDGES)
    part = max(2, edge * 5 // 6)
    boxes = [[edge] * 3, [part, edge, part], [edge, edge, max(2, edge * 3 // 4)], [edge, edge, max(2, edge // 2)]]
    clip = [random.choice([4, 8, 16, 32]), edge * 2, edge * 2]
    size = random.choices([*boxes, clip], [45, 12, 15, 12, 16])[0]
    kernels = {(1, 1, 1): 14, (3, 3, 3): 56, (2, 2, 2): 10, (1, 3, 3): 8, (3, 1, 1): 7, (3, 7, 7): 3, (5, 5, 5): 2}
    kernel = _pick(random, kernels)
    stride, transposed = None, 0
    if kernel == (2, 2, 2):
        stride, transposed = [2, 2, 2], int(random.random() < 0.75)
    if kernel == (1, 3, 3) and random.random() < 0.4:
        stride = [1, 2, 2]
    if kernel == (3, 1, 1) and random.random() < 0.3:
        stride = [2, 1, 1]
    if kernel == (3, 7, 7):  # the stem of a network for video
        stride, inputs = [1, 2, 2], random.choice([1, 3, 3])
    return _Layer(inputs, outputs, size, list(kernel), [1] * 3, transposed, stride)


def _bottleneck(random: Random, inputs: int, outputs: int) -> int:
    """Return the outputs of a pointwise layer."""
    return random.choice([inputs, 2 * inputs, 4 * inputs, max(1, inputs // 2), max(1, inputs // 4), outputs])


def _pick(random: Random, weights: dict[Value, int]) -> Value:
    return random.choices(list(weights), list(weights.values()))[0]


def _same(kernel: list[int], dilation: list[int]) -> list[int]:
    """Return the padding that keeps the size."""
    return [step * (taps - 1) // 2 for taps, step in zip(kernel, dilation, strict=True)]


_USUAL_LAYERS = {1: _usual_1d, 2: _usual_2d, 3: _usual_3d}
# How one is drawn, and what is added to seeds, so that the grids draw differently.
GRIDS: dict[str, tuple[Callable[[Random], Convolution], int]] = {"broad": (draw_broad, 0), "usual": (draw_usual, 1000)}


def measure(convolution: Convolution, device: str = "cuda") -> list[int]:
    """Return the bytes that each of WORKS takes while it runs, besides its result."""
    dtype, dims = DTYPES[convolution.dtype], len(convolution.size)
    inputs = torch.zeros((convolution.batch, convolution.inputs, *convolution.size), device=device, dtype=dtype)
    weight = torch.zeros(convolution.weight_shape, device=device, dtype=dtype)
    if convolution.channels_last:
        layout = torch.channels_last if dims == 2 else torch.channels_last_3d
        inputs, weight = inputs.contiguous(memory_format=layout), weight.contiguous(memory_format=layout)
    stride, padding, dilation = convolution.stride, convolution.padding, convolution.dilation
    how = (stride, padding, dilation, bool(convolution.transposed), [0] * dims, convolution.groups)
    output, forward = _temporary(lambda: torch.ops.aten.convolution(inputs, weight, None, *how))
    gradient = torch.zeros_like(output)
    del output
    backward = partial(torch.ops.aten.convolution_backward, gradient, inputs, weight, None, *how)
    _, of_inputs = _temporary(lambda: backward([True, False, False]))
    _, of_weight = _temporary(lambda: backward([False, True, False]))
    return [forward, of_inputs, of_weight]


def _temporary(call: Callable[[], Any]) -> tuple[Any, int]:
    """Return what a call returns, and the most bytes that it had allocated besides that, as they were asked for."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    result = call()
    after = torch.cuda.memory_stats()
    kept = after["requested_bytes.all.current"] - before
    return result, after["requested_bytes.all.peak"] - before - kept


def main() -> int:
    """Measure until the time is over; a convolution that no kernel computes is left out."""
    parser = argparse.ArgumentParser(description="Measure the workspaces of random convolutions on a card.")
    parser.add_argument("grid", choices=GRIDS)
    parser.add_argument("seed", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch finds no card here, and only a card has workspaces to measure.")
    torch.zeros(1, device="cuda")  # the context takes seconds
    end, rows, errors = time.monotonic() + asked.seconds, 0, 0
    with asked.out.open("w", encoding="utf-8") as file:
        for convolution in draw(asked.grid, asked.seed):
            if time.monotonic() > end:
                break
            try:
                row = [*convolution, *measure(convolution)]
            except RuntimeError as error:  # also out of memory
                errors += 1
                if errors <= ERRORS_SHOWN:
                    sys.stderr.write(f"{convolution}: {error}\n")
                torch.cuda.empty_cache()
                continue
            rows += 1
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
            if rows % ROWS_BETWEEN_FLUSHES == 0:
                torch.cuda.empty_cache()
                file.flush()
    sys.stdout.write(f"{asked.grid}, seed {asked.seed}: {rows} rows, {errors} that failed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
