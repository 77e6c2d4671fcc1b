"""Grows the trees of `src/ownlab_guest/fit/convolution_kernels.json` from measured workspaces of convolutions.

`PYTHONPATH=src python tests_gpu/fit/grow_convolution_trees.py OUT.json [--only WORK/DTYPE/KIND …] [--jobs N]`, with an
interpreter that has torch and numpy; no card is needed. The data are those of `measure_convolutions.py`. The same data give the
same file. With `--only`, the other trees are taken from the shipped file. For each tree it prints how far it is off for
convolutions that were held back while its size was chosen, and whether the shipped one is equal.

What a tree may ask and what a leaf may answer is computed by the functions of the shipped package that read the trees, so that
both always mean the same.

The shipped file (2026-11-16) was grown before sorts were stable here, so that ties between leaves fell as numpy's sort on that
processor left them. 14 of its 24 trees grow again as they are; the other ten answer differently for 858 of 314,595 calls, with
no tree's error over its calls off by more than 0.3 points either way. All of them take two to three minutes of one core.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from measure_convolutions import DTYPES, WORKS, Convolution

from ownlab_guest.fit import convolution_workspaces as shipped

DATA = Path(__file__).with_name("convolution-grid-h200.jsonl.gz")
SHIPPED = Path(shipped.__file__).with_name("convolution_kernels.json")
PRECISIONS = ("float32", "half")
KINDS = ("plain", "last", "grouped", "depthwise")
MIB = 1024**2

# What a split may ask. Where two splits are equally good, the first of these is taken: another order gives other trees.
PROPERTIES = (
    *("batch", "in", "out", "least", "most", "in_group", "in%8", "out%8", "in%64", "out%64", "taps", "kmax", "stride"),
    *("dilation", "positions", "image_positions", "result_each", "each%2", "each%8", "iw", "rw", "weights", "groups"),
    *(
        "depthwise",
        "layout",
        "half16",
        "dims",
        "pad",
        "flops",
        "ratio",
        "tiles",
        "smax",
        "reduction",
        "out_group",
        "kmin",
    ),
    *("image_each", "waves", "weight_waves", "product"),
)
FRACTIONS = ("product", "ratio")  # the others are whole numbers
# What a leaf may answer: these copies with each of the extras; then copies alone, and products for each image.
COPIES = ("0", "IRW", "IW", "RW", "IR", "W")
EXTRAS = (
    *("0", "1", "2", "3", "4", "6", "8", "12", "16"),
    *("p1", "p2", "p3", "p4", "p6", "p8", "p12", "p15", "pb", "p32", "b1"),
)
COPIES_ALONE = ("irw", "iw", "rw", "ir", "I", "R", "i", "r")
PRODUCTS = ("M0", "M1", "M4")
LEAVES = (*(f"{copies}+{extra}" for copies in COPIES for extra in EXTRAS), *COPIES_ALONE, *PRODUCTS)

USUAL_WEIGHT = 3  # one usual convolution counts as much as this many of the broad grid
LEAST_SCALE = 4 * MIB  # errors are shares of a call's copies, or of this: less does not matter to a prediction
EXACT = 0.004  # a share below which an answer counts as the right one
INEXACT_COST = 0.02  # so that of two answers that are nearly right, the one that is exactly right more often wins
DONE = 1e-3  # a leaf with a lower cost for each call is not split
CHEAPEST, MOST_FREQUENT = 40, 25  # leaves that a split tries: best for all of its calls, and best for many of them
MOST_THRESHOLDS = 64  # that are tried for a property
HELD_BACK = 0.2  # the share of calls that choose between shapes


class Shape(NamedTuple):
    """How far a tree may grow."""

    depth: int
    least_calls: int  # in each part of a split
    least_gain: float  # in cost, of a split


SHAPES = (Shape(11, 15, 1.0), Shape(16, 6, 0.3))


class Name(NamedTuple):
    """Which of the trees."""

    work: str
    precision: str
    kind: str

    def __str__(self) -> str:
        return "/".join(self)


class Tensor:
    """As much of a tensor as the shipped functions ask for: 300,000 calls with real ones would take minutes."""

    def __init__(self, shape: Iterable[int], dtype: Any, channels_last: bool) -> None:
        self.shape, self.dtype, self.channels_last = tuple(shape), dtype, channels_last

    def numel(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    def is_contiguous(self, memory_format: Any = torch.contiguous_format) -> bool:
        """Whether it has this layout: the one that was asked for, also where sizes of 1 make them equal."""
        return (memory_format is not torch.contiguous_format) == self.channels_last


class Call(NamedTuple):
    """One kernel that ran: as the trees see it, and what it took."""

    call: Any
    workspace: int
    weight: int


class Node(NamedTuple):
    """A tree: `leaf` answers if there is no split."""

    leaf: int
    split: tuple[int, float, Node, Node] | None = None  # property, largest value that goes left, left, right


class Table(NamedTuple):
    """The calls of one tree, one row each."""

    properties: Any
    answers: Any  # of LEAVES, in bytes
    workspaces: Any
    scales: Any
    costs: Any  # of LEAVES


class Grown(NamedTuple):
    """One tree in the format of the file, and how good it is."""

    tree: shipped.Tree
    calls: int
    error: float  # of calls held back: the sum of errors as a share of the sum of scales
    wrong: float  # the share of calls held back that are off by more than a fiftieth


def read(path: Path) -> dict[Name, list[Call]]:
    """Return the measured calls of each tree, in the order of the file."""
    calls: dict[Name, list[Call]] = {
        Name(work, precision, kind): [] for work in WORKS for precision in PRECISIONS for kind in KINDS
    }
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            convolution = Convolution(*row[: -len(WORKS)])
            call = _as_shipped(convolution)
            precision = PRECISIONS[0] if convolution.dtype == "f" else PRECISIONS[1]
            weight = USUAL_WEIGHT if convolution.grid == "usual" else 1
            # A transposed convolution is the input gradient of a plain one, and the other way round.
            works = (WORKS[1], WORKS[0], WORKS[2]) if convolution.transposed else WORKS
            for work, workspace in zip(works, row[-len(WORKS) :], strict=True):
                calls[Name(work, precision, _kind(call))].append(Call(call, workspace, weight))
    return calls


def _as_shipped(convolution: Convolution) -> Any:
    """Return the convolution as the shipped functions take it."""
    last, dtype = bool(convolution.channels_last), DTYPES[convolution.dtype]
    inputs = Tensor((convolution.batch, convolution.inputs, *convolution.size), dtype, last)
    outputs = Tensor((convolution.batch, convolution.outputs, *convolution.out_size), dtype, last)
    image, result = (outputs, inputs) if convolution.transposed else (inputs, outputs)
    weight = Tensor(convolution.weight_shape, dtype, last)
    how = (convolution.stride, convolution.padding, convolution.dilation, convolution.groups)
    return shipped._Call(image, result, weight, *how)


def _kind(call: Any) -> str:
    if call.groups == 1:
        return "last" if call.image.channels_last else "plain"
    return "depthwise" if call.groups == call.image.shape[1] else "grouped"


def tabulate(calls: list[Call]) -> Table:
    """Return what the growing works on."""
    properties = [[asked[name] for name in PROPERTIES] for asked in (shipped._properties(call.call) for call in calls)]
    answers = np.array([_answers(call.call) for call in calls], float)
    workspaces = np.array([call.workspace for call in calls], float)
    scales = np.array([max(shipped._copies("IRW", call.call), LEAST_SCALE) for call in calls], float)
    errors = np.abs(answers - workspaces[:, None]) / scales[:, None]
    costs = np.minimum(errors, 1.0).astype(np.float32) + INEXACT_COST * (errors > EXACT)
    costs *= np.array([call.weight for call in calls])[:, None]
    return Table(np.array(properties, float), answers, workspaces, scales, costs)


def _answers(call: Any) -> list[int]:
    """Return the bytes that each of LEAVES stands for."""
    sizes = {letter: shipped._copies(letter, call) for letter in "0IRWirw"}
    extras = {extra: shipped._extra(extra, call) for extra in EXTRAS}
    copies = {which: sum(sizes[letter] for letter in which) for which in (*COPIES, *COPIES_ALONE)}
    products = [
        min(extras["pb"], copies["IR"] + shipped._extra(f"p{product.removeprefix('M')}", call)) for product in PRODUCTS
    ]
    sums = [copies[which] + extras[extra] for which in COPIES for extra in EXTRAS]
    return [*sums, *(copies[which] for which in COPIES_ALONE), *products]


def grow(table: Table, chosen: Any, shape: Shape) -> Node:
    """Return a tree for the chosen rows. Sorts are stable throughout: the result must not depend on the processor."""
    costs = table.costs[chosen]
    total = costs.sum(0)
    node = Node(int(total.argmin()))
    if shape.depth == 0 or len(chosen) < 2 * shape.least_calls or total.min() < DONE * len(chosen):
        return node
    favourites = np.bincount(costs.argmin(1), minlength=len(LEAVES))
    frequent = favourites.argsort(kind="stable")[::-1][:MOST_FREQUENT]
    tried = np.unique(np.concatenate([np.argsort(total, kind="stable")[:CHEAPEST], frequent]))
    split = _best_split(table.properties[chosen], costs[:, tried], float(total.min()) - shape.least_gain, shape)
    if split is None:
        return node
    place, threshold = split
    goes_left = table.properties[chosen, place] <= threshold
    smaller = shape._replace(depth=shape.depth - 1)
    left, right = (grow(table, part, smaller) for part in (chosen[goes_left], chosen[~goes_left]))
    return Node(node.leaf, (place, threshold, left, right))


def _best_split(properties: Any, costs: Any, most: float, shape: Shape) -> tuple[int, float] | None:
    """Return the property and the threshold whose two best leaves cost least, and less than `most`."""
    best, total, calls = None, costs.sum(0), len(costs)
    for place in range(properties.shape[1]):
        order = np.argsort(properties[:, place], kind="stable")
        values = properties[order, place]
        ends: Any = np.nonzero(values[1:] != values[:-1])[0] + 1
        ends = ends[(ends >= shape.least_calls) & (ends <= calls - shape.least_calls)]
        if not len(ends):
            continue
        if len(ends) > MOST_THRESHOLDS:
            ends = ends[np.linspace(0, len(ends) - 1, MOST_THRESHOLDS).astype(int)]
        left = np.cumsum(costs[order], 0)[ends - 1]
        both = left.min(1) + (total - left).min(1)
        least = int(both.argmin())
        if both[least] < most:
            end = ends[least]
            most, best = float(both[least]), (place, float((values[end - 1] + values[end]) / 2))
    return best


def _errors(table: Table, tree: Node, rows: Any) -> tuple[float, float]:
    """Return the share of the bytes by which a tree is off in these rows, and the share of rows that it has wrong."""
    answers = np.array([table.answers[row, _leaf(tree, table.properties[row])] for row in rows])
    errors, scales = np.abs(answers - table.workspaces[rows]), table.scales[rows]
    return round(float(errors.sum() / scales.sum()), 4), round(float((errors / scales > 0.02).mean()), 4)


def _leaf(tree: Node, properties: Any) -> int:
    while tree.split is not None:
        place, most, left, right = tree.split
        tree = left if properties[place] <= most else right
    return tree.leaf


def _written(tree: Node) -> shipped.Tree:
    """Return a tree in the format of the file, without splits whose sides answer the same."""
    if tree.split is None:
        return LEAVES[tree.leaf]
    place, most, left, right = tree.split[0], tree.split[1], _written(tree.split[2]), _written(tree.split[3])
    if left == right:
        return left
    name = PROPERTIES[place]
    return [name, round(most, 4) if name in FRACTIONS else int(most), left, right]


def grow_best(calls: list[Call]) -> Grown:
    """Grow a tree of each of SHAPES without the calls that are held back, then one of the better shape with all."""
    table = tabulate(calls)
    shuffled = np.random.default_rng(0).permutation(len(calls))
    cut = int((1 - HELD_BACK) * len(calls))
    tried = []
    for shape in SHAPES:
        error, wrong = _errors(table, grow(table, shuffled[:cut], shape), shuffled[cut:])
        tried.append((error + 0.1 * wrong, shape, error, wrong))
    _, shape, error, wrong = min(tried, key=lambda one: one[0])
    return Grown(_written(grow(table, np.arange(len(calls)), shape)), len(calls), error, wrong)


def main() -> int:
    """Grow the trees that are asked for, and write the file."""
    parser = argparse.ArgumentParser(description="Grow the trees of cuDNN's workspaces from measured convolutions.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", metavar="WORK/DTYPE/KIND", help="such as forward/half/last")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    calls = read(asked.data)
    names = [name for name in calls if asked.only is None or str(name) in asked.only]
    unknown = set(asked.only or ()) - {str(name) for name in names}
    if unknown:
        parser.error(f"no such tree: {', '.join(sorted(unknown))}. There are: {', '.join(map(str, calls))}")
    trees = json.loads(SHIPPED.read_text(encoding="utf-8"))
    with ProcessPoolExecutor(asked.jobs) as pool:
        for name, grown in zip(names, pool.map(grow_best, (calls[name] for name in names)), strict=True):
            same = "as shipped" if trees[name.work][name.precision][name.kind] == grown.tree else "not as shipped"
            trees[name.work][name.precision][name.kind] = grown.tree
            sys.stdout.write(
                f"{name}: {grown.calls} calls; held back: {100 * grown.error:.2f} % off, {100 * grown.wrong:.1f} % wrong; {same}\n"
            )
            sys.stdout.flush()
    asked.out.write_text(json.dumps(trees, separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
