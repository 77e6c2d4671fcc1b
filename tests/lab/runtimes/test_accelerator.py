"""The proposal for a notebook that was made for a GPU or TPU on Colab."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.lab.runtimes.accelerator import propose
from ownlab.lab.runtimes.records import RuntimeType


def runtime_type(name: str, kind: str | None = None, parts: int = 12, cards: int = 1, why_not: str = "") -> RuntimeType:
    share = {12: str(cards), 6: "½"}[parts]
    words = f"{share} × {kind}" if kind else "CPU"
    environment = "mine" if name.startswith("mine") else "default"
    return RuntimeType(
        name=name,
        label=f"Python 3 ({words})",
        environment=environment,
        python="/usr/bin/python3",
        kind=kind,
        cards=cards if kind else 0,
        parts=parts,
        units_per_hour=0,
        free=not why_not,
        why_not=why_not,
    )


CPU = runtime_type("cpu")
ONE, HALF = runtime_type("one", "NVIDIA H200"), runtime_type("half", "NVIDIA H200", 6)
TWO = runtime_type("two", "NVIDIA H200", cards=2)
T4, A100 = runtime_type("t4", "Tesla T4"), runtime_type("a100", "NVIDIA A100-SXM4-80GB")
TPU = runtime_type("tpu", "TPU v5e")
MINE, MINE_ONE = runtime_type("mine-cpu"), runtime_type("mine-one", "NVIDIA H200")
TAKEN = runtime_type("one", "NVIDIA H200", why_not="card 0 (NVIDIA H200): ann, train.ipynb, since 10:02")
CARDS = (CPU, ONE, HALF, TWO, MINE, MINE_ONE)


def notebook(accelerator: object = "GPU", gpu: object = None, **ownlab: object) -> dict[str, Any]:
    metadata: dict[str, Any] = {"accelerator": accelerator, "ownlab": ownlab}
    return {"cells": [], "metadata": {**metadata, "colab": {"gpuType": gpu}} if gpu else metadata}


@pytest.mark.parametrize(
    ("asked", "types", "present", "expected", "words"),
    [
        (notebook(gpu="T4"), CARDS, "cpu", "one", "This notebook was made for a T4 GPU. Run it on 1 × NVIDIA H200?"),
        (notebook(gpu="A100"), CARDS, "cpu", "one", "This notebook was made for an A100 GPU. Run it on"),
        (notebook(), CARDS, "cpu", "one", "This notebook was made for a GPU. Run it on 1 × NVIDIA H200?"),
        (notebook(), CARDS, "mine-cpu", "mine-one", "made for a GPU. Run it on"),
        (notebook(gpu="A100"), (CPU, T4, A100), "cpu", "a100", "Run it on 1 × NVIDIA A100-SXM4-80GB?"),
        (notebook(gpu="T4"), (CPU, A100, T4), "cpu", "t4", "Run it on 1 × Tesla T4?"),
        (notebook(gpu="T4"), (CPU, TAKEN, HALF), "cpu", "half", "Run it on ½ × NVIDIA H200?"),
        (
            notebook(),
            (CPU, TAKEN),
            "cpu",
            "one",
            "It would have to wait for 1 × NVIDIA H200: card 0 (NVIDIA H200): ann",
        ),
        (notebook("gpu"), (CPU,), "cpu", None, "made for a GPU, but this machine has no GPU."),
        (notebook("TPU", "V5E1"), CARDS, "cpu", None, "made for a TPU, but this machine has no TPU."),
        (notebook("TPU"), (*CARDS, TPU), "cpu", "tpu", "Run it on 1 × TPU v5e?"),
    ],
)
def test_proposals(
    asked: dict[str, Any], types: tuple[RuntimeType, ...], present: str, expected: str | None, words: str
) -> None:
    proposal = propose(asked, types, present)
    assert proposal is not None
    assert proposal.type == expected
    assert words in proposal.words
    assert proposal.words.startswith(proposal.made_for)


@pytest.mark.parametrize(
    ("asked", "present"),
    [
        (notebook("NONE"), "cpu"),
        (notebook(None), "cpu"),
        (notebook(["GPU"]), "cpu"),
        (notebook("IPU"), "cpu"),
        (notebook(gpu="T4"), "one"),  # it has a card
        (notebook(gpu="T4"), "half"),
        (notebook(gpu="T4"), "ir"),  # somebody else's kernel
        (notebook(gpu="T4", accelerator=False), "cpu"),  # chosen by a user
        ({"metadata": 3}, "cpu"),
        ({}, "cpu"),
    ],
)
def test_no_proposal(asked: dict[str, Any], present: str) -> None:
    assert propose(asked, CARDS, present) is None
