"""The proof of an environment, with the torch of this Python on a real card."""

from __future__ import annotations

import sys

import torch

from ownlab.lab.environments.proof import prove


def test_torch_is_proven_on_every_card() -> None:
    proof = prove(sys.executable)
    assert proof.proven, proof.summary
    cards = torch.cuda.device_count()
    ending = "proven on card 0" if cards == 1 else f"and {cards - 1}"
    assert proof.summary.startswith(f"torch {torch.__version__}, ")
    assert proof.summary.endswith(ending)
