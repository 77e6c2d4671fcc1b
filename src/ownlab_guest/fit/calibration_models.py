"""Small models that check a calibration: each allocates memory besides tensors. Read as `calibration_models.py:NAME`."""

from typing import Any, Tuple

import torch
from torch import nn

Made = Tuple[Any, ...]


def convolutions(batch: int = 16) -> Made:
    """Copies and workspaces of cuDNN."""
    body = [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*body), (torch.randn(batch, 64, 112, 112),)


def products(batch: int = 4096) -> Made:
    """Workspaces of cuBLAS, and sums of bias gradients."""
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)), (torch.randn(batch, 1024),)


def attention(batch: int = 8) -> Made:
    """The attention kernel that torch chooses, and the workspace of its backward pass."""
    return nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True), (torch.randn(batch, 1024, 512),)


def recurrent(batch: int = 32) -> Made:
    """The reserve of cuDNN for recurrent layers."""
    layer = nn.LSTM(256, 512, num_layers=2, batch_first=True)
    return layer, (torch.randn(batch, 128, 256),), lambda out: out[0].mean()


def embeddings(batch: int = 64) -> Made:
    """Gradients of embeddings, which are sorted first."""
    return nn.Sequential(nn.Embedding(50000, 256), nn.Linear(256, 256)), (torch.zeros(batch, 512, dtype=torch.long),)
