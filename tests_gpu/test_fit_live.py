"""A model that lies on a real NVIDIA card is traced where it lives: nothing comes to the card, and the answer is the CPU's.

Plain functions without fixtures. Needs torch alone.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

# What torch and its libraries warn of is theirs.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.takes_the_card]


def model_of(device: str) -> Any:
    from torch import nn

    class Net(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.LSTM(256, 512, 2, batch_first=True)
            self.head = nn.Linear(512, 10)

        def forward(self, inputs: Any) -> Any:
            return self.head(self.rows(inputs)[0][:, -1])

    return Net().to(device)


def test_a_model_on_the_card() -> None:
    import torch
    from torch import nn

    live: Any = importlib.import_module("ownlab_guest.fit.live_model")

    def answered(device: str) -> dict[str, Any]:
        inputs = torch.randn(16, 64, 256, device=device)
        weights = torch.rand(10, device=device)
        targets = torch.zeros(16, dtype=torch.long, device=device)
        loss = nn.CrossEntropyLoss(weight=weights)
        model = model_of(device)
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.get_rng_state()
        answer: dict[str, Any] = live.answer(
            live.LiveModel(model, inputs, lambda out: loss(out, targets)), {"target": ""}
        )
        after = torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.get_rng_state()
        assert before[:2] == after[:2]
        assert torch.equal(before[2], after[2])
        assert all(
            parameter.is_cuda == (device == "cuda") and parameter.grad is None for parameter in model.parameters()
        )
        model(inputs).sum().backward()  # it still computes
        return answer

    there, here = answered("cuda"), answered("cpu")
    assert there.get("error") is None, there["error"]
    assert [there[key] for key in ("events", "flops", "parameters")] == [
        here[key] for key in ("events", "flops", "parameters")
    ]
