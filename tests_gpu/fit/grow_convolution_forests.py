"""Grows the forests that decide how much workspace cuDNN's convolutions take.

`python tests_gpu/fit/grow_convolution_forests.py OUT.json.gz` with src/ on the path grows all of them; no card is needed. The data
are those of `measure_convolutions.py`. With `--only`, the others are taken from the shipped file. `--check` prints for each forest
how far it is off for usual convolutions that it was not grown with. Needs torch, numpy and scikit-learn.

What a tree may ask and what a leaf may answer is computed by the functions of the shipped package that read the trees, so that
both always mean the same. The shipped file (2026-11-19) is from scikit-learn 1.9.1.
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
from sklearn.ensemble import RandomForestClassifier

sys.path.insert(0, str(Path(__file__).parent))
from measure_convolutions import DTYPES, WORKS, Convolution

from ownlab_guest.fit import convolution_workspaces as shipped

DATA = Path(__file__).with_name("convolution-grid-h200.jsonl.gz")
PRECISIONS = ("float32", "half")
KINDS = ("plain", "last", "grouped", "depthwise")
MIB = 1024**2

# What a leaf may answer: each of these copies with each of the extras. Partial sums are as many as a kernel splits its sums into.
COPIES = (
    *("0", "IRW", "IW", "RW", "IR", "W", "I", "R", "irw", "iw", "rw", "ir", "i", "r", "w"),
    *("IRIR", "IRIRW", "IIRW", "IRRW", "IIR", "IRR"),
)
EXTRAS = ("0", "1", "2", "3", "4", "6", "8", "12", "16", "pb", "b1", *(f"p{count}" for count in range(1, 141)))
LEAVES = tuple(f"{copies}+{extra}" for copies in COPIES for extra in EXTRAS)

USUAL_WEIGHT = 3  # one usual convolution counts as much as this many of the broad grid
LEAST_SCALE = 4 * MIB  # errors are shares of a call's copies, or of this: less does not matter to a prediction
EXACT = 0.004  # a share below which an answer counts as the right one
TREES = 10
MOST_LEAVES = {"plain": 2000, "last": 800, "grouped": 400, "depthwise": 200}  # of a tree
ASKED_OF_EACH = 0.4  # the share of properties that a split may ask
HELD_BACK = 0.15
CHUNK = 3000  # calls that are labelled at once: each has thousands of answers
WHOLE_DIGITS, FRACTION_DIGITS = 15, 6


class Name(NamedTuple):
    """Which of the forests."""

    work: str
    precision: str
    kind: str

    def __str__(self) -> str:
        return "/".join(self)


class Tensor:
    """As much of a tensor as the shipped functions ask for: 600,000 calls with real ones would take minutes."""

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


class Table(NamedTuple):
    """The calls of one forest, one row each."""

    properties: Any
    sizes: dict[str, Any]  # in bytes, by the letters of leaves
    workspaces: Any
    weights: Any

    def part(self, rows: Any) -> Table:
        """Return some of the rows."""
        sizes = {letter: column[rows] for letter, column in self.sizes.items()}
        return Table(self.properties[rows], sizes, self.workspaces[rows], self.weights[rows])

    def errors(self, answers: Any) -> Any:
        """Return by how much answers are off, as shares."""
        scales = np.maximum(self.sizes["I"] + self.sizes["R"] + self.sizes["W"], LEAST_SCALE)
        return np.abs(answers - self.workspaces) / scales


class Checked(NamedTuple):
    """How good a forest is for calls that it was not grown with."""

    calls: int
    exact: float  # the share of usual calls held back that most trees have right
    thought_of: float  # that one of the trees has right
    error: float  # of them: the sum of errors as a share of the sum of scales


def read(path: Path) -> dict[Name, Table]:
    """Return the measured calls of each forest, in the order of the file."""
    rows: dict[Name, list[tuple[list[float], dict[str, int], int, int]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            convolution = Convolution(*row[: -len(WORKS)])
            call = _as_shipped(convolution)
            precision = PRECISIONS[0] if convolution.dtype == "f" else PRECISIONS[1]
            weight = USUAL_WEIGHT if convolution.grid == "usual" else 1
            # A transposed convolution is the input gradient of a plain one, and the other way round.
            works = (WORKS[1], WORKS[0], WORKS[2]) if convolution.transposed else WORKS
            kind, sizes = _kind(call), shipped.sizes(call)
            for work, workspace in zip(works, row[-len(WORKS) :], strict=True):
                one = shipped.properties(work, call), sizes, workspace, weight
                rows.setdefault(Name(work, precision, kind), []).append(one)
    return {name: _table(calls) for name, calls in sorted(rows.items())}


def _table(calls: list[tuple[list[float], dict[str, int], int, int]]) -> Table:
    sizes = {letter: np.array([call[1][letter] for call in calls], float) for letter in calls[0][1]}
    properties, workspaces, weights = (np.array([call[place] for call in calls], float) for place in (0, 2, 3))
    return Table(properties, sizes, workspaces, weights)


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


def _answers(table: Table) -> Any:
    """Return the bytes that each of LEAVES stands for, a row for each call."""
    none = np.zeros(len(table.workspaces))
    copies = [sum((table.sizes[letter] for letter in which if letter != "0"), none) for which in COPIES]
    extras: list[Any] = [none + shipped.leaf_bytes(f"0+{extra}", table.sizes) for extra in EXTRAS]
    return (np.stack(copies, 1)[:, :, None] + np.stack(extras, 1)[:, None, :]).reshape(len(none), -1)


def label(table: Table) -> Any:
    """Return the leaf that each call took: of several that fit, the one that fits most calls; else the nearest."""
    parts = [table.part(slice(begin, begin + CHUNK)) for begin in range(0, len(table.workspaces), CHUNK)]
    frequency = np.zeros(len(LEAVES))
    for part in parts:
        fits = part.errors(_answers(part).T).T <= EXACT
        frequency += (fits * (part.weights / np.maximum(1, fits.sum(1)))[:, None]).sum(0)
    labels = []
    for part in parts:
        errors = part.errors(_answers(part).T).T
        fits = errors <= EXACT
        nearest = (errors - 1e-7 * frequency / frequency.max()).argmin(1)
        labels.append(np.where(fits.any(1), np.where(fits, frequency + 1e-9, 0).argmax(1), nearest))
    return np.concatenate(labels)


def _grown(table: Table, labels: Any, kind: str) -> RandomForestClassifier:
    forest = RandomForestClassifier(
        TREES, max_leaf_nodes=MOST_LEAVES[kind], max_features=ASKED_OF_EACH, random_state=0, n_jobs=1
    )
    return forest.fit(table.properties, labels, sample_weight=table.weights)


def _written(forest: RandomForestClassifier) -> dict[str, Any]:
    """Return a forest in the format of the file."""
    classes = [int(leaf) for leaf in forest.classes_]
    used: dict[int, int] = {}
    trees = [_written_tree(one.tree_, classes, used) for one in forest.estimators_]
    return {"leaves": [LEAVES[leaf] for leaf in used], "trees": trees}


def _written_tree(tree: Any, classes: list[int], used: dict[int, int]) -> list[float]:
    def part(node: int) -> list[float]:
        if tree.children_left[node] < 0:
            leaf = classes[int(tree.value[node, 0].argmax())]
            return [-1 - used.setdefault(leaf, len(used))]
        left, right = part(tree.children_left[node]), part(tree.children_right[node])
        if left == right:
            return left
        return [int(tree.feature[node]), _rounded(float(tree.threshold[node])), len(left), *left, *right]

    return part(0)


def _rounded(threshold: float) -> float:
    """A threshold that says the same in fewer digits: below a whole number and a half are whole numbers."""
    if threshold == int(threshold) + 0.5:
        return int(threshold)
    short = float(f"{threshold:.{FRACTION_DIGITS}g}")
    return int(short) if short == int(short) else short


def _bytes_of(written: dict[str, Any], table: Table) -> Any:
    """Return what each tree of a written forest answers, in bytes: a row for each call."""
    forest = shipped.Forest(**written)
    rows = []
    for number, values in enumerate(table.properties):
        sizes = {letter: int(column[number]) for letter, column in table.sizes.items()}
        rows.append([shipped.leaf_bytes(leaf, sizes) for leaf in forest.answers(values)])
    return np.array(rows)


def grow(table: Table, kind: str) -> dict[str, Any]:
    """Grow a forest with all calls."""
    return _written(_grown(table, label(table), kind))


def check(table: Table, kind: str) -> Checked:
    """Grow a forest without the calls that are held back, and look how good it is for them."""
    labels = label(table)
    shuffled = np.random.default_rng(0).permutation(len(labels))
    cut = int((1 - HELD_BACK) * len(labels))
    seen, held = shuffled[:cut], shuffled[cut:]
    held = held[table.weights[held] == USUAL_WEIGHT]
    tried, rest = _written(_grown(table.part(seen), labels[seen], kind)), table.part(held)
    answers = _bytes_of(tried, rest)
    chosen = rest.errors(np.array([shipped.Estimate.of(list(row)) for row in answers], float))
    scales = np.maximum(rest.sizes["I"] + rest.sizes["R"] + rest.sizes["W"], LEAST_SCALE)
    thought_of = (rest.errors(answers.T) <= EXACT).any(0).mean()
    error = float((np.minimum(chosen, 1) * scales).sum() / scales.sum())
    return Checked(len(labels), float((chosen <= EXACT).mean()), float(thought_of), error)


def main() -> int:
    """Grow the forests that are asked for, and write the file."""
    parser = argparse.ArgumentParser(description="Grow the forests of cuDNN's workspaces from measured convolutions.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", metavar="WORK/DTYPE/KIND", help="such as forward/half/last")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; say how good forests are for calls held back"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    tables = read(asked.data)
    names = [name for name in tables if asked.only is None or str(name) in asked.only]
    unknown = set(asked.only or ()) - {str(name) for name in names}
    if unknown:
        parser.error(f"no such forest: {', '.join(sorted(unknown))}. There are: {', '.join(map(str, tables))}")
    chosen, kinds = [tables[name] for name in names], [name.kind for name in names]
    with ProcessPoolExecutor(asked.jobs) as pool:
        if asked.check:
            for name, found in zip(names, pool.map(check, chosen, kinds), strict=True):
                sys.stdout.write(
                    f"{name}: {found.calls} calls; held back: {100 * found.exact:.1f} % exact, "
                    f"{100 * found.thought_of:.1f} % in some tree, {100 * found.error:.2f} % off\n"
                )
                sys.stdout.flush()
            return 0
        shipped_file = Path(shipped._FILE)
        forests: dict[str, Any] = json.loads(gzip.decompress(shipped_file.read_bytes())) if asked.only else {}
        for name, grown in zip(names, pool.map(grow, chosen, kinds), strict=True):
            forests.setdefault(name.work, {}).setdefault(name.precision, {})[name.kind] = grown
            sys.stdout.write(f"{name}: {len(tables[name].workspaces)} calls\n")
            sys.stdout.flush()
    content = json.dumps(forests, separators=(",", ":"), sort_keys=True)
    asked.out.write_bytes(gzip.compress(content.encode(), 9, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
