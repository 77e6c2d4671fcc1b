"""`ownlab.data` where ownlab is not installed in the kernel's environment."""

from ownlab_guest.data.dataset import PackedDataset
from ownlab_guest.data.dataset import open_dataset as open  # noqa: A004  # as in gzip.open: used as ownlab.data.open
from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.kernel.data_commands import bench, get, inspect, pack, stage, unpack, verify

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
