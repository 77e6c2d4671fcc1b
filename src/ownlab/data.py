"""Data sets for training scripts and notebooks: what `ownlab data` does, and `open`, which reads what was packed.

import ownlab.data

ownlab.data.pack("train.zip", "packed/train")
dataset = ownlab.data.open("packed/train", shuffle=True, transform=transform)
loader = dataset.loader(batch=64, workers=4)
"""

from __future__ import annotations

from ownlab.instruments.data.notebook import bench, get, inspect, pack, stage, unpack, verify
from ownlab.notebook_language import follow_environment
from ownlab_guest.data.dataset import PackedDataset
from ownlab_guest.data.dataset import open_dataset as open  # noqa: A004  # as in gzip.open: used as ownlab.data.open
from ownlab_guest.data.errors import DamagedData, DataError

__all__ = [
    "DamagedData",
    "DataError",
    "PackedDataset",
    "bench",
    "get",
    "inspect",
    "open",
    "pack",
    "stage",
    "unpack",
    "verify",
]

follow_environment()
