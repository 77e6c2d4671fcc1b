"""Data sets for training scripts and notebooks: `ownlab.data.open(path)` reads what `ownlab data pack` made.

import ownlab.data

dataset = ownlab.data.open("packed/train", shuffle=True, transform=transform)
loader = dataset.loader(batch=64, workers=4)
"""

from __future__ import annotations

from ownlab_guest.data.dataset import PackedDataset
from ownlab_guest.data.dataset import open_dataset as open  # noqa: A004  # as in gzip.open: used as ownlab.data.open
from ownlab_guest.data.errors import DamagedData, DataError

__all__ = ["DamagedData", "DataError", "PackedDataset", "open"]
