"""Models whose parameters and FLOPs are known by hand (`fit_by_hand.py`): one sample of each.

Used by `ownlab fit benchmarks/fit_models.py:gpt2`, and by the other tools in `fit_peers.py`.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch  # noqa: TID251  # the interpreter that reads this has it
from torch import nn  # noqa: TID251

# torchvision's compiled operations, which these models do not use, need the very torch that it was built with; and
# transformers imports it where it is there.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))

MODELS = ("resnet18", "resnet50", "vgg16", "vit", "gpt2", "bert", "llama", "lstm")


def vision(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A model of torchvision, at 224 by 224."""
    models = importlib.import_module("torchvision.models")
    return getattr(models, name)(weights=None), (torch.randn(1, 3, 224, 224),)


class Logits(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
    """A model of transformers that takes tokens and returns its first output: some peers can call no other."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> Any:
        return self.model(input_ids=ids)[0]


def tokens(length: int, vocabulary: int) -> tuple[torch.Tensor]:
    return (torch.randint(0, vocabulary, (1, length)),)


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two layers of LSTM between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10000, 512)
        self.recurrent = nn.LSTM(512, 1024, num_layers=2, batch_first=True)
        self.head = nn.Linear(1024, 10000)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.embedding(ids))[0])


def resnet18() -> Any:
    return vision("resnet18")


def resnet50() -> Any:
    return vision("resnet50")


def vgg16() -> Any:
    return vision("vgg16")


def vit() -> Any:
    return vision("vit_b_16")


def gpt2() -> Any:
    of = importlib.import_module("transformers")
    return Logits(of.GPT2LMHeadModel(of.GPT2Config(use_cache=False))), tokens(1024, 50257)


def bert() -> Any:
    of = importlib.import_module("transformers")
    return Logits(of.BertForSequenceClassification(of.BertConfig())), tokens(128, 30522)


def llama() -> Any:
    of = importlib.import_module("transformers")
    config = of.LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
        use_cache=False,
    )
    return Logits(of.LlamaForCausalLM(config)), tokens(1024, 32000)


def lstm() -> Any:
    return Recurrent(), tokens(64, 10000)
