"""`ownlab.data` where ownlab is not installed in the kernel's environment."""

from ownlab_guest.data.dataset import PackedDataset
from ownlab_guest.data.dataset import open_dataset as open  # noqa: A004  # as in gzip.open: used as ownlab.data.open
from ownlab_guest.data.errors import DamagedData, DataError

__all__ = ["DamagedData", "DataError", "PackedDataset", "open"]
