"""Adds torch.npu, as the real one does."""

from types import SimpleNamespace

import torch  # noqa: TID251  a stand-in for foreign code, seen by guest processes alone

torch.npu = SimpleNamespace(
    device_count=lambda: 1,
    get_device_properties=lambda index: SimpleNamespace(name="Ascend910B4", total_memory=31675383808),
)
